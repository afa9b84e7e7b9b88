"""The request of an evaluation: a run and the set that it translates.

The set is one of the run's config or text of the user. It is tokenised once, for the search, the likelihood, the
alignments and the archive.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..alignment.gold import (
    FIRST_INDEX_ADVICE,
    GoldSet,
    check_gold_set,
    choice_settings,
    read_choice_set,
    read_configured_gold,
)
from ..config.run import settings_of_set
from ..errors import InputError
from ..inspection.recorder import ForcedPair, pair_references
from ..run.processes import RunParts
from ..run.trained_run import TrainedRun
from ..text.batch import forced_batch
from ..text.batch_plan import batches_by_length
from ..text.corpora.corpus import Corpus
from ..text.corpora.formats import read_parallel_files, read_tagged
from ..text.corpora.word_links import links_as_line, parse_pharaoh_line, read_pharaoh
from ..text.lines.line import as_line
from ..text.lines.text_file import read_lines
from ..text.phrases.required import RequiredPhrase
from ..text.tokens.encoding import EncodedSentences, encode_sentences
from ..text.tokens.tokenizer import Tokenizer
from .confidence import Confidence

IN_MEMORY = "memory"
"""The name of sentences from Python in results, and of the folder of their results, unless the user has chosen it."""
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class EvaluationSet:
    """The sentences that are evaluated.

    Args:
        name: the name of the results' folder.
        source: the sentences to translate.
        reference: the reference translation of each sentence; None if there are none.
        gold: the gold alignments of sources and references; None if there are none.
        choose_on: the set on whose gold alignments the readout is chosen. None to choose it on `gold`.
        origin: the set of the config, or the name of the user's file, that the sentences come from; None if it is
            `name`.
        is_own_text: True if the sentences are text of the user, False if they are a set of the config.
        prefixes: for each sentence the token ids with which its translation must begin; None if there are no prefixes.
        required: for each sentence the phrases that its translation must contain; None if there are no such phrases.
    """

    name: str
    source: Sequence[str]
    reference: Sequence[str] | None = None
    gold: GoldSet | None = None
    choose_on: GoldSet | None = None
    origin: str | None = None
    is_own_text: bool = False
    prefixes: Sequence[list[int]] | None = None
    required: Sequence[Sequence[RequiredPhrase]] | None = None

    @property
    def set_name(self) -> str:
        """The name of the set: `origin`, or `name` if `origin` is None."""
        return self.origin or self.name


@dataclass(frozen=True)
class EvaluationRequest:
    """A run, a set, and the attention to record.

    Args:
        run: the run. Its config has the settings of the search.
        data: the set.
        force_references: if True, the attention is recorded over the references instead of the translations. The set
            must have references.
        experiments: for each experiment, by its name in `evaluation.experiments.EXPERIMENT_RUNNERS`, the number of
            first sentences on which it is run.
        processes: the processes that translate and record; None for this process alone.
        confidence: the fitted confidence of the run, if that of each translation is written; otherwise None.
    """

    run: TrainedRun
    data: EvaluationSet
    force_references: bool = False
    experiments: Mapping[str, int] = field(default_factory=dict)
    processes: RunParts | None = None
    confidence: Confidence | None = None


def read_own_set(
    run: TrainedRun,
    name: str,
    source: Path | Sequence[str],
    reference: Path | Sequence[str] | None = None,
    alignments: Path | Sequence[Any] | None = None,
    first_index: int = 0,
    normalizes: bool = True,
) -> EvaluationSet:
    """Reads text of the user from files or from memory.

    Args:
        run: the run that is evaluated.
        name: the name of the results' folder.
        source: the file of the sentences, one a line, or the sentences.
        reference: the file of their translations, or the translations; None if there are none.
        alignments: the file of the gold alignments of sentences and translations, or the links of each pair, see
            `text.corpora.word_links.links_as_line`; None if there are none.
        first_index: the number of the first word in `alignments`, 0 or 1.
        normalizes: if True, the run's `data.normalize` is applied to the text.

    Raises:
        InputError: a file cannot be read; a sentence in memory is not text or has several lines; there are other
            numbers of sources and references; or the gold alignments do not fit them, see
            `alignment.gold.check_gold_set`.
    """
    # With its suffix: test.en must not replace the results on `test`.
    origin = source.name if isinstance(source, Path) else IN_MEMORY
    # Words that gold links count must not be divided, so that they keep their numbers.
    options = {"normalizes": normalizes, "divides": alignments is None}
    choice_set = read_choice_set(run.config, run.reader.segmenter)
    labels = [
        str(text) if isinstance(text, Path) else key for key, text in (("source", source), ("reference", reference))
    ]
    if reference is None:
        sentences = _read_typed(run, _lines_of(source, "source"), labels[0], "source", options)
        return EvaluationSet(name, sentences, choose_on=choice_set, origin=origin, is_own_text=True)
    corpus = _read_own_pairs(source, reference)
    corpus = replace(
        corpus,
        source=_read_typed(run, corpus.source, labels[0], "source", options),
        target=_read_typed(run, corpus.target, labels[1], "target", options),
    )
    gold = None
    if alignments is not None:
        if isinstance(alignments, Path):
            location, links = str(alignments), read_pharaoh(alignments, first_index=first_index)
        else:
            location, links = "alignments", []
            for number, links_of_pair in enumerate(alignments, 1):
                place = f"{location}:{number}"
                links.append(parse_pharaoh_line(links_as_line(links_of_pair, place), place, first_index))
        gold = check_gold_set(origin, corpus, links, location, run.reader.segmenter, first_index, FIRST_INDEX_ADVICE)
    return EvaluationSet(name, corpus.source, corpus.target, gold, choice_set, origin, is_own_text=True)


def _lines_of(text: Path | Sequence[str], name: str) -> Sequence[str]:
    """Returns the lines of a file, or sentences in memory as lines; `name` is their argument, for messages."""
    if isinstance(text, Path):
        return read_lines(text)
    return [as_line(sentence, f"{name}:{number}") for number, sentence in enumerate(text, 1)]


def _read_own_pairs(source: Path | Sequence[str], reference: Path | Sequence[str]) -> Corpus:
    """Returns the pairs of sources and references, each in a file or in memory.

    Raises an `InputError` if a file cannot be read, a sentence is not a line, or the numbers of both differ.
    """
    if isinstance(source, Path) and isinstance(reference, Path):
        return read_parallel_files(source, reference)
    sources, references = _lines_of(source, "source"), _lines_of(reference, "reference")
    if len(sources) != len(references):
        raise InputError(f"reference: expected one for each of {len(sources):,} sources, found {len(references):,}")
    return Corpus(sources, references, range(1, len(sources) + 1), "source + reference")


def _read_typed(run: TrainedRun, lines: Sequence[str], name: str, side: str, options: dict[str, bool]) -> list[str]:
    """Returns the lines of a text in the form in which the run reads them, and logs how many are changed.

    Args:
        run: the run.
        lines: the lines of the text.
        name: the path of its file, or its argument, for messages.
        side: the language of the lines, `source` or `target`.
        options: the keyword arguments `normalizes` and `divides` of the method `typed_text` of the run's reader.
    """
    typed = run.reader.typed_text(name, side, **options)
    readable = typed.readable(lines)  # references, too: they are scored without characters that no translation has
    sentences, _ = typed.read(readable)
    if changed := sum(before != after for before, after in zip(readable, sentences, strict=True)):
        log.info(
            "%s: %d of %d lines are changed to look like the training text (data.normalize; --no_normalize reads them "
            "as they are)",
            name,
            changed,
            len(readable),
        )
    return sentences


def read_configured_set(run: TrainedRun, name: str, set_name: str) -> EvaluationSet:
    """Reads a set of a run's config.

    Args:
        run: the run that is evaluated.
        name: the name of the results' folder.
        set_name: the name of the set, `test` or `validation`.

    Raises:
        InputError: the config has no such set; a file cannot be read; or the gold alignments do not fit the set, see
            `alignment.gold.read_gold_set`.
    """
    settings = settings_of_set(run.config, set_name, run.directory.config)
    corpus = read_tagged(settings)
    gold = read_configured_gold(settings, set_name, run.reader.segmenter)
    # None for the choice set itself: the scores of a readout that is chosen on it must be marked as optimistic.
    choice_set = None if settings == choice_settings(run.config) else read_choice_set(run.config, run.reader.segmenter)
    return EvaluationSet(name, corpus.source, corpus.target, gold, choice_set, set_name)


@dataclass(frozen=True)
class TokenisedSet:
    """A set with its tokens.

    Args:
        data: the set.
        source: the tokens of the sources.
        reference: the tokens of the references; None if there are none.
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
        """Yields each source paired with its reference. Yields nothing if the set has no references.

        Args:
            max_positions: the maximum number of tokens on either side, EOS included. Longer sides are cut.
        """
        if self.data.reference is None or self.reference is None:
            return iter(())
        source_ids, reference_ids = ([row.tolist() for row in side] for side in (self.source, self.reference))
        return pair_references(self.data.source, self.data.reference, source_ids, reference_ids, max_positions)

    def batch_references(self, max_positions: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yields batches of similar lengths for teacher forcing. Yields nothing if the set has no references.

        Each batch is a tuple of ids with padding: source `(B, S)`, target from BOS on `(B, T)`, and target up to EOS
        `(B, T)`.

        Args:
            max_positions: the maximum number of tokens on either side, EOS included. Longer sides are cut.
        """
        pairs = [pair.ids for pair in self.pair_references(max_positions)]
        source_lengths = np.array([len(source) for source, _ in pairs], int)
        target_lengths = np.array([len(target) for _, target in pairs], int)
        for rows in batches_by_length(source_lengths + 1, target_lengths):  # EOS
            yield forced_batch([pairs[row] for row in rows]).ids
