"""The files of runs, and what must be the same of two folders that commands wrote, bit for bit: all but times."""

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator

from qkv.files.run_directory import EVENT_FILES
from qkv.files.written import LIST

TIMES = ["minutes", "tokens_per_second"]  # all else of a run depends on text, settings and seed alone
NAMED = ("config.yaml", "manifest.json")
"""Files of a run that hold its name."""
OF_A_PROCESS = (*TIMES, "compilations")
"""Columns of the history that are not the run's."""


def content(path: Path) -> Any:
    """What must be the same of a file."""
    if path.name == "history.csv":
        header, *rows = (line.split(",") for line in path.read_text().splitlines())
        return [[value for name, value in zip(header, row, strict=True) if name not in OF_A_PROCESS] for row in rows]
    if path.name in ("manifest.json", "metrics.json"):
        values = json.loads(path.read_text())
        return {
            key: value
            for key, value in values.items()
            if "seconds" not in key and key not in ("model_sha256", "git_commit")
        }
    if path.name == "files.json" and path.parent.name == "encoded":
        return None  # the times of the text's files, of those that had settled when it was written
    if path.name == LIST:
        return None  # the names of event files, and of files that a killed process wrote
    if path.suffix == ".keras":
        with zipfile.ZipFile(path) as archive:
            return archive.read("model.weights.h5")
    if path.suffix == ".npz" and path.parent.name == "checkpoints":
        with zipfile.ZipFile(path) as archive:
            return {name: archive.read(name) for name in archive.namelist() if name != "progress.npy"}
    return path.read_bytes()


def contents(folder: Path) -> dict[str, Any]:
    """All that must be the same; nothing else may be there. Of event files it is what TensorBoard shows of them."""
    files = {
        str(path.relative_to(folder)): content(path) if path.is_file() else None
        for path in folder.rglob("*")
        if not path.match(EVENT_FILES)
    }
    for place in sorted({path.parent for path in folder.rglob(EVENT_FILES)}):
        events = events_of(place)
        tags = [tag for tag in events.Tags()["tensors"] if tag.split("/")[-1] not in (*TIMES, "session_start_info")]
        files |= {f"{place.relative_to(folder)}: {tag}": [event.step for event in events.Tensors(tag)] for tag in tags}
    return files


def contents_but_names(run: Path) -> dict[str, Any]:
    """All that must be the same of two runs with names of their own."""
    return {key: None if key in NAMED else value for key, value in contents(run).items()}


def differing(found: dict[str, Any], expected: dict[str, Any]) -> list[str]:
    """Returns the names of what differs, or is in one alone."""
    missing = object()
    return sorted(
        key for key in found.keys() | expected.keys() if found.get(key, missing) != expected.get(key, missing)
    )


def state_at(run, update):
    """Every array of a checkpoint: weights, optimizer, dropout's random numbers."""
    with np.load(run / "checkpoints" / f"update-{update:08d}.npz") as archive:
        return {name: archive[name] for name in archive.files if name != "progress"}


def history_of(run):
    return pd.read_csv(run / "history.csv").drop(columns=TIMES).set_index("update")


def events_of(folder):
    """What TensorBoard reads, all of it."""
    return EventAccumulator(str(folder)).Reload()
