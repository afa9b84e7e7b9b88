"""The start of a training, before TensorFlow is loaded: reads the settings, and checks the paths that they name."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from ..config import RunConfig, load_run_config
from ..config.ancestor import check_ancestor
from ..config.run import CHANGEABLE_SETTINGS, changes_of_result, load_started_run
from ..errors import InputError, invocation
from ..files.paths import check_folder_to_write, check_text, check_writable, matching_files, new_name_problem
from ..files.run_directory import RunDirectory
from ..runtime.plugin_files import loaded_plugins


def load_training(
    path: Path, overrides: Mapping[str, Any], origin: str = "command line", *, resumes: bool
) -> tuple[RunConfig, Path | None]:
    """Reads the settings of a training from a config file, or from the folder of a run to continue.

    Args:
        path: the config file or the folder.
        overrides, origin: see `config.run.load_run_config`.
        resumes: True if `path` is the folder of a run to continue, False if it is a config file.

    Returns:
        `(config, run)`: the settings, and the folder of the run to continue; None for a new run. The run of a config
        file is continued if the same settings have started it before.

    Raises:
        InputError: as for `load_run_config`; or there is no run to continue, an override would change the result of the
            run, or a run of this name was started with other settings.
    """
    if resumes:
        started = path / "config.yaml"
        if not started.is_file():
            raise InputError(f"{path}: there is no run to resume here: {started} is missing")
        config = load_started_run(started, overrides, origin)
        if changes := changes_of_result(load_started_run(started), config):
            raise InputError(
                f"--{', --'.join(changes)}: a resumed run keeps its settings, except {CHANGEABLE_SETTINGS}; "
                "for other settings start a new run with --config and --run.name"
            )
        _refuse_saved(path)
        return config, path
    config = load_run_config(path, overrides, origin)
    run = config.run.directory / str(config.run.name)
    started = run / "config.yaml"
    _refuse_saved(run)
    if not started.is_file():
        if problem := new_name_problem(run.name):
            raise InputError(f"run.name: {problem}; name the run: --run.name NAME")
        return config, None
    if changes := changes_of_result(load_started_run(started), config):
        shown = "\n  ".join(changes)
        raise InputError(
            f"{run}: the run exists already, and was started with other settings:\n  {shown}\nResume it unchanged: "
            f"{invocation('train', '--resume', run)}; start another one: --run.name NAME; or delete the folder"
        )
    return config, run


def _refuse_saved(run: Path) -> None:
    """Raises an `InputError` if `Run.save` wrote the run in a folder."""
    if RunDirectory(run).is_saved():
        raise InputError(
            f"{run}: its model was saved by run.save, so there is no training to continue; train a new run that starts "
            f"from it: --training.start_from {run} --run.name NAME"
        )


def refuse_imported(config: RunConfig, path: str | Path) -> None:
    """Raises an `InputError` if a config belongs to an imported run, which cannot be trained.

    Args:
        config: the settings.
        path: the file or folder of the config, for the message.
    """
    if config.tokenizer.kind == "given" and config.training.start_from is None:
        data = {f"data.{name}": getattr(config.data, name) for name in ("train", "validation")}
        missing = [key for key, value in data.items() if value is None]
        if config.training.has_no_limit:
            missing.append("training.max_updates (or max_epochs, max_minutes)")
        has = f"; it has no {', '.join(missing)}" if missing else ""
        raise InputError(
            f"{path}: tokenizer.kind is given, so this is an imported run, which "
            f"is not trained itself{has}. Train a new run that starts from it: --training.start_from RUN with text and "
            f"a limit, or use it with {invocation('evaluate')} and {invocation('translate')}"
        )


def check_config_paths(config: RunConfig) -> None:
    """Checks the paths in the config of a new run.

    Raises:
        InputError: a file is missing or is not text, the files of a corpus do not match, a folder cannot be written,
            or `training.start_from` is not a run that fits the config.
    """
    data = config.data
    for file in files_of_text(config):
        check_text(file, pipes=False)  # it is read more than once
    for corpus in (*data.training_corpora, data.validation, data.test):
        if corpus is not None:
            corpus.file_sets()
    if data.cache is not None:
        check_folder_to_write(data.cache)
    check_writable(config.run.directory / str(config.run.name))
    if config.training.start_from is not None:
        check_ancestor(config)
        RunDirectory(config.training.start_from).check_weights()


def files_of_text(config: RunConfig) -> list[Path]:
    """Returns the files of the text that a config names. Raises an `InputError` if no file matches a pattern."""
    paths = _paths(config.data.model_copy(update={"cache": None}))
    return [file for path in paths for file in matching_files(path)]


def inputs_of_training(config: RunConfig) -> list[Path]:
    """Returns the files and folders that a training reads, except its config.

    Raises:
        InputError: no file matches a pattern.
    """
    start_from = config.training.start_from
    of_run = [] if start_from is None else RunDirectory(start_from).inputs
    return [*files_of_text(config), *of_run, *loaded_plugins()]


def _paths(section: BaseModel) -> Iterator[Path]:
    """Yields all paths in a section of a config and in the sections inside it."""
    for _, value in section:
        for item in value if isinstance(value, tuple | list) else (value,):
            if isinstance(item, Path):
                yield item
            elif isinstance(item, BaseModel):
                yield from _paths(item)
