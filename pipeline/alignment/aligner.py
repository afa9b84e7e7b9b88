"""Aligns the words of any parallel text by the attention of one trained run, or of two runs of opposite directions."""

import logging
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import repeat
from pathlib import Path

from ..errors import InputError
from ..inspection.record import Record
from ..text.pharaoh import Link
from ..text.words import BETWEEN_SPACES, WordUnits
from ..trained_run import TrainedRun, load_run
from .agreement import most_agreeing
from .given_words import number_words
from .linking import Linking
from .probable_readout import ProbableReadout
from .readout import ChosenReadout, describe_readout
from .run_readout import find_readout

AGREEMENT_PAIRS = 500  # enough to tell heads apart

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Direction:
    """A run, and the text in the direction in which it translates.

    Args:
        run: the run.
        source: sentences in the language that it reads.
        target: their translations.
        readout: where its alignments are read; None if that is yet to be chosen.
        source_words: the words of the sources, see `read_given_words`; None for those of `units`.
        target_words: those of the targets.
        units: what counts as a word where none are given.
    """

    run: TrainedRun
    source: Sequence[str]
    target: Sequence[str]
    readout: ChosenReadout | None = None
    source_words: Sequence[str] | None = None
    target_words: Sequence[str] | None = None
    units: WordUnits = BETWEEN_SPACES

    @classmethod
    def load(cls, root: Path, at: str | None, source: Sequence[str], target: Sequence[str]) -> "Direction":
        """Loads the run in a folder.

        Args:
            root: the folder.
            at: its readout as `LAYER,HEAD,SIDE[,LINKS[,SITE]]`; None to choose it on the gold alignments that the
                run's config names, if it names any.
            source: sentences in the language that it reads.
            target: their translations.

        Raises:
            InputError: there is no run, or it has no such layer or head.
        """
        run = load_run(root)
        return cls(run, source, target, find_readout(run, at))

    def records(self, count: int | None = None) -> Iterator[Record]:
        """Yields records of the cross-attention over the targets of the first `count` pairs, or of all."""
        given = self.source_words, self.target_words
        units = WordUnits(
            *(unit if words is None else "characters" for unit, words in zip(self.units, given, strict=True))
        )
        recorder = self.run.recorder(["cross", *([self.readout.site] if self.readout else [])], units)
        source, target = self.source, self.target
        if count is not None:
            source, target = source[:count], target[:count]
        records = recorder.record_references(source, target)
        lines = (repeat(None) if words is None else words for words in given)
        return map(number_words, records, *lines)


def choose_readouts(directions: Sequence[Direction], subwords: bool = False) -> list[Direction]:
    """Returns the directions with what counts as a word, and with the place where links are read.

    Args:
        directions: one, or one and its opposite on the same text.
        subwords: whether subwords are linked instead of words; only for one direction, since each run has its own
            subwords.

    Raises:
        InputError: there is nothing by which to choose the layer and head.
    """
    if not subwords:
        directions = _with_units(directions)
    readouts = _choose_readouts(directions)
    if subwords:  # probabilities are of words
        readouts = [one.plain if isinstance(one, ProbableReadout) else one for one in readouts]
    for direction, readout in zip(directions, readouts, strict=True):
        log.info(
            "%s: %s, %s, chosen by %s",
            direction.run.directory.root,
            readout.site,
            describe_readout(readout.layer, readout.head, readout.side, readout.extraction),
            readout.chosen_on,
        )
    return [replace(one, readout=readout) for one, readout in zip(directions, readouts, strict=True)]


def read_links(
    directions: Sequence[Direction],
    linking: Linking,
    subwords: bool,
) -> Iterator[Collection[Link]]:
    """Yields the links of each pair: (source word, target word), in the first direction.

    Args:
        directions: as `choose_readouts` returns them.
        linking: how words are linked.
        subwords: see `choose_readouts`.
    """
    streams = (
        map(Record.by_token, direction.records()) if subwords else direction.records() for direction in directions
    )
    readouts = [direction.readout for direction in directions if direction.readout is not None]
    for records in zip(*streams, strict=True):
        yield linking(readouts, records)


def _with_units(directions: Sequence[Direction]) -> list[Direction]:
    """Returns the directions with what counts as a word: on both the same, so characters where one run of two would
    take its own subwords."""
    first, *others = directions
    cutter = replace(first.run.cutter, otherwise="characters" if others else "subwords")
    units = cutter.units(first.source, first.target)
    if others:
        units = WordUnits(*("characters" if unit == "subwords" else unit for unit in units))
    given = first.source_words, first.target_words
    cutter.log_found(WordUnits(*(u if words is None else "spaces" for u, words in zip(units, given, strict=True))))
    return [replace(first, units=units), *(replace(one, units=WordUnits(*reversed(units))) for one in others)]


def _choose_readouts(directions: Sequence[Direction]) -> list[ChosenReadout]:
    """Returns the readout of each direction; for two directions, unknown readouts are chosen by their agreement."""
    readouts = [direction.readout for direction in directions]
    if None in readouts and len(directions) == 2:
        agreed = _choose_by_agreement(directions)
        readouts = [known or new for known, new in zip(readouts, agreed, strict=True)]
    known = [readout for readout in readouts if readout is not None]
    if len(known) < len(readouts):
        raise InputError(
            f"{directions[0].run.directory.root}: nothing to choose the layer and head by: give --at LAYER,HEAD,SIDE, "
            "or a run of the opposite direction, or name gold alignments in the run's config "
            "(inspection.choose_head_on)"
        )
    return known


def _choose_by_agreement(directions: Sequence[Direction]) -> list[ChosenReadout]:
    agreed = most_agreeing(*(direction.records(AGREEMENT_PAIRS) for direction in directions))
    pairs = min(AGREEMENT_PAIRS, len(directions[0].source))
    reason = f"the two directions' agreement, {100 * agreed.value:.1f} % on {pairs} pairs"
    return [ChosenReadout(**asdict(readout), chosen_on=reason) for readout in (agreed.forward, agreed.backward)]
