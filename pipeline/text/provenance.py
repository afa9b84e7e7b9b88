"""The files that a run's text was read from, and whether they are still the same."""

import hashlib
import json
import logging
from pathlib import Path

from ..config.corpus import CorpusSettings
from ..config.data import DataSettings
from ..errors import InputError
from ..files import sha256
from ..json_file import read_json_object
from ..run_directory import RunDirectory

log = logging.getLogger(__name__)


def recorded_sha256(run: RunDirectory) -> dict[str, str]:
    """Returns the SHA-256 that each file of the data had when it was read; empty for runs of versions that did not
    record it."""
    try:
        recorded = read_json_object(run.corpus_report)["sha256"]
    except (OSError, ValueError, KeyError):
        return {}
    return recorded if isinstance(recorded, dict) else {}


def origin_of(run: RunDirectory, seed: int) -> dict[str, str]:
    """Returns what a checkpoint keeps of the run that it is of: its seed, and digests of its tokenizer and its text; a
    part whose file is missing is left out."""
    origin = {"seed": str(seed)}
    if run.tokenizer.is_file():
        origin["tokenizer"] = sha256(run.tokenizer)
    if recorded := recorded_sha256(run):
        origin["training text"] = hashlib.sha256(json.dumps(recorded, sort_keys=True).encode()).hexdigest()
    return origin


def data_sha256(settings: DataSettings, run: RunDirectory) -> dict[str, str]:
    """Returns the SHA-256 of every file that the settings name; files of the run have their path within it."""
    corpora = [corpus for corpus in (settings.train, settings.validation, settings.test) if corpus is not None]
    paths = {_name(path, run): path for corpus in corpora for path in _files(corpus)}
    return {name: sha256(paths[name]) for name in sorted(paths)}


def prepared_sha256(settings: DataSettings, run: RunDirectory) -> dict[str, str]:
    """Returns the SHA-256 of all that training reads: the files that the settings name, and the tokenizer and the
    encoded text of the run."""
    prepared = [run.tokenizer, *sorted(path for path in run.encoded.rglob("*") if path.is_file())]
    return data_sha256(settings, run) | {_name(path, run): sha256(path) for path in prepared}


def _files(corpus: CorpusSettings) -> list[Path]:
    return [path for _, path in corpus if isinstance(path, Path) and path.is_file()]


def _name(path: Path, run: RunDirectory) -> str:
    return str(path.relative_to(run.root)) if path.is_relative_to(run.root) else str(path)


def check_unchanged(settings: DataSettings, run: RunDirectory) -> None:
    """Compares the files of the data with what they were when the run began.

    Changed training files give a warning, since the run holds their text encoded.

    Raises:
        InputError: a validation file has changed; it is read anew.
    """
    recorded = recorded_sha256(run)
    changed = {path for path, digest in data_sha256(settings, run).items() if recorded.get(path, digest) != digest}
    for path in _files(settings.validation_text):
        if _name(path, run) in changed:
            raise InputError(
                f"{path} has changed since the run began, so that validation would no longer be of the same text; "
                "put the old file back, or train anew"
            )
    for name in sorted(changed):
        log.warning("%s has changed since the run began; training goes on with the text as it was", name)
