"""Trains a translator: `python train.py --config configs/demo.yaml`, or `--help`."""

import argparse
import functools
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from pydantic.fields import FieldInfo

from ..config import RunConfig
from ..config.messages import as_yaml, parse_value
from ..config.run import dump
from ..config.schema import help_text, sections_of, walk
from ..errors import InputError, LostWorkerError, invocation
from ..run import train
from ..run.start import check_config_paths, load_training, refuse_imported
from ..runtime.cluster import meet, read_cluster
from ..runtime.streams import write_result
from .cli import ArgumentParser, exit_cleanly, log_to_output

REPORT_MINUTES = 1.0  # the time to report a mistake to the other workers
USAGE = f"""{invocation("train")} --config FILE [--section.key VALUE ...] [--print_config]
       {invocation("train")} --resume RUN [--section.key VALUE ...]"""
DESCRIPTION = f"""Trains a translator. Settings come from FILE, and options replace them. A VALUE is written as in YAML:
0.1, true, null, [cross, encoder]. To resume an interrupted run, give the same command again, or --resume, which takes
the settings of the run; an option that would change its result is an error. `{invocation("train")} --help SECTION`
shows the options of a section, such as training."""
SHOWN = ("run.name", "run.seed", "training.max_updates", "training.max_epochs", "training.max_minutes")
"""The settings that `--help` without a section explains."""


@exit_cleanly
def main(arguments: list[str]) -> int:
    """Reads the settings, trains, and prints where the results are. Returns the exit status.

    TensorFlow is imported once the settings are valid.
    """
    try:
        settings = parse_train_arguments(arguments)
        if not settings.resume:
            check_config_paths(settings.config)
        log_to_output()
    except InputError as error:
        if cluster := read_cluster():  # the other workers would wait for this one
            with suppress(LostWorkerError):
                meet(cluster, str(error), REPORT_MINUTES)
        raise
    try:
        return train(settings.config, resume=settings.resume)
    except LostWorkerError as error:
        raise LostWorkerError(
            f"{error}; give the same command again on every worker, and training continues:\n"
            f"  {invocation('train', *arguments)}"
        ) from error


class TrainArguments(NamedTuple):
    """The arguments of a training.

    - config: all settings.
    - resume: the folder of the run to resume; None for a new run.
    """

    config: RunConfig
    resume: Path | None


def parse_train_arguments(arguments: Sequence[str]) -> TrainArguments:
    """Parses the arguments of the command. `run.name` is always set in the resulting config.

    Raises:
        InputError: an argument or a setting is wrong.
        SystemExit: with status 0, after `--help` or `--print_config` has been printed.
    """
    options = vars(make_parser().parse_args(arguments))  # only those that are given
    if ("config" in options) == ("resume" in options):
        found = "both" if "config" in options else "neither"
        raise InputError(f"expected either --config FILE or --resume RUN, found {found}; see --help")
    overrides = _settings_among(options)
    path = options["config"] if "config" in options else options["resume"]
    config, run = load_training(Path(path), overrides, resumes="resume" in options)
    if "print_config" in options:
        write_result(dump(config))
        raise SystemExit(0)
    refuse_imported(config, path)
    return TrainArguments(config, run)


def parse_overrides(arguments: Sequence[str]) -> dict[str, Any]:
    """Parses options that replace settings, such as `--model.d_model 64`, and returns the values by dotted key.

    Raises:
        InputError: an option is not a setting, or its value cannot be read.
    """
    options = vars(make_parser().parse_args(arguments))
    for name in ("config", "resume", "print_config"):
        if name in options:
            raise InputError(f"--{name}: no such option; see --help")
    return _settings_among(options)


def _settings_among(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of the options that replace settings, by dotted key."""
    return {key: parse_value(key, field, options[key]) for key, field in settable_keys() if key in options}


class _Help(argparse.Action):
    """The action of `--help [SECTION]`: prints the help, or the help of a section, and exits."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option: Any = None) -> None:
        """Prints the help of the section in `values`, or the general help if it is None; called by the parser."""
        make_parser(values).print_help()
        parser.exit()


def make_parser(section: str | None = None) -> argparse.ArgumentParser:
    """Returns the parser of the command line.

    Args:
        section: the section of the config that the help explains, with meaning, range and default of each option; None
            for the general help, with the names of all sections and the options in `SHOWN`.
    """
    parser = ArgumentParser(
        "train",
        usage=USAGE,
        description=DESCRIPTION if section is None else None,
        formatter_class=functools.partial(argparse.HelpFormatter, max_help_position=8),
        argument_default=argparse.SUPPRESS,  # the result has only the options that are given
        add_help=False,
    )
    parser.add_argument(
        *("-h", "--help"),
        action=_Help,
        nargs="?",
        choices=list(RunConfig.model_fields),
        metavar="SECTION",
        help="show this help, or the options of a section",
    )
    parser.add_argument("--config", metavar="FILE", help="read the settings from this file, such as configs/demo.yaml")
    parser.add_argument("--resume", metavar="RUN", help="resume the run in this folder, with the settings of the run")
    parser.add_argument("--print_config", action="store_true", help="print all settings as a config file and exit")
    if section is not None:
        _add_section(parser, section)
        return parser
    group = parser.add_argument_group("settings that most trainings need")
    for key, field in settable_keys():
        _add_setting(group, key, field if key in SHOWN else None)
    for name, field in RunConfig.model_fields.items():
        parser.add_argument_group(f"--help {name}", field.description)
    return parser


def _add_section(parser: argparse.ArgumentParser, name: str) -> None:
    """Adds the options of a section to a parser, with a group for each section within it.

    If several of these sections have the same setting, only the first explains it. The others refer to the first.
    """
    explained_in: dict[tuple[str, str | None], str] = {}  # from (name, description) of a setting to the group's title
    for key, section_field in walk(RunConfig):
        if not f"{key}.".startswith(f"{name}."):
            continue
        for tag, section in sections_of(section_field).items():
            fields = {setting: field for setting, field in section.model_fields.items() if not sections_of(field)}
            repeated = [setting for setting, field in fields.items() if (setting, field.description) in explained_in]
            title = f"{key} ({tag})" if tag else key
            text = section.__doc__ if tag else section_field.description
            if repeated:
                other_title = explained_in[repeated[0], fields[repeated[0]].description]
                text = f"{text} --{key}.{repeated[0]} and so on are as in {other_title}."
            group = parser.add_argument_group(title, text)
            for setting, field in fields.items():
                if setting not in repeated:
                    _add_setting(group, f"{key}.{setting}", field)
                explained_in.setdefault((setting, field.description), title)


def _add_setting(group: argparse._ArgumentGroup, key: str, field: FieldInfo | None) -> None:
    """Adds the option of a setting, with the help of its field; if the field is None, the help does not list it."""
    group.add_argument(f"--{key}", metavar="VALUE", help=_help(field) if field else argparse.SUPPRESS)


def _help(field: FieldInfo) -> str:
    """Returns the help text of a setting, with its default."""
    default = f"[{', '.join(field.default)}]" if isinstance(field.default, tuple) else field.default
    return help_text(field, "required" if field.is_required() else f"default: {as_yaml(default)}")


def settable_keys() -> list[tuple[str, FieldInfo]]:
    """Returns the dotted key and the field of every setting that is not a section."""
    return [(key, field) for key, field in walk(RunConfig) if not sections_of(field)]
