"""Statistics of a run's training text: how probable it is that two words are linked, whatever the sentence.

The statistics are those of `statistical`, learnt once from the training text and saved in the run as
`word_statistics.npz`. They give the probability that two words of any sentence pair are linked. Attention knows the
sentence, and the statistics know the words; the mean of both probabilities is better than either, most of all in text
that is not like the training text (`docs/measurements/markup.md`).

Two words that are never linked in the training text have the count that they start from. So names and numbers are
linked by their spelling, and other unknown words by their positions among linked words. A sentence pair is also read
once itself: the counts of its words grow by the number of links that are expected in it.

Letters: I source words, J target words.
"""

import logging
import os
import zipfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from ..errors import InputError
from ..files.arrays import ArrayFile
from ..files.atomic import replaced_when_done
from ..files.paths import missing_file
from ..text.corpora.formats import read_corpus
from .statistical import (
    LONGEST_JUMP,
    LONGEST_SENTENCE,
    NULL,
    ParallelWords,
    StatisticalAligner,
    forward_backward,
    plain_word,
    position_probabilities,
    start_counts,
)

if TYPE_CHECKING:
    import keras

    from ..run.trained_run import TrainedRun

LEAST_COUNT = 0.1
"""Two words are linked in the training text if the expected number of their links is larger than this."""
LEAST_NULL = 1e-5
"""The least probability of a word that is drawn from no word; that of a word which is not in the training text."""
LEAST_PAIRS = 5_000
"""A training text of fewer pairs is not used: its statistics say little."""
MOST_PAIRS = 200_000
"""The number of pairs of a larger training text that are used. They are spread over all of it."""

UPDATES_IN_PAIR = 1
"""The number of times that the expected links of a sentence pair itself are added to the counts. On the development
pairs, a second and a fourth time change F1 by less than 0.1."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class WordStatistics:
    """The statistics of a training text of M source words and N target words, of which E pairs are linked.

    Attributes:
        vocabularies: the M source words and the N target words, as `statistical.plain_word` returns them.
        linked: the pairs of linked words, int64 `(E,)`, ascending: the number of the source word, times N, plus that of
            the target word.
        counts: the expected number of links of each pair in the training text, float32 `(E,)`.
        totals: the sum of all counts of each word, with those that they start from: float32 `(M,)` and `(N,)`.
        nulls: the probability of each source word, and of each target word, if it is drawn from no word: float32 `(M,)`
            and `(N,)`.
        jumps: the relative frequencies of jumps in the direction that draws target words, and in the other one; see
            `statistical.Direction`; float32 `(2, 2 * LONGEST_JUMP + 1)`.
    """

    vocabularies: tuple[list[str], list[str]]
    linked: np.ndarray
    counts: np.ndarray
    totals: tuple[np.ndarray, np.ndarray]
    nulls: tuple[np.ndarray, np.ndarray]
    jumps: np.ndarray

    @cached_property
    def _numbers(self) -> list[dict[str, int]]:
        """The number of each source word, and of each target word."""
        return [{word: number for number, word in enumerate(words)} for words in self.vocabularies]

    def mean_with(self, probabilities: np.ndarray, source: Sequence[str], target: Sequence[str]) -> np.ndarray:
        """Returns the mean of other probabilities of links and of those by the statistics, `(J, I)`.

        If a sentence has more than `LONGEST_SENTENCE` words, the other probabilities are returned.

        Args:
            probabilities: the other probabilities, `(J, I)`.
            source: the spelling of the I source words.
            target: the spelling of the J target words.
        """
        if not probabilities.size or max(probabilities.shape) > LONGEST_SENTENCE:
            return probabilities
        return (probabilities + self.probabilities(source, target)) / 2

    def probabilities(self, source: Sequence[str], target: Sequence[str]) -> np.ndarray:
        """Returns the probabilities of the links of a sentence pair, `(J, I)`: the mean of the two directions.

        Args:
            source: the spelling of the I source words, at least one.
            target: the spelling of the J target words, at least one.
        """
        (sources, i), (targets, j) = (
            np.unique([plain_word(word) for word in words], return_inverse=True) for words in (source, target)
        )
        rows, columns = (
            np.array([numbers.get(word, -1) for word in words.tolist()])
            for numbers, words in zip(self._numbers, (sources, targets), strict=True)
        )
        # The start count of each pair of different words.
        every_source, every_target = (index.ravel() for index in np.indices((len(sources), len(targets))))
        start = start_counts(sources.tolist(), targets.tolist(), every_source, every_target)
        learnt = self._find_counts(rows, columns)
        counts = learnt + start.reshape(learnt.shape)
        # The counts of each word with words that are not in this pair.
        known = np.where(learnt > 0, counts, 0.0)
        elsewhere = [
            np.maximum(0.0, _at(total, numbers, 0.0) - known.sum(axis=axis))
            for total, numbers, axis in zip(self.totals, (rows, columns), (1, 0), strict=True)
        ]
        nulls = [_at(null, numbers, LEAST_NULL) for null, numbers in zip(self.nulls, (rows, columns), strict=True)]

        def expect(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            forward = counts / (elsewhere[0] + counts.sum(axis=1))[:, None]
            backward = counts / (elsewhere[1] + counts.sum(axis=0))
            return (
                _expect(forward[i[None, :], j[:, None]], nulls[1][j], self.jumps[0]),
                _expect(backward[i[:, None], j[None, :]], nulls[0][i], self.jumps[1]).T,
            )

        forward, backward = expect(counts)
        for _ in range(UPDATES_IN_PAIR):
            in_pair = np.zeros_like(counts)
            np.add.at(in_pair, (i[None, :], j[:, None]), forward * backward)
            forward, backward = expect(counts + in_pair)
        return (forward + backward) / 2

    def _find_counts(self, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Returns the learnt count of each pair of words, float64 `(source words, target words)`; 0 for unknown ones.

        Args:
            sources: the numbers of the source words; -1 for an unknown word.
            targets: the numbers of the target words; -1 for an unknown word.
        """
        codes = sources[:, None] * len(self.vocabularies[1]) + targets
        if not len(self.linked):
            return np.zeros(codes.shape)
        places = np.searchsorted(self.linked, codes).clip(max=len(self.linked) - 1)
        is_linked = (self.linked[places] == codes) & (sources[:, None] >= 0) & (targets >= 0)
        return np.where(is_linked, self.counts[places], np.float64(0))


