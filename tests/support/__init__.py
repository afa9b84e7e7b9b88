"""What tests share and is no test."""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
"""The folder of the repository."""

KEPT_RUNS = ROOT / "tests" / "kept_runs" / "0.2.0.dev0"
"""The runs that this version has kept, by their architecture."""


def files_below(folder: Path) -> dict[str, bytes]:
    """The contents of all files below a folder, by their paths from there."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def change_json(path: Path, **values: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | values), encoding="utf-8")
