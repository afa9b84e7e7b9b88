"""The attention over the probes at several moments of training, for the viewer."""

import re
from collections.abc import Sequence
from pathlib import Path

from ...errors import InputError
from ...files.run_directory import RunDirectory
from ..archive import AttentionArchive
from .viewer_run import ViewerRun

MOST_STAGES = 40  # of the slider; the page shows at most 8 of them side by side


def stages_of_training(root: Path, facts: Sequence[str] = ()) -> list[ViewerRun]:
    """Reads the probes of a run at up to `MOST_STAGES` updates, evenly spread, with the first and the last.

    Args:
        root: the run's folder.
        facts: what the page's header says of the run.

    Raises:
        InputError: no probe has a reference, or an archive is damaged.
    """
    archives = probe_archives(RunDirectory.open(root).probes)
    if not archives:
        raise InputError(
            f"{root}: no attention over training: none of inspection.probes has a reference, or the run has had no "
            "validation yet"
        )
    count = min(MOST_STAGES, len(archives))
    chosen = [archives[round(i * (len(archives) - 1) / max(1, count - 1))] for i in range(count)]
    return [ViewerRun(f"update {update:,}", facts=facts).add_all(AttentionArchive(path)) for path, update in chosen]


def probe_archives(folder: Path) -> list[tuple[Path, int]]:
    """Returns the archives in a folder with the updates after which they were written, earliest first."""
    matches = ((path, re.fullmatch(r"update-([0-9]+)", path.name)) for path in sorted(folder.glob("update-*")))
    return [(path, int(match[1])) for path, match in matches if match]
