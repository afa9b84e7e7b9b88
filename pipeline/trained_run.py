"""A finished run, ready to translate: config, tokenizer, and the model in float32 whatever it was trained in."""

from dataclasses import dataclass
from pathlib import Path

import keras

from pipeline.config import RunConfig, load_run_config
from pipeline.decoding.translator import Translator
from pipeline.errors import InputError
from pipeline.inspection.trace import Tracer
from pipeline.manifest import check_golden
from pipeline.model.build import build_model
from pipeline.run_directory import RunDirectory
from pipeline.text.tokenizer import Tokenizer
from pipeline.training.checkpoint import DAMAGE, Checkpoints, load_checkpoint


@dataclass(frozen=True)
class TrainedRun:
    """What evaluation and translation need of a run."""

    directory: RunDirectory
    config: RunConfig
    tokenizer: Tokenizer
    model: keras.Model

    def translator(self) -> Translator:
        """Translates with the run's own decoding settings."""
        return Translator(
            self.model,
            self.tokenizer,
            **self.config.decoding.model_dump(),
            max_positions=self.config.model.max_positions,
        )

    def tracer(self, sites: tuple[str, ...]) -> Tracer:
        """Reads the attention of those sites."""
        return Tracer(
            self.model,
            self.tokenizer,
            sites=sites,
            batch_sentences=self.config.decoding.batch_sentences,
            max_positions=self.config.model.max_positions,
        )


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
    model = build_model(config.model, tokenizer.vocabulary_size)
    if checkpoint == "best" and run.model.is_file():
        _load_weights(model, run.model)
        check_golden(run, model, tokenizer.vocabulary_size)
    else:
        checkpoints = Checkpoints(run.checkpoints)
        load_checkpoint(checkpoints.best if checkpoint == "best" else checkpoints.last(), model)
    return TrainedRun(run, config, tokenizer, model)


def _load_weights(model: keras.Model, path: Path) -> None:
    try:
        model.load_weights(path)
    except DAMAGE as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InputError(
            f"{path}: the weights do not fit the run's config, or the file is damaged: {reason}; "
            "restore the file, or train anew"
        ) from None
