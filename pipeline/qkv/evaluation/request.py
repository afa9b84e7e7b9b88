"""The request of an evaluation: a run and a set, read from a config or files, and the set's tokens, made once for the
translator, the likelihood, alignments and the archive."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..alignment.gold import FIRST_INDEX, GoldSet, choice_settings, read_choice_set, read_configured_gold, read_gold_set
from ..alignment.readout import AlignmentReadout
from ..alignment.readout_selection import kept_readout
from ..config.run import settings_of_set
from ..inspection.recorder import ForcedPair, pair_references
from ..run.ensemble import TrainedEnsemble
from ..run.processes import RunParts
from ..run.trained_run import TrainedRun
from ..text.corpora.formats import read_parallel_files, read_tagged
from ..text.lines.text_file import read_lines
from ..text.phrases.required import RequiredPhrase
from ..text.tokens.encoding import EncodedSentences, encode_sentences
from ..text.tokens.tokenizer import Tokenizer

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
        kept: the readout that the run keeps, if the set that has chosen it is not there.
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
    kept: AlignmentReadout | None = None
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
        force_references: whether to record the attention over the references, which there must be, instead of the
            translations.
        experiments: the number of first sentences for each experiment, by its name in `EXPERIMENT_RUNNERS`.
        spread_over: the processes that translate and record, and what they need; None for this process alone.
        ensemble: the names of the models that have translated together, of which the run is one.
    """

    run: TrainedRun
    data: EvaluationSet
    force_references: bool = False
    experiments: Mapping[str, int] = field(default_factory=dict)
    spread_over: RunParts | None = None
    ensemble: tuple[str, ...] = ()


def read_own_set(
    run: TrainedRun,
    name: str,
    source: Path,
    reference: Path | None = None,
    alignments: Path | None = None,
    first_index: int = 0,
    normalizes: bool = True,
) -> EvaluationSet:
    """Reads a set that is text of one's own.

    Args:
        run: the run that is evaluated.
        name: of the results' folder.
        source: the sentences.
        reference: their translations, or None.
        alignments: the gold alignments of both, or None.
        first_index: the number of the first word in that file.
        normalizes: whether `data.normalize` acts on the text.

    Raises:
        InputError: the files cannot be read, or do not fit together.
    """
    origin = source.name  # with its suffix: test.en must not replace the results on `test`
    # Gold links count the words as they stand, so these must keep their numbers.
    form = {"normalizes": normalizes, "divides": alignments is None}
    choice = _read_choice(run)
    if reference is None:
        lines = _read_typed(run, read_lines(source), source, "source", form)
        return EvaluationSet(name, lines, origin=origin, own=True, **choice)
    corpus = read_parallel_files(source, reference)
    corpus = replace(
        corpus,
        source=_read_typed(run, corpus.source, source, "source", form),
        target=_read_typed(run, corpus.target, reference, "target", form),
    )
    gold = None
    if alignments is not None:
        gold = read_gold_set(
            origin, corpus, alignments, cutter=run.reader.segmenter, first_index=first_index, remedy=FIRST_INDEX
        )
    return EvaluationSet(name, corpus.source, corpus.target, gold, origin=origin, own=True, **choice)


def _read_choice(run: TrainedRun) -> dict[str, Any]:
    """Returns the set on which the run's readout is chosen, or else the readout that the run keeps, as arguments of
    `EvaluationSet`."""
    kept = None if isinstance(run, TrainedEnsemble) else kept_readout(run)  # each model of an ensemble has one
    return {"choose_on": read_choice_set(run.config, run.reader.segmenter), "kept": kept}


def _read_typed(run: TrainedRun, lines: Sequence[str], path: Path, side: str, form: dict[str, bool]) -> list[str]:
    """Returns the lines of a file as the run reads them."""
    typed = run.reader.typed_text(str(path), side, **form)
    given = typed.readable(lines)  # references, too, are scored without what no translation has
    found, _ = typed.read(given)
    if changed := sum(one != other for one, other in zip(given, found, strict=True)):
        log.info(
            "%s: %d of %d lines are changed to look like the training text (data.normalize; --no_normalize reads them "
            "as they are)",
            path,
            changed,
            len(given),
        )
    return found


def read_configured_set(run: TrainedRun, name: str, set_name: str) -> EvaluationSet:
    """Reads a set of a run's config.

    Args:
        run: the run that is evaluated.
        name: of the results' folder.
        set_name: `test` or `validation`.

    Raises:
        InputError: there is no such set, or its files cannot be read.
    """
    settings = settings_of_set(run.config, set_name, run.directory.config)
    corpus = read_tagged(settings)
    gold = read_configured_gold(settings, set_name, run.reader.segmenter)
    # Where the readout is chosen and reported on the same pairs, the result must say so: see EvaluationSet.
    choice = _read_choice(run) if settings != choice_settings(run.config) else {}
    return EvaluationSet(name, corpus.source, corpus.target, gold, origin=set_name, **choice)


@dataclass(frozen=True)
class TokenisedSet:
    """A set with its tokens.

    Args:
        data: the set.
        source: the tokens of its sources.
        reference: the tokens of its references, where there are references.
    """

    data: EvaluationSet
    source: EncodedSentences
    reference: EncodedSentences | None

    @classmethod
    def of(cls, data: EvaluationSet, tokenizer: Tokenizer) -> "TokenisedSet":
        """Tokenises a set."""
        reference = encode_sentences(data.reference, tokenizer.of_target) if data.reference is not None else None
        return cls(data, encode_sentences(data.source, tokenizer), reference)

    def pair_references(self, max_positions: int) -> Iterator[ForcedPair]:
        """Pairs each source with its reference; there are no pairs without references."""
        if self.data.reference is None or self.reference is None:
            return iter(())
        source_ids, reference_ids = ([row.tolist() for row in side] for side in (self.source, self.reference))
        return pair_references(self.data.source, self.data.reference, source_ids, reference_ids, max_positions)
