"""Digests of the files that the text of a run was read from, and checks that files and settings are unchanged."""

import hashlib
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...config import RunConfig
from ...config.corpus import CorpusSettings
from ...config.data import DataSettings
from ...config.run import CHANGEABLE_SETTINGS, changes_of_result, make_run_config, with_kept_pairs
from ...config.yaml import replaced
from ...errors import InputError
from ...files.json import read_json_if_whole
from ...files.paths import files_like, is_pattern, sha256
from ...files.run_directory import RunDirectory

log = logging.getLogger(__name__)


def data_sha256(settings: DataSettings, run: RunDirectory) -> dict[str, str]:
    """Returns the SHA-256 of every existing file that the settings name, by its path.

    The path of a file in the run's folder is relative to that folder.
    """
    sets = [corpus for corpus in (settings.validation, settings.test) if corpus is not None]
    paths = {_name(path, run): path for corpus in [*settings.training_corpora, *sets] for path in _files(corpus)}
    return {name: sha256(paths[name]) for name in sorted(paths)}


def file_set_digests(corpus: CorpusSettings, run: RunDirectory, digests: Mapping[str, str]) -> list[dict[str, str]]:
    """Returns the digests of the text files of a corpus.

    Args:
        corpus: the settings of the corpus.
        run: the run.
        digests: the digests of `data_sha256`.

    Returns:
        A dict for each of the corpus' file sets: the SHA-256 by setting, such as `source`.
    """
    settings_of_text = ("source", "target", "table", "split_file")
    return [
        {key: digests[_name(path, run)] for key, path in files.items() if key in settings_of_text}
        for files in corpus.file_sets()
    ]


def prepared_sha256(run: RunDirectory) -> dict[str, str]:
    """Returns the SHA-256 of the tokenizer and of each file of encoded text in a run, by path from the run's folder."""
    files = {path for path in run.encoded.rglob("*") if path.is_file() and not path.is_relative_to(run.shards)}
    return {_name(path, run): sha256(path) for path in (run.tokenizer, *sorted(files))}


def recorded_sha256(run: RunDirectory) -> dict[str, str]:
    """Returns the SHA-256 that each data file had when it was read, by its path. Empty for an imported run."""
    return _reported(run, "sha256")


def pairs_origin(run: RunDirectory) -> dict[str, Any]:
    """Returns the origin of the text of a run that was trained on pairs in memory, as the entry `text_origin`.

    The entry is a part of the corpus report and of the manifest: `from`, the number of `pairs`, and the `sha256` of
    each side. Empty for other runs.
    """
    origin = read_json_if_whole(run.pairs_origin)
    return {"text_origin": origin} if origin else {}


def origin_of(run: RunDirectory, seed: int) -> dict[str, str]:
    """Returns the fingerprint of a run, which is stored in its checkpoints.

    Args:
        run: the run.
        seed: the run's seed.

    Returns:
        The seed and the digests of the tokenizer, the training text and the corpus report, by name. The report has the
        settings with which the run began. A digest is left out if its file is missing.
    """
    files = {"corpus report": run.corpus_report, "tokenizer": run.tokenizer}
    origin = {"seed": str(seed), **{name: sha256(path) for name, path in files.items() if path.is_file()}}
    if recorded := recorded_sha256(run):
        origin["training text"] = hashlib.sha256(json.dumps(recorded, sort_keys=True).encode()).hexdigest()
    return origin


def check_same_settings(config: RunConfig, run: RunDirectory, section: str = "") -> None:
    """Checks that settings equal those with which the text of the run was prepared. Data files may have moved.

    Args:
        config: the current settings.
        run: the run. If its text is not prepared yet, nothing is checked.
        section: the beginning of the keys to check, such as `model.`; empty checks all.

    Raises:
        InputError: a setting that a run must keep has changed.
    """
    settings_at_start = _reported(run, "settings")
    if not settings_at_start:
        return
    digests = recorded_sha256(run)

    def same(before: Any, after: Any) -> bool:
        """Returns whether two values are equal. Different paths count as equal if their files have equal content."""
        if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
            return all(map(same, before, after))
        if isinstance(before, dict) and isinstance(after, dict):
            return all(same(before.get(key), after.get(key)) for key in before | after)
        is_moved = isinstance(after, str) and isinstance(before, str) and before in digests and Path(after).is_file()
        return before == after or (is_moved and sha256(Path(after)) == digests[before])

    # A run may change `data.normalize`, and those of older versions have a switch there that is refused today.
    compared = with_kept_pairs(replaced(settings_at_start, ["data", "normalize"], None), run)
    changes = changes_of_result(make_run_config(compared, {}, run.root.name), config, same)
    if changes := [change for change in changes if change.startswith(section)]:
        shown = "\n  ".join(changes)
        raise InputError(
            f"{run.config}: changed since the run began:\n  {shown}\nPut the values back: a run keeps its settings, "
            f"except {CHANGEABLE_SETTINGS}; for other settings start a new run with --config and --run.name"
        )


def check_prepared(run: RunDirectory) -> None:
    """Raises an `InputError` if the tokenizer or the encoded text of a run has changed since the run was prepared."""
    recorded = _reported(run, "prepared_sha256")
    for name, digest in prepared_sha256(run).items():
        if recorded.get(name, digest) != digest:
            raise InputError(
                f"{run.root / name}: changed since the run began: its SHA-256 is not that in {run.corpus_report.name}; "
                "restore the file, or delete the run's folder and train again"
            )


def check_unchanged(settings: DataSettings, run: RunDirectory) -> None:
    """Checks that the data files are the same as when the run began.

    A changed training file only leads to a warning, since the run has its text in encoded form.

    Args:
        settings: the settings of the text.
        run: the run.

    Raises:
        InputError: a file of the validation set has changed. The run has no copy of it and reads it again.
    """
    recorded = recorded_sha256(run)
    changed = {path for path, digest in data_sha256(settings, run).items() if recorded.get(path, digest) != digest}
    for path in _files(settings.validation) if settings.validation else ():
        if _name(path, run) in changed:
            raise InputError(
                f"{path} has changed since the run began, and is validated on; put the old file back, or train again"
            )
    for name in sorted(changed):
        log.warning("%s has changed since the run began; training goes on with the text as it was", name)


def _reported(run: RunDirectory, key: str) -> dict[str, Any]:
    """Returns a dict from the corpus report; an empty one if the report or the key is missing or damaged."""
    recorded = read_json_if_whole(run.corpus_report).get(key)
    return recorded if isinstance(recorded, dict) else {}


def _files(corpus: CorpusSettings) -> list[Path]:
    """Returns the existing files of a corpus. Some may have been deleted since the text was read."""
    paths = [path for _, path in corpus if isinstance(path, Path)]
    files = [file for path in paths for file in (files_like(path) if is_pattern(path) else [path])]
    return [file for file in files if file.is_file()]


def _name(path: Path, run: RunDirectory) -> str:
    """Returns the path of a file as text, relative to the run's folder if the file lies in it."""
    return str(path.relative_to(run.root)) if path.is_relative_to(run.root) else str(path)
