"""The paths that commands are given, checked before TensorFlow is loaded: a wrong one is told at once."""

import argparse
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from pydantic import BaseModel

from .config import RunConfig
from .config.ancestor import check_ancestor
from .config.members import check_members
from .errors import InputError
from .files import LONGEST_NAME, matching_files, refuse_other_than_file, writable_only
from .run_directory import RunDirectory, find_evaluation


def check_paths(options: argparse.Namespace) -> None:
    """Checks the paths among the options of a command; `CHECKS` says which options are paths.

    Raises:
        InputError: a run or a text is missing, or a file cannot be written.
    """
    for name, check in CHECKS.items():
        if (path := getattr(options, name, None)) is not None:
            check(path)
    if hasattr(options, "checkpoint"):
        members = [options.run, *getattr(options, "others", [])] if hasattr(options, "run") else []
        for run in members or options.runs:
            RunDirectory.open(run).check_weights(options.checkpoint)
        if len(members) > 1:
            check_members(members)


def check_config_paths(config: RunConfig) -> None:
    """Checks the paths of a new run's config: the text, and the folder of runs.

    Raises:
        InputError: a text is missing, patterns of a corpus match different numbers of files, or a folder cannot be
            written.
    """
    data = config.data
    for path in _paths(data.model_copy(update={"cache": None})):
        for file in matching_files(path):
            check_text(file, pipes=False)  # it is read more than once
    for corpus in (*data.training_corpora, data.validation, data.test):
        if corpus is not None:
            corpus.shards()
    if data.cache is not None:
        check_folder_to_write(data.cache)
    check_writable(config.run.directory / str(config.run.name))
    if config.training.start_from is not None:
        check_ancestor(config)
        RunDirectory(config.training.start_from).check_weights()


def check_text(path: Path, pipes: bool = True) -> None:
    """Checks that a text can be read; `pipes` says whether from a pipe such as a shell's `<(command)`.

    Raises:
        InputError: it is missing, or no file.
    """
    refuse_other_than_file(path, "a text file", pipes)
    if path.is_dir():
        raise InputError(f"{path}: this is a directory; expected a text file")
    if not path.exists():
        raise InputError(f"{path}: there is no such file; check the path, which starts at {Path.cwd()}")


def check_file_to_write(path: Path) -> None:
    """Checks that a file can be written, or what a link leads to, or a device or pipe.

    Raises:
        InputError: it is a folder, or cannot be written.
    """
    if path.is_dir():
        raise InputError(f"{path}: this is a directory; expected the name of a file")
    if writable_only(path):
        if not os.access(path, os.W_OK):
            raise InputError(f"{path}: cannot be written; change its permissions, or choose another file")
        return
    if len(os.fsencode(path.name)) > LONGEST_NAME:
        raise InputError(f"{path}: expected a name of at most {LONGEST_NAME} bytes")
    check_writable(path.resolve() if path.is_symlink() else path)


def check_folder_to_write(path: Path) -> None:
    """Checks that files can be written into a folder.

    Raises:
        InputError: a file has its name, or it cannot be written.
    """
    if os.path.lexists(path) and not path.is_dir():
        kind = "a file" if path.exists() else "a link that leads nowhere"
        raise InputError(f"{path}: this is {kind}; expected the name of a folder")
    check_writable(path / "file" if path.is_dir() else path)


def check_writable(path: Path) -> None:
    """Checks that a file or folder can be made. Folders that are missing will be made, too.

    Raises:
        InputError: a file is where a folder must be, or the folder is read-only.
    """
    folder = next(above for above in path.absolute().parents if os.path.lexists(above))
    if not folder.is_dir():
        kind = "a file" if folder.exists() else "a link that leads nowhere"
        raise InputError(f"{path}: cannot be created: {folder} is {kind}; expected a folder")
    if not os.access(folder, os.W_OK):
        raise InputError(
            f"{path}: cannot be created: {folder} is read-only; change its permissions, or choose another folder"
        )


def _paths(section: BaseModel) -> Iterator[Path]:
    for _, value in section:
        for item in value if isinstance(value, tuple | list) else (value,):
            if isinstance(item, Path):
                yield item
            elif isinstance(item, BaseModel):
                yield from _paths(item)


CHECKS: dict[str, Callable[[Path], object]] = {
    **dict.fromkeys(("run", "reverse"), RunDirectory.open),
    **dict.fromkeys(("source", "target", "source_words", "target_words", "reference", "alignments"), check_text),
    **dict.fromkeys(("prefix", "require", "ban"), check_text),
    **dict.fromkeys(("archive", "choose_on"), lambda path: find_evaluation(path, "test")),
    **dict.fromkeys(("output", "csv", "page"), check_file_to_write),
    "folder": check_folder_to_write,
}
"""Option -> the check of its path."""
