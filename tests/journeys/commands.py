"""Runs the commands of a clone as a person does: in a shell's folder of their own, by their names."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(folder: Path, *words: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    """Runs `python train.py ...`, `python evaluate.py ...` or `python -m pipeline.NAME ...` in a folder.

    Args:
        folder: where the command runs.
        words: the command without `python`.
        given: its standard input.

    Raises:
        AssertionError: the command failed.
    """
    ended = attempt(folder, *words, given=given)
    assert ended.returncode == 0, f"{words}\n{ended.stdout}\n{ended.stderr}"
    return ended


def attempt(folder: Path, *words: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    """Runs a command as `run` does, whatever its exit status."""
    return subprocess.run(
        command(*words),
        cwd=folder,
        env=environment(),
        input=given,
        stdin=subprocess.DEVNULL if given is None else None,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def command(*words: str) -> list[str]:
    """Returns the words of a command, its script found in the repository."""
    script = [str(ROOT / words[0])] if words[0].endswith(".py") else [words[0]]
    return [sys.executable, *script, *words[1:]]


def environment() -> dict[str, str]:
    """Returns the environment of a clone's root, from which `python -m pipeline.NAME` is found."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"}
