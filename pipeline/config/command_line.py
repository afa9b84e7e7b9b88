"""The command line of `train.py`: a config file and overrides of its keys, or a run to resume."""

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import InputError
from .messages import parse_value
from .options import _refuse_unknown_options, _settable, make_parser
from .resume import FOR_PEOPLE, changes_of_result
from .run import RunConfig, dump, make_run_config
from .yaml import Origins, read_yaml


@dataclass(frozen=True)
class TrainArguments:
    """What to train: a new run of `config`, or the run in the folder `resume`, whose settings `config` then holds."""

    config: RunConfig
    resume: Path | None = None


def parse_train_arguments(argv: Sequence[str]) -> TrainArguments:
    """Reads the arguments after the program's name. `run.name` is set in what it returns.

    Raises:
        InputError: an argument or a setting is wrong.
        SystemExit: with status 0, after printing what `--help` or `--print_config` asks for.
    """
    _refuse_unknown_options(argv)
    try:
        given = make_parser().parse_args(list(argv), defaults=False)
    except argparse.ArgumentError as error:
        raise InputError(f"{error.message}; see --help") from error
    overrides = {key: parse_value(key, field, given[key]) for key, field in _settable() if key in given}
    config_file, resume = given.get("config"), given.get("resume")
    if (config_file is None) == (resume is None):
        found = "neither" if resume is None else "both"
        raise InputError(f"expected either --config FILE or --resume RUN, found {found}; see --help")
    if resume:
        config = _load_resumed(Path(resume), overrides)
    else:
        config = _load(Path(config_file), overrides)
        assert config.run.name  # set by `_load`
        resume = _begun(config, config.run.directory / config.run.name)
    if given.get("print_config"):
        sys.stdout.write(dump(config))
        raise SystemExit(0)
    return TrainArguments(config, Path(resume) if resume else None)


def _load(path: Path, overrides: dict[str, Any]) -> RunConfig:
    values, origins = read_yaml(path)
    return _overridden(values, origins, overrides, path.stem)


def _load_resumed(run: Path, overrides: dict[str, Any]) -> RunConfig:
    path = run / "config.yaml"
    if not path.is_file():
        raise InputError(f"{run}: there is no run to resume here: {path} is missing")
    values, origins = read_yaml(path)
    config = _overridden(values, origins, overrides, run.name)
    if changes := changes_of_result(_overridden(values, origins, {}, run.name), config):
        raise InputError(
            f"--{', --'.join(changes)}: a resumed run keeps its settings, except {FOR_PEOPLE}; "
            "for other settings start a new run with --config and --run.name"
        )
    return config


def _begun(config: RunConfig, run: Path) -> Path | None:
    """The run where one of these settings was begun, or None where there is none."""
    path = run / "config.yaml"
    # Of several workers the last to start would find what the first has just begun: there --resume must say so.
    if not path.is_file() or "TF_CONFIG" in os.environ:
        return None
    values, origins = read_yaml(path)
    if changes := changes_of_result(_overridden(values, origins, {}, run.name), config):
        shown = "\n  ".join(changes)
        raise InputError(
            f"{run}: the run exists already, and began with other settings:\n  {shown}\nGo on with it as it is: "
            f"python train.py --resume {run}; start another one: --run.name NAME; or delete the folder"
        )
    return run


def _overridden(values: dict[str, Any], origins: Origins, overrides: dict[str, Any], default_name: str) -> RunConfig:
    for key, value in overrides.items():
        values = _with(values, key.split("."), value)
    config = make_run_config(values, {**origins, **dict.fromkeys(overrides, "command line")}, default_name)
    if config.run.name is not None:
        return config
    return config.model_copy(update={"run": config.run.model_copy(update={"name": default_name})})


def _with(section: dict[str, Any], keys: list[str], value: Any) -> dict[str, Any]:
    """A section with one value changed. It is a copy, since YAML's anchors let two sections share one."""
    name, *rest = keys
    if rest:
        below = section.get(name) or {}
        value = _with(below, rest, value) if isinstance(below, dict) else below  # the schema will refuse what it is
    return {**section, name: value}
