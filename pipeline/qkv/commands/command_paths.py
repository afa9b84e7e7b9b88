"""The paths that commands are given, checked before TensorFlow is loaded: a wrong one is told at once."""

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

from pydantic import BaseModel

from ..config import RunConfig
from ..config.ancestor import check_ancestor
from ..config.ensemble import check_members
from ..files.paths import check_file_to_write, check_folder_to_write, check_text, check_writable, matching_files
from ..files.run_directory import RunDirectory, find_evaluation


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