def _at(values: np.ndarray, numbers: np.ndarray, unknown: float) -> np.ndarray:
    """Returns the value of each word; `unknown` for words of the number -1."""
    return np.where(numbers >= 0, values[numbers], np.float64(unknown))


def _expect(translation: np.ndarray, null: np.ndarray, jumps: np.ndarray) -> np.ndarray:
    """Returns the probabilities of links in one direction, `(drawn words, given words)`.

    Args:
        translation: the probability that each drawn word is drawn from each given word, `(drawn words, given words)`.
        null: the probability of each drawn word if it is drawn from no word, `(drawn words,)`.
        jumps: see `statistical.Direction`.
    """
    lexical = ((1 - NULL) * translation[:, None, :]).astype(np.float32)
    transitions = position_probabilities(jumps, translation.shape[1])
    links, *_ = forward_backward(
        lexical, (NULL * null[:, None]).astype(np.float32), transitions, np.ones(1, np.float32)
    )
    return links[:, 0]


def learn_word_statistics(sources: Iterable[Sequence[str]], targets: Iterable[Sequence[str]]) -> WordStatistics:
    """Learns the statistics of a parallel text.

    Args:
        sources: the words of each source sentence.
        targets: the words of each target sentence; as many sentences.
    """
    aligner = StatisticalAligner(ParallelWords(sources, targets))
    aligner.train()
    source, target, start = aligner.text.lexicon
    counts = aligner.counts
    sizes = list(map(len, aligner.text.vocabularies))
    kept = counts > LEAST_COUNT
    linked = source[kept].astype(np.int64) * sizes[1] + target[kept]
    totals = [
        np.bincount(words, counts + start, size).astype(np.float32)
        for words, size in zip((source, target), sizes, strict=True)
    ]
    directions = aligner.forward, aligner.backward
    nulls = [np.maximum(direction.null, LEAST_NULL).astype(np.float32) for direction in reversed(directions)]
    jumps = np.array([direction.jumps for direction in directions], np.float32)
    return WordStatistics(
        aligner.text.vocabularies,
        linked,
        counts[kept].astype(np.float32),
        (totals[0], totals[1]),
        (nulls[0], nulls[1]),
        jumps,
    )


