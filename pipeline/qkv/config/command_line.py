"""The command line of `train.py`: a config file and overrides of its keys, or a run to resume."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import InputError, invocation
from ..runtime.streams import write_result
from .messages import parse_value
from .options import make_parser, refuse_unknown_options, settable_keys
from .renamed import rename_options, replaced
from .resume import HARMLESS_IN_WORDS, changes_of_result
from .run import RunConfig, dump, make_run_config
from .started_run import read_started_run
from .yaml import Origins, read_yaml


@dataclass(frozen=True)
class TrainArguments:
    """What to train: a new run with `config`, or the run in the folder `resume`, whose settings `config` then holds."""

    config: RunConfig
    resume: Path | None = None


def parse_train_arguments(argv: Sequence[str]) -> TrainArguments:
    """Parses the arguments after the program's name. `run.name` is always set in the result.

    Raises:
        InputError: an argument or a setting is wrong.
        SystemExit: with status 0, after printing what `--help` or `--print_config` asks for.
    """
    argv = list(rename_options(argv))
    refuse_unknown_options(argv)
    try:
        given = make_parser().parse_args(argv, defaults=False)
    except argparse.ArgumentError as error:
        raise InputError(f"{error.message}; see --help") from error
    overrides = {key: parse_value(key, field, given[key]) for key, field in settable_keys() if key in given}
    config_file, resume = given.get("config"), given.get("resume")
    if (config_file is None) == (resume is None):
        found = "neither" if resume is None else "both"
        raise InputError(f"expected either --config FILE or --resume RUN, found {found}; see --help")
    if resume:
        config = _load_resumed(Path(resume), overrides)
    else:
        config = _load(Path(config_file), overrides)
        assert config.run.name  # set by `_load`
        resume = _find_started_run(config, config.run.directory / config.run.name)
    if given.get("print_config"):
        write_result(dump(config))
        raise SystemExit(0)
    _refuse_imported(config, given)
    return TrainArguments(config, Path(resume) if resume else None)


def _refuse_imported(config: RunConfig, given: Any) -> None:
    if config.tokenizer.kind == "given" and config.training.start_from is None:
        data = {f"data.{name}": getattr(config.data, name) for name in ("train", "validation")}
        missing = [key for key, value in data.items() if value is None]
        missing += ["training.max_updates (or max_epochs, max_minutes)"] * config.training.has_no_limit
        has = f"; it has no {', '.join(missing)}" if missing else ""
        raise InputError(
            f"{given.get('config') or given.get('resume')}: tokenizer.kind is given, so this is an imported run, which "
            f"is not trained itself{has}. Train a new run that starts from it: --training.start_from RUN with text and "
            f"a limit, or use it with {invocation('evaluate')} and {invocation('translate')}"
        )


def _load(path: Path, overrides: dict[str, Any]) -> RunConfig:
    values, origins = read_yaml(path)
    return _overridden(values, origins, overrides, path.stem)


def _load_resumed(run: Path, overrides: dict[str, Any]) -> RunConfig:
    path = run / "config.yaml"
    if not path.is_file():
        raise InputError(f"{run}: there is no run to resume here: {path} is missing")
    values, origins = read_started_run(path)
    config = _overridden(values, origins, overrides, run.name)
    if changes := changes_of_result(_overridden(values, origins, {}, run.name), config):
        raise InputError(
            f"--{', --'.join(changes)}: a resumed run keeps its settings, except {HARMLESS_IN_WORDS}; "
            "for other settings start a new run with --config and --run.name"
        )
    return config


def _find_started_run(config: RunConfig, run: Path) -> Path | None:
    """Returns the folder of a run that was started with these settings, or None if there is none."""
    path = run / "config.yaml"
    if not path.is_file():
        return None
    values, origins = read_started_run(path)
    if changes := changes_of_result(_overridden(values, origins, {}, run.name), config):
        shown = "\n  ".join(changes)
        raise InputError(
            f"{run}: the run exists already, and was started with other settings:\n  {shown}\nResume it as it is: "
            f"{invocation('train')} --resume {run}; start another one: --run.name NAME; or delete the folder"
        )
    return run


def _overridden(values: dict[str, Any], origins: Origins, overrides: dict[str, Any], default_name: str) -> RunConfig:
    data = values.get("data")
    if isinstance(data, Mapping) and isinstance(data.get("train"), list):
        for key in overrides:
            if key.startswith("data.train."):
                raise InputError(
                    f"--{key}: data.train is a list of corpora ({origins.get('data.train', 'config')}), so that the "
                    "option does not say which is meant; change the list in a config file"
                )
    for key, value in overrides.items():
        values = replaced(values, key.split("."), value)
    config = make_run_config(values, {**origins, **dict.fromkeys(overrides, "command line")}, default_name)
    if config.run.name is not None:
        return config
    return config.model_copy(update={"run": config.run.model_copy(update={"name": default_name})})
