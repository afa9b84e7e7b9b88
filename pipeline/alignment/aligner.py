"""Word alignments of any parallel text, read off the attention of one trained run or of two of opposite directions."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ..errors import InputError
from ..inspection.record import SIDES, Record
from ..text.pharaoh import Link
from ..trained_run import TrainedRun, load_run
from .agreement import most_agreeing
from .gold import choice_set, choose_head, head_table, read_sites
from .links import LINKS
from .readout import ALIGNED_SITES, MEAN_HEAD, ChosenReadout
from .symmetrise import Symmetrisation

AGREEMENT_PAIRS = 500  # enough to tell heads apart

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Direction:
    """A run, and the text in the direction in which it translates.

    Args:
        run: the run.
        source: sentences in the language that it reads.
        target: their translations.
        choice: where its alignments are read, where that is known.
    """

    run: TrainedRun
    source: Sequence[str]
    target: Sequence[str]
    choice: ChosenReadout | None = None

    @classmethod
    def load(cls, root: Path, place: str | None, source: Sequence[str], target: Sequence[str]) -> "Direction":
        """Loads the run in a folder; its place is given as `LAYER,HEAD,SIDE[,LINKS[,SITE]]`, or chosen on its gold
        alignments.

        Raises:
            InputError: it is no run, or has no such place.
        """
        run = load_run(root)
        if place is not None:
            return cls(run, source, target, _parse_place(place, run))
        gold = choice_set(run)
        choice = choose_head(head_table(run.recorder(read_sites(run)), gold), gold.name) if gold else None
        return cls(run, source, target, choice)

    def records(self, count: int | None = None) -> Iterator[Record]:
        """The cross-attention over the targets of the first `count` pairs, or of all."""
        recorder = self.run.recorder(["cross", *([self.choice.site] if self.choice else [])])
        return recorder.record_references(self.source[:count], self.target[:count])


def align(directions: Sequence[Direction], symmetrise: Symmetrisation, subwords: bool = False) -> Iterator[set[Link]]:
    """The links of each pair, source word and target word of the first direction.

    Args:
        directions: one, or one and its opposite on the same text.
        symmetrise: makes the links of two directions one.
        subwords: whether subwords are linked in place of words; for one direction, since each run has its own.

    Raises:
        InputError: there is nothing to choose the layer and head by.
    """
    choices = _choices(directions)
    for direction, choice in zip(directions, choices, strict=True):
        log.info(
            "%s: %s, layer %d, head %s, %s side, %s links, chosen by %s",
            direction.run.directory.root,
            choice.site,
            choice.layer,
            choice.head,
            choice.side,
            choice.linked,
            choice.chosen_on,
        )
    forward, *opposite = (
        map(choice.links, map(Record.by_token, direction.records()) if subwords else direction.records())
        for direction, choice in zip(directions, choices, strict=True)
    )
    if not opposite:
        return forward
    return (symmetrise(a, {(i, j) for j, i in b}) for a, b in zip(forward, opposite[0], strict=True))


def _choices(directions: Sequence[Direction]) -> list[ChosenReadout]:
    """The choice of each direction; those not known are the places at which the two agree most."""
    choices = [direction.choice for direction in directions]
    if None in choices and len(directions) == 2:
        agreed = most_agreeing(*(direction.records(AGREEMENT_PAIRS) for direction in directions))
        pairs = min(AGREEMENT_PAIRS, len(directions[0].source))
        name = f"the two directions' agreement, {100 * agreed.value:.1f} % on {pairs} pairs"
        found = [ChosenReadout(**asdict(place), chosen_on=name) for place in (agreed.forward, agreed.backward)]
        choices = [known or new for known, new in zip(choices, found, strict=True)]
    known = [choice for choice in choices if choice is not None]
    if len(known) < len(choices):
        raise InputError(
            f"{directions[0].run.directory.root}: nothing to choose the layer and head by: give --at LAYER,HEAD,SIDE, "
            "or a run of the opposite direction, or name gold alignments in the run's config "
            "(inspection.choose_head_on)"
        )
    return known


def _parse_place(text: str, run: TrainedRun) -> ChosenReadout:
    """What `LAYER,HEAD,SIDE[,LINKS[,SITE]]` says.

    Raises:
        InputError: it is not of that form, or the run has no such layer or head.
    """
    parts = text.split(",")
    head: int | str
    try:
        layer_text, head_text, side, linked, site = [*parts, *("target", "cross")[max(0, len(parts) - 3) :]]
        layer, head = int(layer_text), head_text if head_text == MEAN_HEAD else int(head_text)
    except ValueError:
        side = linked = site = ""
    if side not in SIDES or linked not in LINKS or site not in ALIGNED_SITES:
        raise InputError(
            f"expected LAYER,HEAD,SIDE such as 1,mean,output or 2,0,input, perhaps with ,LINKS ({', '.join(LINKS)}) "
            f"and ,SITE ({', '.join(ALIGNED_SITES)}); found {text!r}"
        )
    record = next(run.recorder(["cross", site]).record_references(["a"], ["a"]))
    layers, heads = record.attention[site].shape[:2]
    if not 0 <= layer < layers or not (head == MEAN_HEAD or 0 <= int(head) < heads):
        raise InputError(
            f"{run.directory.root} has {layers} layers of {heads} heads, both counted from 0; found {text!r}"
        )
    return ChosenReadout(layer, head, side, linked, site, chosen_on="the command line")
