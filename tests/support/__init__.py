"""What tests share and is no test."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
"""The folder of the repository."""

KEPT_RUNS = ROOT / "tests" / "kept_runs" / "0.2.0.dev0"
"""The runs that this version has kept, by their architecture."""


def files_below(folder: Path) -> dict[str, bytes]:
    """The contents of all files below a folder, by their paths from there."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
