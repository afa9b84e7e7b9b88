"""Answers that were worth keeping, as attention archives in the folders of their runs."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..errors import InputError
from ..evaluation.inspected import archive_manifest
from ..files.atomic import check_own_folder, new_folder
from ..inspection.archive_writer import ArchiveWriter
from .live_run import Answer, LiveRun

FOLDER = "live"  # in the run's
MOST_CASES = 10_000


def save_case(answers: Sequence[tuple[LiveRun, Answer]]) -> list[Path]:
    """Writes answers as archives, one for each run: `RUN/live/0001`, `0002` and so on. `qkv view`, `draw` and
    `measure` read them.

    Returns:
        The folders.

    Raises:
        InputError: a folder cannot be written, or there are too many.
    """
    runs = list(dict.fromkeys(live for live, _ in answers))
    return [_save(live, [answer for other, answer in answers if other is live]) for live in runs]


def _save(live: LiveRun, answers: Sequence[Answer]) -> Path:
    parent = live.run.directory.root / FOLDER
    check_own_folder(parent)
    path = _free_folder(parent)
    with new_folder(path, "saves a case here") as folder:
        manifest = archive_manifest(live.run) | {"questions": [answer.question.model_dump() for answer in answers]}
        with ArchiveWriter(folder, manifest=manifest) as writer:
            for number, answer in enumerate(answers):
                writer.append(replace(answer.record, id=number))
    return path


def _free_folder(parent: Path) -> Path:
    for number in range(1, MOST_CASES):
        if not os.path.lexists(path := parent / f"{number:04d}"):
            return path
    raise InputError(f"{parent}: has {MOST_CASES} cases already; delete some")
