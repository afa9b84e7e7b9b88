"""A finished run, ready to translate: config, tokenizer, and the model in float32 whatever it was trained in."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import keras

from pipeline.config import DecodingSettings, RunConfig, load_run_config
from pipeline.config_data import CorpusSettings
from pipeline.decoding.beam import BeamSettings
from pipeline.decoding.sampling import Sampler
from pipeline.decoding.search import BeamSearch, GreedySearch, Sampling, Search
from pipeline.decoding.translator import Translator
from pipeline.errors import DAMAGE, InputError
from pipeline.inspection.trace import Tracer
from pipeline.manifest import check_golden
from pipeline.model.build import build_model
from pipeline.run_directory import RunDirectory
from pipeline.text.tokenizer import Tokenizer
from pipeline.training.checkpoint import Checkpoints, load_checkpoint
from pipeline.training.device import batches_at_once
from pipeline.weights_file import check_weights_file


@dataclass(frozen=True)
class TrainedRun:
    """What evaluation and translation need of a run."""

    directory: RunDirectory
    config: RunConfig
    tokenizer: Tokenizer
    model: keras.Model

    @cached_property
    def translator(self) -> Translator:
        """Translates as the config says. Made once, since its graph takes seconds to trace."""
        search = make_search(self.config.decoding, self.config.run.seed)
        return make_translator(self.model, self.tokenizer, self.config, search)

    def tracer(self, sites: Sequence[str]) -> Tracer:
        """Reads the attention of those sites, named twice or once. Made once for each choice of them."""
        key = tuple(dict.fromkeys(sites))
        if key not in self._tracers:
            self._tracers[key] = Tracer(
                self.model,
                self.tokenizer,
                sites=key,
                max_positions=self.config.model.max_positions,
                workers=batches_at_once(),
            )
        return self._tracers[key]

    @cached_property
    def _tracers(self) -> dict[tuple[str, ...], Tracer]:
        return {}


def settings_of_set(config: RunConfig, name: str, path: Path) -> CorpusSettings:
    """Where the text of a run's `train`, `validation` or `test` set is.

    Raises:
        InputError: the config, which stands in the file at `path`, names no such set.
    """
    settings = getattr(config.data, name)
    if settings is None:
        raise InputError(f"{path}: data.{name} is null; give your own text with --source")
    return settings


def load_run(root: Path, checkpoint: str = "best") -> TrainedRun:
    """Loads a run. Weights alone are read from its files, into a model built from its config.

    Args:
        root: the run's folder.
        checkpoint: `best`, or `last` for the newest weights; that works while training goes on.

    Raises:
        InputError: it is no run, has nothing trained yet, or its files do not fit together.
    """
    run = RunDirectory.open(root)
    config = load_run_config(run.config)
    tokenizer = Tokenizer(run.tokenizer)
    checkpoints = Checkpoints(run.checkpoints)
    best = run.model if run.model.is_file() else checkpoints.best
    weights = checkpoints.last() if checkpoint == "last" else best
    if not weights.is_file():
        raise InputError(f"{weights}: missing, so that there is nothing to translate with; train first, or anew")
    check_weights_file(weights, config.model.least_parameters(tokenizer.vocabulary_size))
    model = build_model(config.model, tokenizer.vocabulary_size)
    if weights == run.model:
        _load_weights(model, weights)
        check_golden(run, model, tokenizer.vocabulary_size)
    else:
        load_checkpoint(weights, model)
    return TrainedRun(run, config, tokenizer, model)


def make_translator(model: keras.Model, tokenizer: Tokenizer, config: RunConfig, search: Search) -> Translator:
    """Translates by that search, in batches and up to lengths as the config says."""
    settings = config.decoding
    return Translator(
        model,
        tokenizer,
        search=search,
        batch_sentences=settings.batch_sentences,
        max_target_ratio=settings.max_target_ratio,
        max_target_extra=settings.max_target_extra,
        max_positions=config.model.max_positions,
        # What is drawn by chance depends on the order of the draws.
        workers=1 if settings.kind == "sampling" else batches_at_once(),
    )


def make_search(settings: DecodingSettings, seed: int) -> Search:
    """The search that the settings ask for; `seed` is for what is drawn by chance."""
    constraints = {"min_length": settings.min_length, "no_repeat_ngram": settings.no_repeat_ngram}
    if settings.kind == "sampling":
        sampler = Sampler(settings.temperature, settings.top_k, settings.top_p, seed)
        return Sampling(**constraints, sampler=sampler, count=settings.n_best)
    if settings.kind == "greedy":
        return GreedySearch(**constraints)
    return BeamSearch(
        BeamSettings(
            settings.beam_size, settings.n_best, settings.length_penalty, settings.coverage_penalty, **constraints
        )
    )


def _load_weights(model: keras.Model, path: Path) -> None:
    try:
        model.load_weights(path)
    except DAMAGE as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InputError(
            f"{path}: the weights do not fit the run's config, or the file is damaged: {reason}; "
            "restore the file, or train anew"
        ) from None
