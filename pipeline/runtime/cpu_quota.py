"""The share of a machine's processor time that a container may use, which the number of its cores does not tell."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

GROUPS, OWN_GROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def cpu_quota(groups: Path = GROUPS, own_groups: Path = OWN_GROUPS) -> float | None:
    """Returns how many cores' time Linux' control groups allow this process, or None for no limit.

    `docker run --cpus 2` and a limit of Kubernetes set such a quota. A process with more threads than that is stopped
    for a part of each tenth of a second, in the middle of what the other threads wait for. Groups are nested, and the
    lowest quota holds.

    Args:
        groups: where the control groups are mounted, of version 1 or 2.
        own_groups: names those of this process.
    """
    with suppress(OSError):
        lines = own_groups.read_text(encoding="utf-8", errors="replace").splitlines()
        return min(filter(None, (_quota(folder) for line in lines for folder in _folders(line, groups))), default=None)
    return None  # not on Linux


def _folders(line: str, groups: Path) -> Iterator[Path]:
    """Yields the folders of a group of this process and of those around it."""
    _, controllers, name = (line.split(":", 2) + ["", ""])[:3]
    if controllers and "cpu" not in controllers.split(","):
        return
    root = groups / controllers if (groups / controllers).is_dir() else groups / "cpu"
    own = root / name.lstrip("/")  # within a container it may be a name that only the host has
    yield from (folder for folder in (own, *own.parents) if folder.is_relative_to(root))


def _quota(folder: Path) -> float | None:
    """Returns the quota of a group in cores."""
    with suppress(OSError, ValueError, ZeroDivisionError):  # without a limit: "max", -1, or no such file
        if (folder / "cpu.max").is_file():
            quota, period = map(int, (folder / "cpu.max").read_text().split())
        else:
            quota, period = (int((folder / f"cpu.cfs_{name}_us").read_text()) for name in ("quota", "period"))
        return quota / period if quota > 0 else None
    return None
