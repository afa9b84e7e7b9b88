"""The links of each sentence pair, by the attention of one run or of several runs.

The links or the attention of several runs are combined. The work may be shared by several processes.

TensorFlow is not imported here: each process imports it without its messages when it loads its first run.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import repeat
from typing import Any

import numpy as np

from ..config.choices.inspection import MEAN_WEIGHTS, PROBABLE
from ..inspection.record import Record
from ..run.processes import RunParts, map_in_processes
from ..runtime.parallel import read_ahead
from ..text.corpora.word_links import Link
from ..text.lines.typed_line import TypedText
from ..text.tokens.words import BETWEEN_SPACES, WordUnits
from .aligned_text import AlignedText, ChangedLines, number_words
from .link_probabilities import Calibration, probabilities_of
from .links import SYMMETRISATION_FUNCTIONS, as_links, grow_along_diagonals
from .readout import AlignmentReadout

LEAST_NEIGHBOUR = 0.4
"""`mean_links` adds a neighbour of a link if its mean weight is above this; chosen on `data/manythings/alignments`."""


@dataclass(frozen=True)
class Linking:
    """A function that links the words of a sentence pair.

    Args:
        way: the way to combine runs. A name in `config.choices.inspection.SYMMETRISATIONS` combines the links of two
            runs of opposite directions; a single run keeps its links. `PROBABLE`, for one run or two runs of opposite
            directions, links all words with a probability above the calibration's threshold. `MEAN_WEIGHTS` combines
            the attention of any number of runs, see `mean_links`.
        calibration: the calibration of the links; needed for `PROBABLE` and for `with_probabilities`.
        with_probabilities: if True, links are returned with their probabilities.
    """

    way: str
    calibration: Calibration | None = None
    with_probabilities: bool = False

    def __call__(
        self, readouts: Sequence[AlignmentReadout], records: Sequence[Record], reverse: Sequence[bool] = (False, True)
    ) -> Collection[Link]:
        """Returns the links of a sentence pair.

        Args:
            readouts: the readout of each run.
            records: the record of each run. A run of the opposite direction has the target as its source.
            reverse: for each run, True if it is of the opposite direction.

        Returns:
            A set of links (source word, target word). If `with_probabilities` is True, a dict from link to probability.
        """
        links: set[Link]
        matrix = self.calibration.matrix(records) if self.calibration else np.zeros((0, 0))
        if self.way == PROBABLE:
            assert self.calibration is not None
            links = as_links(matrix > self.calibration.threshold)
        elif self.way == MEAN_WEIGHTS:
            links = mean_links(readouts, records, reverse)
        else:
            links_by_run = [readout.links(record) for readout, record in zip(readouts, records, strict=True)]
            links = links_by_run[0]
            if len(links_by_run) > 1:
                links = SYMMETRISATION_FUNCTIONS[self.way](links, {(i, j) for j, i in links_by_run[1]})
        return probabilities_of(links, matrix) if self.with_probabilities else links


def mean_links(
    readouts: Sequence[AlignmentReadout], records: Sequence[Record], reverse: Sequence[bool] = (False, True)
) -> set[Link]:
    """Links words by the mean of several runs' attention.

    The mean is taken over the runs of each direction, and then over the two directions, so both directions count the
    same. In contrast to symmetrised links, a large weight of one run can outweigh a small weight of another.

    Two words are linked if their mean weight is the largest in its row and in its column. Then neighbours are added
    as in `alignment.links.grow_diag`, if their mean weight is above `LEAST_NEIGHBOUR` and one of the two words has no
    link yet.

    Args:
        readouts: the readout of each run. Its extraction method is not used.
        records: the record of each run. A run of the opposite direction has the target as its source.
        reverse: for each run, True if it is of the opposite direction.

    Returns:
        The links (source word, target word).
    """
    directions: dict[bool, list[np.ndarray]] = {}
    for readout, record, turned in zip(readouts, records, reverse, strict=True):
        weights = readout.word_weights(record)
        directions.setdefault(turned, []).append(weights.T if turned else weights)
    mean = _mean([_mean(directions[turned]) for turned in sorted(directions)])
    if not mean.size:
        return set()
    links = as_links((mean == mean.max(axis=0)) & (mean == mean.max(axis=1, keepdims=True)) & (mean > 0))
    return links | grow_along_diagonals(links, as_links(mean > LEAST_NEIGHBOUR) - links)


def _mean(matrices: Sequence[np.ndarray]) -> np.ndarray:
    """Returns the mean of matrices. Rows and columns that a matrix lacks count as zeros.

    A matrix has fewer rows or columns if its model has cut the sentence.
    """
    total = np.zeros(np.max([matrix.shape for matrix in matrices], axis=0))
    for matrix in matrices:
        total[: matrix.shape[0], : matrix.shape[1]] += matrix
    return total / len(matrices)


@dataclass(frozen=True)
class Direction:
    """A run, and a text in the direction in which the run translates.

    Args:
        run: the `TrainedRun`.
        text: the text as it was written, in the direction of the run.
        readout: the readout of the run; None if it is not chosen yet.
        units: the unit of words on each side. It has no effect on a side that has `AlignedText.words`.
        reverse: True if the run is of the opposite direction: its links are from the target of the pairs to their
            source, and the sides of `text` are exchanged.
        normalizes: if True, the run's `data.normalize` is applied before the model reads the text. Links are in any
            case between the words of the text as it was written.
    """

    run: Any
    text: AlignedText
    readout: AlignmentReadout | None = None
    units: WordUnits = BETWEEN_SPACES
    reverse: bool = False
    normalizes: bool = False

    def without_probabilities(self) -> "Direction":
        """Returns a copy whose readout has no calibration, so that its links come from its extraction method."""
        return replace(self, readout=self.readout and replace(self.readout, calibration=None, likely=False))

    def with_text(self, text: AlignedText, units: WordUnits = BETWEEN_SPACES) -> "Direction":
        """Returns a copy for another text.

        Args:
            text: the text, from source to target. Its sides are exchanged here if `reverse` is True.
            units: the unit of words on each side of `text`.
        """
        if not self.reverse:
            return replace(self, text=text, units=units)
        return replace(self, text=text.turned(), units=WordUnits(*reversed(units)))

    def records(self, count: int | None = None) -> Iterator[Record]:
        """Yields the records of the pairs, with the cross-attention and the attention of the readout's site.

        Words are numbered as in `AlignedText.words`; on a side without them, as in the text as it was written.

        Args:
            count: the number of first pairs to record; None for all pairs.
        """
        text = self.text if count is None else self.text.part(0, count)
        # The tokens are located in given words by their characters.
        units = WordUnits(
            *(unit if words is None else "characters" for unit, words in zip(self.units, text.words, strict=True))
        )
        recorder = self.run.recorder(["cross", *([self.readout.site] if self.readout else [])], units)
        sides: list[Any] = []
        word_texts: list[Iterable[str | None]] = []  # the texts whose words count, see `number_words`
        for side, lines, words, unit in zip(units._fields, (text.source, text.target), text.words, units, strict=True):
            normalize = self.run.reader.make_normalizer(side) if self.normalizes else None
            sides.append(ChangedLines(lines, normalize) if normalize else lines)
            if words is not None:
                word_texts.append(words)
            elif normalize and unit == "spaces":
                # The normaliser drops these characters; words keep their numbers without them.
                tokenizer = self.run.tokenizer if side == "source" else self.run.tokenizer.of_target
                word_texts.append(map(tokenizer.without_format_characters, lines))
            else:
                word_texts.append(repeat(None))
        return map(number_words, recorder.record_references(*sides), *word_texts)

    def warn(self, text: AlignedText, first: int) -> None:
        """Logs warnings about a part of the text, see `text.lines.typed_line.TypedText`.

        It warns of unknown characters, of sentences that are too long for the model, and of text that looks unlike the
        training text.

        Args:
            text: the part, from source to target.
            first: the number of its first pair, from 1.
        """
        if self.reverse:
            text = text.turned()
        for reader, lines in zip(self._readers, (text.source, text.target), strict=True):
            reader.read(lines, range(first, first + len(lines)))

    @cached_property
    def _readers(self) -> list[TypedText]:
        """The readers of the source and of the target, which log each warning once."""
        sides = zip(self.text.names, self.units._fields, strict=True)
        return [self.run.reader.typed_text(name, side, normalizes=self.normalizes) for name, side in sides]


def link_pairs(directions: Sequence[Direction], linking: Linking, subwords: bool) -> Iterator[Collection[Link]]:
    """Yields the links (source word, target word) of each pair.

    Args:
        directions: the runs, each with the same text and a readout. The first one is from source to target.
        linking: the function that links the words of a pair.
        subwords: if True, subwords are linked instead of words; only for one run.
    """
    readouts, reverse = _readouts(directions)
    for records in _record_pairs(directions, subwords):
        yield linking(readouts, records, reverse)


def _readouts(directions: Sequence[Direction]) -> tuple[list[AlignmentReadout], list[bool]]:
    """Returns the readout of each direction, and whether it is reverse, as `Linking` takes them."""
    readouts = [direction.readout for direction in directions if direction.readout is not None]
    return readouts, [direction.reverse for direction in directions]


def _record_pairs(directions: Sequence[Direction], subwords: bool) -> Iterator[tuple[Record, ...]]:
    """Yields the records of each pair, one of each direction; see `link_pairs`."""
    streams = []
    for direction in directions:
        records = direction.records()
        streams.append(map(Record.by_token, records) if subwords else records)
    return zip(*streams, strict=True)


def align_parts(
    directions: Sequence[Direction], linking: Linking, subwords: bool, parts: Iterable[AlignedText], processes: int
) -> Iterator[list[Collection[Link]]]:
    """Yields the links of the pairs of each part of a text, as soon as they are known.

    Args:
        directions: see `link_pairs`; their text is not aligned.
        linking: see `link_pairs`.
        subwords: see `link_pairs`.
        parts: the parts of the text, from source to target. They are read before their links are needed: in another
            thread, so that the model reads a part while the words of the part before are linked.
        processes: the number of processes that share the work; 1 for this process alone.

    Raises:
        LostWorkerError: a process was killed.
    """
    units = directions[0].units
    if processes > 1:
        # A loaded run cannot be sent to another process, and the text is sent in parts.
        without_text = []
        for direction in directions:
            run_parts = RunParts((direction.run.directory.root,), "best", direction.run.config)
            without_text.append(replace(direction, run=run_parts, text=AlignedText([], [])))
        align_part = partial(_align_part, without_text, units, linking, subwords)
        yield from map_in_processes(align_part, parts, processes)
        return

    def record(text: AlignedText) -> list[tuple[Record, ...]]:
        return list(_record_pairs([direction.with_text(text, units) for direction in directions], subwords))

    readouts, reverse = _readouts(directions)
    with closing(read_ahead(map(record, parts), 1)) as recorded:
        for pairs in recorded:
            yield [linking(readouts, records, reverse) for records in pairs]


def _align_part(
    directions: Sequence[Direction], units: WordUnits, linking: Linking, subwords: bool, text: AlignedText
) -> list[Collection[Link]]:
    """Returns the links of each pair of a part of the text. The process loads the runs when it aligns its first part.

    Args:
        directions: the directions with an empty text, and with `RunParts` in place of a loaded run.
        units: the unit of words on each side of the text.
        linking: see `link_pairs`.
        subwords: see `link_pairs`.
        text: the part of the text, from source to target.
    """
    loaded = [replace(direction.with_text(text, units), run=direction.run.run) for direction in directions]
    return list(link_pairs(loaded, linking, subwords))
