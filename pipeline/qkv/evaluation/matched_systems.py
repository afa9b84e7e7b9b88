"""The heads of several evaluations, matched to those of the first."""

from collections.abc import Iterator, Sequence

from ..inspection.archive import AttentionArchive
from ..inspection.matched_heads import MatchedHeads, match_heads
from ..inspection.record import Record
from .evaluated import Evaluated
from .evaluated_archive import EvaluatedArchive

System = Evaluated | EvaluatedArchive


def match_to_first(systems: Sequence[System]) -> list[MatchedHeads | None]:
    """Matches the heads of each system but the first; see `match_heads`."""
    return [match_heads(_records(systems[0], other)) for other in systems[1:]]


def _records(first: System, other: System) -> Iterator[tuple[Record, Record]]:
    archives = [AttentionArchive(system.evaluation.attention) for system in (first, other)]
    return zip(*(archive.records(["cross"]) for archive in archives), strict=False)
