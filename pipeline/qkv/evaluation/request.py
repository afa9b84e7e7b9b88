"""Converts the options of evaluate.py to a typed request."""

import argparse
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..alignment.gold import GoldSet, choice_settings, read_choice_set, read_configured_gold, read_gold_set
from ..config import RunConfig
from ..config.ensemble import results_name
from ..config.run import settings_of_set, with_decoding
from ..metrics.bleu import check_bleu_tokenizer
from ..run.processes import RunParts, Spreading
from ..run.trained_ensemble import load_runs
from ..run.trained_run import TrainedRun
from ..text.corpus import read_parallel_files
from ..text.given_files import GivenFiles
from ..text.lines import read_lines
from ..text.required import RequiredPhrase
from ..text.sets import read_tagged

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class EvaluationSet:
    """The sentences that are evaluated.

    Args:
        name: of the results' folder.
        source: the sentences to translate.
        reference: their given translations, or None.
        gold: gold alignments of these pairs, or None.
        choose_on: the set on which the alignment readout is chosen; None for this set.
        origin: the set of the config, or the file of text of one's own, that these sentences are; None for `name`.
        own: whether they are text of one's own.
        prefixes: the tokens with which each translation begins, or None.
        required: the phrases that each translation contains, or None.
    """

    name: str
    source: Sequence[str]
    reference: Sequence[str] | None = None
    gold: GoldSet | None = None
    choose_on: GoldSet | None = None
    origin: str | None = None
    own: bool = False
    prefixes: Sequence[list[int]] | None = None
    required: Sequence[Sequence[RequiredPhrase]] | None = None

    @property
    def set_name(self) -> str:
        """The name of the set, wherever its results go."""
        return self.origin or self.name


@dataclass(frozen=True)
class EvaluationRequest:
    """A run, a set, and which attention is recorded.

    Args:
        run: the trained run, whose config says how to translate.
        data: the set.
        force_references: whether to record the attention over the references instead of the translations.
        perturbed_sentences: the number of first sentences on which heads are replaced in turn, see
            `perturbation_table`.
        faithful_sentences: the number of first sentences on which the faithfulness of attention is measured, see
            `write_faithfulness`.
        spread_over: the processes that translate and record, and what they need; None for this process alone.

    Raises:
        ValueError: references are to be forced and there are none.
    """

    run: TrainedRun
    data: EvaluationSet
    force_references: bool = False
    perturbed_sentences: int = 0
    faithful_sentences: int = 0
    spread_over: Spreading | None = None

    def __post_init__(self) -> None:
        if self.force_references and self.data.reference is None:
            raise ValueError("force_references needs a set with references")


def read_request(options: argparse.Namespace) -> EvaluationRequest:
    """Reads the run and the set that the options name.

    Raises:
        InputError: options, files or the run do not fit together.
    """
    run = load_runs([options.run, *options.others], options.checkpoint)
    run = run.with_config(_replace_bleu_tokenizer(with_decoding(run.config, vars(options)), options))
    data = _read_own_set(options, run) if options.source else _read_configured_set(options, run)
    given = GivenFiles(options.prefix, options.require, options.ban, run.target_tokens, run.config.model.max_positions)
    prefixes, required = given.take(len(data.source))
    given.check_all_taken()
    data = replace(data, prefixes=prefixes, required=required)
    run = replace(run, banned=given.banned)
    parts = RunParts((options.run, *options.others), options.checkpoint, run.config, options.ban, bool(options.require))
    spreading = Spreading(parts, options.workers) if options.workers > 1 else None
    return EvaluationRequest(run, data, options.forced, options.perturb, options.faithfulness, spreading)


def _replace_bleu_tokenizer(config: RunConfig, options: argparse.Namespace) -> RunConfig:
    """Returns the config with the tokenizer of BLEU that the options give.

    Raises:
        InputError: the tokenizer needs something that is not there.
    """
    given = options.bleu_tokenizer
    check_bleu_tokenizer(given or config.data.scoring_tokenizer, "--bleu_tokenizer" if given else "data.bleu_tokenizer")
    if given is None:
        return config
    return config.model_copy(update={"data": config.data.model_copy(update={"bleu_tokenizer": given})})


def _read_own_set(options: argparse.Namespace, run: TrainedRun) -> EvaluationSet:
    origin = options.source.name  # with its suffix: test.en must not replace the results on `test`
    name, choose_on = results_name(options), read_choice_set(run.config, run.cutter)
    if not options.reference:
        source = _read_typed(run, read_lines(options.source), options, options.source, "source")
        return EvaluationSet(name, source, choose_on=choose_on, origin=origin, own=True)
    corpus = read_parallel_files(options.source, options.reference)
    source = _read_typed(run, corpus.source, options, options.source, "source")
    target = _read_typed(run, corpus.target, options, options.reference, "target")
    corpus = replace(corpus, source=source, target=target)
    gold = None
    if options.alignments:
        gold = read_gold_set(
            origin, corpus, options.alignments, options.first_index, False, run.cutter, "give --first_index 1"
        )
    return EvaluationSet(name, corpus.source, corpus.target, gold, choose_on, origin, own=True)


def _read_typed(run: TrainedRun, lines: Sequence[str], options: argparse.Namespace, path: Path, side: str) -> list[str]:
    """Returns the lines of a file as the run reads them."""
    given = list(lines)
    # Gold links count the words as they stand, so these must keep their numbers.
    form = {"normalizes": not options.no_normalize, "divides": options.alignments is None}
    found, _ = run.typed_text(str(path), side, **form).read(given)
    changed = sum(one != other for one, other in zip(given, found, strict=True))
    if changed:
        log.info(
            "%s: %d of %d lines are changed to look like the training text (data.normalize; --no_normalize reads them "
            "as they are)",
            path,
            changed,
            len(given),
        )
    return found


def _read_configured_set(options: argparse.Namespace, run: TrainedRun) -> EvaluationSet:
    settings = settings_of_set(run.config, options.set, run.directory.config)
    corpus = read_tagged(settings)
    gold = read_configured_gold(settings, options.set, run.cutter)
    # Where the readout is chosen and reported on the same pairs, the result must say so: see EvaluationSet.
    choose_on = read_choice_set(run.config, run.cutter) if settings != choice_settings(run.config) else None
    name = results_name(options)
    return EvaluationSet(name, corpus.source, corpus.target, gold, choose_on, origin=options.set)