def find_word_statistics(run: "TrainedRun", divide: Callable[[str], Sequence[str]]) -> WordStatistics | None:
    """Returns the saved statistics of a run, or learns them from its training text and saves them.

    Args:
        run: the run.
        divide: divides a line of the training text into words.

    Returns:
        The statistics. None if there are none yet and they cannot be learnt: the run is the one in the package or
        cannot be written, its training text is missing, or it has fewer than `LEAST_PAIRS` pairs.

    Raises:
        InputError: `word_statistics.npz` is damaged, or the training text cannot be read.
    """
    if run.model not in _in_memory:
        path = run.directory.word_statistics
        statistics = read_word_statistics(path) if path.exists() else None
        if statistics is None and not run.directory.is_packaged and os.access(path.parent, os.W_OK):
            statistics = _learn_from_training_text(run, divide)
            if statistics is not None:
                with suppress(OSError):  # the disk may be full
                    write_word_statistics(path, statistics)
        _in_memory[run.model] = statistics
    return _in_memory[run.model]


_in_memory: "WeakKeyDictionary[keras.Model, WordStatistics | None]" = WeakKeyDictionary()
"""The statistics of the models in memory. None if there are none."""


def _learn_from_training_text(run: "TrainedRun", divide: Callable[[str], Sequence[str]]) -> WordStatistics | None:
    """Returns the statistics of a run's training text; None if it is missing or too short."""
    corpora = run.config.data.training_corpora
    texts = [[(key, value) for key, value in corpus if key != "alignments"] for corpus in corpora]
    if not corpora or any(map(missing_file, texts)):
        return None
    corpus = read_corpus(corpora)
    if len(corpus) < LEAST_PAIRS:
        return None
    used = min(len(corpus), MOST_PAIRS)
    corpus = corpus.select(np.arange(used) * len(corpus) // used)
    log.warning("markup: learning word links from %s pairs of the training text, once", f"{used:,}")
    return learn_word_statistics(map(divide, corpus.source), map(divide, corpus.target))


WORD_STATISTICS_FORMAT = 1
"""The version of the format of `word_statistics.npz`."""

_SIDES = "source", "target"


def write_word_statistics(path: Path, statistics: WordStatistics) -> None:
    """Writes statistics as a compressed `.npz` file, whose arrays are the attributes of `WordStatistics`.

    The words of a side are in UTF-8, one a line.
    """
    arrays: dict[str, np.ndarray] = {"format": np.array(WORD_STATISTICS_FORMAT)}
    for side, words, totals, nulls in zip(
        _SIDES, statistics.vocabularies, statistics.totals, statistics.nulls, strict=True
    ):
        arrays[f"{side}_words"] = np.frombuffer("\n".join(words).encode(), np.uint8)
        arrays[f"{side}_totals"], arrays[f"{side}_nulls"] = totals, nulls
    arrays |= {"linked": statistics.linked, "counts": statistics.counts, "jumps": statistics.jumps}
    with replaced_when_done(path) as temporary, temporary.open("wb") as file:  # to a path, NumPy would add its suffix
        np.savez_compressed(file, allow_pickle=False, **arrays)


def read_word_statistics(path: Path) -> WordStatistics:
    """Reads the file of `write_word_statistics`.

    Raises:
        InputError: the file is damaged.
    """
    try:
        with ArrayFile(path) as archive:
            if archive.read("format", "i", ()) != WORD_STATISTICS_FORMAT:
                raise ValueError(f"expected format {WORD_STATISTICS_FORMAT}")
            words = [archive.read(f"{side}_words", "u").tobytes().decode().split("\n") for side in _SIDES]
            totals, nulls = (
                [archive.read(f"{side}_{name}", "f", (len(own),)) for side, own in zip(_SIDES, words, strict=True)]
                for name in ("totals", "nulls")
            )
            linked = archive.read("linked", "i")
            counts = archive.read("counts", "f", linked.shape)
            jumps = archive.read("jumps", "f", (2, 2 * LONGEST_JUMP + 1))
        if linked.ndim != 1 or (np.diff(linked) <= 0).any():
            raise ValueError("expected ascending numbers in linked")
        if len(linked) and not 0 <= linked[0] <= linked[-1] < len(words[0]) * len(words[1]):
            raise ValueError("linked has a word that is not in the vocabulary")
        for numbers in (counts, jumps, *totals, *nulls):
            if not (np.isfinite(numbers) & (numbers > 0)).all():
                raise ValueError("expected positive numbers")
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise InputError(
            f"{path}: expected the word links that qkv translate --markup learns, found {type(error).__name__}: "
            f"{error}; delete the file: it is written again from the training text"
        ) from None
    return WordStatistics((words[0], words[1]), linked, counts, (totals[0], totals[1]), (nulls[0], nulls[1]), jumps)
