"""Trains a translator: `python train.py --config configs/demo.yaml`, or `--help`."""

import argparse
import functools
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonargparse
from pydantic.fields import FieldInfo

from ..config.messages import parse_value
from ..config.run import (
    HARMLESS_IN_WORDS,
    RunConfig,
    changes_of_result,
    dump,
    make_run_config,
    read_started_run,
)
from ..config.schema import expectation, sections_of, walk
from ..config.yaml import Origins, read_yaml, replaced
from ..errors import InputError, LostWorkerError, invocation, nearest_key
from ..runtime.cluster import meet, read_cluster
from ..runtime.import_tensorflow import importing_tensorflow
from ..runtime.streams import HelpPrinter, write_result
from .cli import exit_cleanly, log_to_output
from .command_paths import check_config_paths

if TYPE_CHECKING:
    import keras


TELLING_MINUTES = 1.0


def train(config: RunConfig, resume: Path | None = None, callbacks: Sequence["keras.callbacks.Callback"] = ()) -> int:
    """Trains a new run, or continues one.

    Args:
        config: all settings; if a run is resumed, its own settings.
        resume: the folder of the run to continue, or None for a new run.
        callbacks: further callbacks; `qkv.training.loop` says what they are given.

    Returns:
        The exit status: 0, or 130 where the run was interrupted and can be resumed.

    Raises:
        InputError: the text, the run or its checkpoint does not fit the settings, or BLEU cannot be computed here.
        LostWorkerError: of several workers, another one has ended, hangs, or has not started.
    """
    with importing_tensorflow():
        from ..run.training import run_training

    return run_training(config, resume, callbacks)


@exit_cleanly
def main(arguments: list[str]) -> int:
    """Reads the settings, trains, and says where the results are. TensorFlow is loaded only once they are valid."""
    try:
        settings = parse_train_arguments(arguments)
        if not settings.resume:
            check_config_paths(settings.config)
        log_to_output()
    except InputError as error:
        _tell_other_workers(str(error))
        raise
    try:
        return train(settings.config, resume=settings.resume)
    except LostWorkerError as error:
        raise LostWorkerError(
            f"{error}; give the same command again on every worker, and training continues:\n"
            f"  {invocation('train')} {shlex.join(arguments)}"
        ) from error


def _tell_other_workers(mistake: str) -> None:
    """Ends the other workers of this training, which would wait for this one."""
    if cluster := read_cluster():
        with suppress(LostWorkerError):
            meet(cluster, mistake, TELLING_MINUTES)


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


USAGE = f"""{invocation("train")} --config FILE [--section.key VALUE ...] [--print_config]
       {invocation("train")} --resume RUN [--section.key VALUE ...]"""
DESCRIPTION = """Trains a translator. Settings come from FILE; options override them. Write a VALUE as in YAML: 0.1,
true, null, [cross, encoder]. To resume an interrupted run, give the same command again. With --resume, settings come
from the run, and options that would change its result are refused."""


class _Parser(HelpPrinter, jsonargparse.ArgumentParser):
    pass


def make_parser() -> jsonargparse.ArgumentParser:
    """Returns the parser of `train.py`; its help lists every key with its meaning, range and default."""
    parser = _Parser(
        prog=invocation("train"),
        usage=USAGE,
        description=DESCRIPTION,
        formatter_class=functools.partial(argparse.HelpFormatter, max_help_position=8),  # type: ignore[arg-type]
        print_config=None,  # our own prints the settings after validation
        exit_on_error=False,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--config", metavar="FILE", help="YAML file with the settings of a run, such as those in configs/."
    )
    parser.add_argument("--resume", metavar="RUN", help="Folder of a run to resume with its own settings.")
    parser.add_argument("--print_config", action="store_true", help="Print all settings as a config file and exit.")
    parser.add_argument("--plugins", metavar="FILE", help="Python file that registers a score, mechanism or the like.")
    parser.add_argument("--debug", action="store_true", help="Show the traceback of an error.")
    _add_sections(parser)
    return parser


def _add_sections(parser: jsonargparse.ArgumentParser) -> None:
    """Adds each section as a group of options; a section with the same keys as an earlier one refers to it."""
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
        return "required"
    if field.default is None or isinstance(field.default, bool):
        return f"default {str(field.default).lower().replace('none', 'null')}"
    if isinstance(field.default, tuple):
        return f"default [{', '.join(field.default)}]"
    return f"default {field.default!r}" if field.default == "\t" else f"default {field.default}"


def settable_keys() -> list[tuple[str, FieldInfo]]:
    """Returns every dotted key that has a value, with its field; sections have none."""
    return [(key, field) for key, field in walk(RunConfig) if not sections_of(field)]


def refuse_unknown_options(argv: Sequence[str]) -> None:
    """Refuses options that do not exist, and suggests the ones that were probably meant.

    Raises:
        InputError: an option does not exist; the message names all such options.
    """
    own = ["config", "resume", "print_config", "plugins", "debug", "help"]
    keys = [key for key, _ in settable_keys()] + own
    problems = []
    for argument in argv:
        name = argument[2:].partition("=")[0]
        if argument.startswith("--") and name not in keys:
            meant = nearest_key(name, keys)
            problems.append(f"--{name}: no such option" + (f"; did you mean --{meant}?" if meant else "; see --help"))
    if problems:
        raise InputError("\n  ".join(problems))
