"""The command line of `train.py`: a config file and overrides of its keys, or a run to resume."""

import argparse
import functools
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonargparse
from pydantic.fields import FieldInfo

from pipeline.config import RunConfig, dump, make_run_config
from pipeline.config_messages import expectation, nearest_key, parse_value, sections_of, walk
from pipeline.config_resume import FOR_PEOPLE, changes_of_result
from pipeline.config_yaml import Origins, read_yaml
from pipeline.errors import InputError

USAGE = """train.py --config FILE [--section.key VALUE ...] [--print_config]
       train.py --resume RUN [--section.key VALUE ...]"""

DESCRIPTION = """Trains a translator. Settings come from FILE; those on the command line replace them. A VALUE is
written as in YAML: 0.1, true, null, [cross, encoder]. The same command goes on with a run that was interrupted; with
--resume, settings come from the run. What would change the result of the rest is refused then."""


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


def make_parser() -> jsonargparse.ArgumentParser:
    """The options, and the help that lists every key with its meaning, what it takes, and its default."""
    parser = jsonargparse.ArgumentParser(
        prog="train.py",
        usage=USAGE,
        description=DESCRIPTION,
        formatter_class=functools.partial(argparse.HelpFormatter, max_help_position=8),  # type: ignore[arg-type]
        print_config=None,  # ours prints what the schema made of the settings
        exit_on_error=False,
        allow_abbrev=False,
    )
    parser.add_argument("--config", metavar="FILE", help="YAML file with the settings of a new run; configs/ has some.")
    parser.add_argument("--resume", metavar="RUN", help="Folder of a run to go on with, by its own saved settings.")
    parser.add_argument("--print_config", action="store_true", help="Print the settings as a config file, and stop.")
    parser.add_argument("--debug", action="store_true", help="Show the traceback of an error.")
    _add_sections(parser)
    return parser


def _add_sections(parser: jsonargparse.ArgumentParser) -> None:
    """Adds each section as a group with its keys as options; keys that several sections share are spelt out once."""
    shown: set[tuple[str, ...]] = set()
    keys: set[str] = set()
    for section_key, section_field in walk(RunConfig):
        for tag, section in sections_of(section_field).items():
            names = tuple(section.model_fields)
            repeated = names in shown
            shown.add(names)
            note = f" The same keys as above: --{section_key}.{names[0]} and so on." * repeated
            title = f"{section_key} ({tag})" if tag else section_key
            meaning = section.__doc__ if tag else section_field.description
            group = parser.add_argument_group(title, f"{meaning}{note}")
            for name, field in section.model_fields.items():
                option = f"--{section_key}.{name}"
                if not sections_of(field) and option not in keys:
                    keys.add(option)
                    text = f"{field.description} ({expectation(field)}; {_default(field)})".replace("%", "%%")
                    group.add_argument(option, metavar="VALUE", help=argparse.SUPPRESS if repeated else text)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "must be given"
    if field.default is None or isinstance(field.default, bool):
        return f"default {str(field.default).lower().replace('none', 'null')}"
    if isinstance(field.default, tuple):
        return f"default [{', '.join(field.default)}]"
    return f"default {field.default!r}" if field.default == "\t" else f"default {field.default}"


def _settable() -> list[tuple[str, FieldInfo]]:
    return [(key, field) for key, field in walk(RunConfig) if not sections_of(field)]


def _refuse_unknown_options(argv: Sequence[str]) -> None:
    keys = [key for key, _ in _settable()] + ["config", "resume", "print_config", "debug", "help"]
    problems = []
    for argument in argv:
        name = argument[2:].partition("=")[0]
        if argument.startswith("--") and name not in keys:
            meant = nearest_key(name, keys)
            problems.append(f"--{name}: no such option" + (f"; did you mean --{meant}?" if meant else "; see --help"))
    if problems:
        raise InputError("\n  ".join(problems))


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
