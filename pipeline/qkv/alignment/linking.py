"""The linked words of sentence pairs, by the attention of one run, or of several whose links or attention are combined;
in this process or in several.

TensorFlow is not imported here: a process of its own imports it quietly, with its first run.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain, repeat
from typing import Any

import numpy as np

from ..config.choices.inspection import MEAN_WEIGHTS, PROBABLE
from ..inspection.record import Record
from ..run.processes import RunParts, map_in_processes
from ..text.corpora.word_links import Link
from ..text.lines.typed_line import TypedText
from ..text.tokens.words import BETWEEN_SPACES, WordUnits
from .aligned_text import AlignedText, ChangedLines, number_words
from .link_probabilities import Calibration, probabilities_of
from .links import SYMMETRISATIONS, as_links, grow_along_diagonals
from .readout import AlignmentReadout

LEAST_NEIGHBOUR = 0.4
"""The mean weight above which a link is added beside another: chosen on `data/manythings/alignments`."""


@dataclass(frozen=True)
class Linking:
    """Links the words of a pair.

    Args:
        way: how runs are combined: one of `choices.inspection.SYMMETRISATIONS` or `PROBABLE`, for one run or two
            opposite ones; or `MEAN_WEIGHTS`, for any number of runs.
        calibration: needed for `PROBABLE`, the links that are more probable than its threshold, and for
            `with_probabilities`.
        with_probabilities: whether links are the keys of a dictionary of their probabilities.
    """

    way: str
    calibration: Calibration | None = None
    with_probabilities: bool = False

    def __call__(
        self, readouts: Sequence[AlignmentReadout], records: Sequence[Record], reverse: Sequence[bool] = (False, True)
    ) -> Collection[Link]:
        """Returns the links of a pair, from source word to target word.

        Args:
            readouts: where the links of each run are read.
            records: the record of each; one of the opposite direction has the target as its source.
            reverse: of each, whether it is of the opposite direction.
        """
        links: set[Link]
        matrix = self.calibration.matrix(records) if self.calibration else np.zeros((0, 0))
        if self.way == PROBABLE:
            assert self.calibration is not None
            links = as_links(matrix > self.calibration.threshold)
        elif self.way == MEAN_WEIGHTS:
            links = mean_links(readouts, records, reverse)
        else:
            links, *opposite = (readout.links(record) for readout, record in zip(readouts, records, strict=True))
            if opposite:
                links = SYMMETRISATIONS[self.way](links, {(i, j) for j, i in opposite[0]})
        return probabilities_of(links, matrix) if self.with_probabilities else links


def mean_links(
    readouts: Sequence[AlignmentReadout], records: Sequence[Record], reverse: Sequence[bool] = (False, True)
) -> set[Link]:
    """Links words by the mean of several runs' weights: the mean of each direction's mean, so both count the same.

    What one run is sure of counts, even if another one hardly sees it, as it does not where only the links are
    compared. Words are linked that each have the largest mean weight of the other; then neighbours of links whose mean
    weight is above `LEAST_NEIGHBOUR`, if one of the two words has no link yet, as `grow_diag` adds them.

    Args:
        readouts: where the weights of each run are read; the way of linking makes no difference.
        records: the record of each.
        reverse: of each run, whether it reads the target and writes the source.
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
    """Averages matrices of which some may have fewer rows or columns, since a model may have cut the sentence short."""
    total = np.zeros(np.max([matrix.shape for matrix in matrices], axis=0))
    for matrix in matrices:
        total[: matrix.shape[0], : matrix.shape[1]] += matrix
    return total / len(matrices)


