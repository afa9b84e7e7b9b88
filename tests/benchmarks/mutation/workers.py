"""Tests several mutants at a time: processes with a copy of the project each, forked from one that only imports."""

import hashlib
import multiprocessing
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .forked_tests import Copy

UNCHANGED_SECONDS = 3600


@dataclass(frozen=True)
class Task:
    """A mutant that is to be tested.

    Args:
        mutant: what its caller knows it by; has a `module`, or that key.
        code: the module's code, changed.
        files: paths of tests; without any, no test fails.
    """

    mutant: Any
    code: str
    files: list[str]

    @property
    def module(self) -> str:
        return self.mutant["module"] if isinstance(self.mutant, dict) else self.mutant.module


class Workers:
    """Processes that test mutants.

    Args:
        jobs: how many.
        seconds: how long each test takes, as far as is known, and marks of the files that are known whole.
    """

    def __init__(self, jobs: int, seconds: dict[str, float]) -> None:
        self.seconds = seconds
        self.folder = tempfile.TemporaryDirectory(prefix="qkv-mutants-")
        self.pool = multiprocessing.get_context("fork").Pool(jobs, _make_copy, [self.folder.name])

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *error: object) -> None:
        self.pool.terminate()
        self.pool.join()
        self.folder.cleanup()

    def measure(self, files: list[str]) -> Iterator[dict[str, float]]:
        """Runs each file of tests that is not known yet with the code unchanged; yields how long its tests take.

        Raises:
            SystemExit: one of them fails.
        """
        unknown = [file for file in files if _mark(file) not in self.seconds]
        for file, failed, seconds in self.pool.imap_unordered(_run_unchanged, unknown):
            if failed:
                sys.exit(f"{failed} fails with the code unchanged:\n{seconds}")
            yield {**seconds, _mark(file): 0.0}

    def test(self, tasks: list[Task]) -> Iterator[tuple[Task, str]]:
        """Yields each task, as they end, with its first test that fails, or "" if none does."""
        return self.pool.imap_unordered(_test, [(task, self.seconds) for task in tasks])


def _mark(file: str) -> str:
    return f"{file} {hashlib.sha256(Path(file).read_bytes()).hexdigest()}"


_copy: Copy


def _make_copy(folder: str) -> None:
    global _copy
    _copy = Copy(Path(tempfile.mkdtemp(dir=folder)))


def _run_unchanged(file: str) -> tuple[str, str, Any]:
    _copy.seconds = {}
    if failed := _copy.test(file, UNCHANGED_SECONDS, whole=True):
        output = (_copy.folder / "output.txt").read_text(encoding="utf-8", errors="replace")
        return file, failed, output[-3000:]
    return file, "", _copy.seconds


def _test(asked: tuple[Task, dict[str, float]]) -> tuple[Task, str]:
    task, _copy.seconds = asked
    return task, _copy.test_mutant(task.module, task.code, task.files)
