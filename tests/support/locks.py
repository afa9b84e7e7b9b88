"""What the lock files hold."""

from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.version import Version

from tests.support import ROOT


class Locked(NamedTuple):
    """A package of a lock file: where its marker holds, this version with one of these hashes is installed."""

    requirement: Requirement
    hashes: frozenset[str]

    @property
    def name(self) -> str:
        """Its normalised name."""
        return self.requirement.name

    @property
    def version(self) -> Version:
        """Its only version."""
        (specifier,) = self.requirement.specifier
        assert specifier.operator == "=="
        return Version(specifier.version)

    def holds(self, environment: dict[str, str]) -> bool:
        """Whether it is installed in an environment, given by the variables of markers."""
        marker = self.requirement.marker
        return marker is None or marker.evaluate(environment)


def locked(file: str) -> list[Locked]:
    """Reads a lock file: lines, each continued by those of its hashes."""
    text = (ROOT / file).read_text(encoding="utf-8").replace("\\\n", " ")
    lines = (line for line in text.splitlines() if line and not line.lstrip().startswith("#"))
    parts = ([part.strip() for part in line.split("--hash=")] for line in lines)
    return [Locked(Requirement(first), frozenset(hashes)) for first, *hashes in parts]