@dataclass(frozen=True)
class Direction:
    """A run, and the text in the direction in which it translates.

    Args:
        run: the `TrainedRun`.
        text: the text as it was written, in the direction of the run.
        readout: where its alignments are read; None if that is yet to be chosen.
        units: what counts as a word where none are given.
        reverse: whether the text is turned: links are from its target to its source.
        normalizes: whether `data.normalize` of the run acts on the text; links are between the words as they were
            written all the same.
    """

    run: Any
    text: AlignedText
    readout: AlignmentReadout | None = None
    units: WordUnits = BETWEEN_SPACES
    reverse: bool = False
    normalizes: bool = False

    def plain(self) -> "Direction":
        """Returns the direction with its links, or the weights they are read off, but no probabilities of them."""
        return replace(self, readout=self.readout and replace(self.readout, calibration=None, likely=False))

    def on(self, text: AlignedText, units: WordUnits = BETWEEN_SPACES) -> "Direction":
        """Returns the direction on another text, given from source to target, with what counts as a word in it."""
        if not self.reverse:
            return replace(self, text=text, units=units)
        return replace(self, text=text.turned(), units=WordUnits(*reversed(units)))

    def records(self, count: int | None = None) -> Iterator[Record]:
        """Yields records of the cross-attention over the targets of the first `count` pairs, or of all."""
        text = self.text if count is None else self.text.part(0, count)
        units = WordUnits(
            *(unit if words is None else "characters" for unit, words in zip(self.units, text.words, strict=True))
        )
        recorder = self.run.recorder(["cross", *([self.readout.site] if self.readout else [])], units)
        sides: list[Any] = []
        counted: list[Iterable[str | None]] = []
        for side, lines, words, unit in zip(units._fields, (text.source, text.target), text.words, units, strict=True):
            normalize = self.run.reader.make_normalizer(side) if self.normalizes else None
            sides.append(ChangedLines(lines, normalize) if normalize else lines)
            tokenizer = self.run.tokenizer if side == "source" else self.run.tokenizer.of_target
            # Without what is left out, so that the words of both are compared; they keep their numbers.
            plain = map(tokenizer.without_format_characters, lines)
            as_written = plain if normalize and unit == "spaces" else repeat(None)
            counted.append(as_written if words is None else words)
        return map(number_words, recorder.record_references(*sides), *counted)

    def warn(self, start: int, stop: int) -> None:
        """Warns of what the run does not read in these pairs as it is written, see `TypedText`."""
        for reader, lines in zip(self._typed, (self.text.source, self.text.target), strict=True):
            reader.read(lines[start:stop], range(start + 1, stop + 1))

    @cached_property
    def _typed(self) -> list[TypedText]:
        sides = zip(self.text.names, self.units._fields, strict=True)
        return [self.run.reader.typed_text(name, side, normalizes=self.normalizes) for name, side in sides]


def iterate_links(directions: Sequence[Direction], linking: Linking, subwords: bool) -> Iterator[Collection[Link]]:
    """Yields the links of each pair: (source word, target word).

    Args:
        directions: all runs on the same text, each with a readout; the first is not turned.
        linking: how words are linked.
        subwords: whether subwords are linked instead of words; only for one run.
    """
    streams = (map(Record.by_token, one.records()) if subwords else one.records() for one in directions)
    readouts = [direction.readout for direction in directions if direction.readout is not None]
    reverse = [direction.reverse for direction in directions]
    for records in zip(*streams, strict=True):
        yield linking(readouts, records, reverse)


PART_PAIRS = 1024  # a multiple of the pairs that a recorder batches together, so that the batches are the same


def align_in_processes(
    directions: Sequence[Direction], linking: Linking, subwords: bool, workers: int
) -> Iterator[Collection[Link]]:
    """Yields the links of each pair as `iterate_links` does, computed by so many processes, or by this one."""
    if workers == 1:
        return iterate_links(directions, linking, subwords)
    bare = [
        replace(one, run=RunParts((one.run.directory.root,), "best", one.run.config), text=AlignedText([], []))
        for one in directions
    ]
    text, units = directions[0].text, directions[0].units
    parts = (text.part(start, start + PART_PAIRS) for start in range(0, len(text), PART_PAIRS))
    return chain.from_iterable(map_in_processes(partial(_align, bare, units, linking, subwords), parts, workers))


def _align(
    directions: Sequence[Direction], units: WordUnits, linking: Linking, subwords: bool, text: AlignedText
) -> list[Collection[Link]]:
    """Returns the links of a part of the text, in a process of its own, which loads the runs from their parts."""
    own = [replace(one.on(text, units), run=one.run.run) for one in directions]
    return list(iterate_links(own, linking, subwords))
