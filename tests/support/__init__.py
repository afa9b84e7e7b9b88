"""What tests share and is no test."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
"""The folder of the repository."""

KEPT_RUNS = ROOT / "tests" / "kept_runs" / "0.2.0.dev0"
"""The runs that this version has kept, by their architecture."""
