"""What tests share and is no test."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
"""The folder of the repository."""
