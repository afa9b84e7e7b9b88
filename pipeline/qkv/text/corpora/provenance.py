"""Digests of the files that a run's text was read from, and checks that they are still the same."""

import hashlib
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...config import RunConfig
from ...config.corpus import CorpusSettings
from ...config.data import DataSettings
from ...config.run import KEPT_BUT, changes_of_result, make_run_config
from ...errors import InputError
from ...files.json import read_json_if_whole
from ...files.paths import files_like, is_pattern, sha256
from ...files.run_directory import RunDirectory

log = logging.getLogger(__name__)


def data_sha256(settings: DataSettings, run: RunDirectory) -> dict[str, str]:
    """Returns the SHA-256 of every file that the settings name; files of the run have their path within it."""
    corpora = [*settings.training_corpora, *(one for one in (settings.validation, settings.test) if one is not None)]
    paths = {_name(path, run): path for corpus in corpora for path in _files(corpus)}
    return {name: sha256(paths[name]) for name in sorted(paths)}


def shard_digests(corpus: CorpusSettings, run: RunDirectory, digests: Mapping[str, str]) -> list[dict[str, str]]:
    """Returns the digest of each text of a corpus, by its key, for each of its shards."""
    keys = ("source", "target", "table", "split_file")
    return [{key: digests[_name(path, run)] for key, path in files.items() if key in keys} for files in corpus.shards()]


def prepared_sha256(run: RunDirectory) -> dict[str, str]:
    """Returns the SHA-256 of all files of the run that training reads: the tokenizer and the encoded text."""
    files = {path for path in run.encoded.rglob("*") if path.is_file() and not path.is_relative_to(run.shards)}
    return {_name(path, run): sha256(path) for path in (run.tokenizer, *sorted(files))}


def recorded_sha256(run: RunDirectory) -> dict[str, str]:
    """Returns the SHA-256 that each file of the data had when it was read; empty for imported runs."""
    return _reported(run, "sha256")


def origin_of(run: RunDirectory, seed: int) -> dict[str, str]:
    """Returns the marks of a run that its checkpoints keep: its seed, and digests of its tokenizer, its text and its
    report, which has the settings of the start; a part whose file is missing is left out."""
    files = {"corpus report": run.corpus_report, "tokenizer": run.tokenizer}
    origin = {"seed": str(seed), **{name: sha256(path) for name, path in files.items() if path.is_file()}}
    if recorded := recorded_sha256(run):
        origin["training text"] = hashlib.sha256(json.dumps(recorded, sort_keys=True).encode()).hexdigest()
    return origin


def check_settings(config: RunConfig, run: RunDirectory, section: str = "") -> None:
    """Compares settings, those that begin with `section`, with the ones that a run's text was prepared with, if it was.
    Its files may have moved.

    Raises:
        InputError: one has changed that a run keeps.
    """
    begun = _reported(run, "settings")
    if not begun:
        return
    digests = recorded_sha256(run)

    def same(before: Any, after: Any) -> bool:
        if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
            return all(map(same, before, after))
        if isinstance(before, dict) and isinstance(after, dict):
            return all(same(before.get(key), after.get(key)) for key in before | after)
        is_moved = isinstance(after, str) and isinstance(before, str) and before in digests and Path(after).is_file()
        return before == after or (is_moved and sha256(Path(after)) == digests[before])

    changes = changes_of_result(make_run_config(begun, {}, run.root.name), config, same)
    if changes := [change for change in changes if change.startswith(section)]:
        shown = "\n  ".join(changes)
        raise InputError(
            f"{run.config}: changed since the run began:\n  {shown}\nPut the values back: a run keeps its settings, "
            f"except {KEPT_BUT}; for other settings start a new run with --config and --run.name"
        )


def check_prepared(run: RunDirectory) -> None:
    """Raises an `InputError` if the tokenizer or the encoded text of a run has changed since the text was prepared."""
    recorded = _reported(run, "prepared_sha256")
    for name, digest in prepared_sha256(run).items():
        if recorded.get(name, digest) != digest:
            raise InputError(
                f"{run.root / name}: changed since the run began: its SHA-256 is not that in {run.corpus_report.name}; "
                "restore the file, or delete the run's folder and train anew"
            )


def check_unchanged(settings: DataSettings, run: RunDirectory) -> None:
    """Compares the files of the data with what they were when the run began.

    Changed training files give a warning, since the run holds their text encoded.

    Raises:
        InputError: a validation file has changed; it is read anew.
    """
    recorded = recorded_sha256(run)
    changed = {path for path, digest in data_sha256(settings, run).items() if recorded.get(path, digest) != digest}
    for path in _files(settings.validation) if settings.validation else ():
        if _name(path, run) in changed:
            raise InputError(
                f"{path} has changed since the run began, and is validated on; put the old file back, or train anew"
            )
    for name in sorted(changed):
        log.warning("%s has changed since the run began; training goes on with the text as it was", name)


def _reported(run: RunDirectory, key: str) -> dict[str, Any]:
    recorded = read_json_if_whole(run.corpus_report).get(key)
    return recorded if isinstance(recorded, dict) else {}


def _files(corpus: CorpusSettings) -> list[Path]:
    """Returns the files that still exist; some may have been deleted since the text was read."""
    found = (files_like(path) if is_pattern(path) else [path] for _, path in corpus if isinstance(path, Path))
    return [path for files in found for path in files if path.is_file()]


def _name(path: Path, run: RunDirectory) -> str:
    return str(path.relative_to(run.root)) if path.is_relative_to(run.root) else str(path)
