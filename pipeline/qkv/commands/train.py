"""Trains a translator: `python train.py --config configs/demo.yaml`, or `--help`."""

import argparse
import functools
from collections.abc import Sequence
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

TELLING_MINUTES = 1.0
USAGE = f"""{invocation("train")} --config FILE [--section.key VALUE ...] [--print_config]
       {invocation("train")} --resume RUN [--section.key VALUE ...]"""
DESCRIPTION = f"""Trains a translator. Settings come from FILE, and options override them; a VALUE is written as in
YAML: 0.1, true, null, [cross, encoder]. The same command given again resumes an interrupted run; with --resume,
settings come from the run, and options that would change its result are refused. `{invocation("train")} --help SECTION`
shows the options of a section, such as training."""
SHOWN = ("run.name", "run.seed", "training.max_updates", "training.max_epochs", "training.max_minutes")


@exit_cleanly
def main(arguments: list[str]) -> int:
    """Reads the settings, trains, and says where the results are. TensorFlow is loaded only once they are valid."""
    try:
        settings = parse_train_arguments(arguments)
        if not settings.resume:
            check_config_paths(settings.config)
        log_to_output()
    except InputError as error:
        if cluster := read_cluster():  # whose other workers would wait for this one
            with suppress(LostWorkerError):
                meet(cluster, str(error), TELLING_MINUTES)
        raise
    try:
        return train(settings.config, resume=settings.resume)
    except LostWorkerError as error:
        raise LostWorkerError(
            f"{error}; give the same command again on every worker, and training continues:\n"
            f"  {invocation('train', *arguments)}"
        ) from error


class TrainArguments(NamedTuple):
    """The settings of a training, and the folder of the run that it resumes; None for a new run."""

    config: RunConfig
    resume: Path | None


def parse_train_arguments(arguments: Sequence[str]) -> TrainArguments:
    """Parses the arguments after the program's name. `run.name` is always set in the result.

    Raises:
        InputError: an argument or a setting is wrong.
        SystemExit: with status 0, after printing what `--help` or `--print_config` asks for.
    """
    given = vars(make_parser().parse_args(arguments))
    if ("config" in given) == ("resume" in given):
        found = "both" if "config" in given else "neither"
        raise InputError(f"expected either --config FILE or --resume RUN, found {found}; see --help")
    overrides = {key: parse_value(key, field, given[key]) for key, field in settable_keys() if key in given}
    path = given["config"] if "config" in given else given["resume"]
    config, run = load_training(Path(path), overrides, resumes="resume" in given)
    if "print_config" in given:
        write_result(dump(config))
        raise SystemExit(0)
    refuse_imported(config, path)
    return TrainArguments(config, run)


class _Help(argparse.Action):
    """Prints the help, or what it says of a section."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option: Any = None) -> None:
        make_parser(values).print_help()
        parser.exit()


def make_parser(section: str | None = None) -> argparse.ArgumentParser:
    """Returns the parser of `train.py`.

    Args:
        section: the section whose options its help shows, each with its meaning, range and default; None for the names
            of all sections and the options that most trainings need.
    """
    parser = ArgumentParser(
        "train",
        usage=USAGE,
        description=DESCRIPTION if section is None else None,
        formatter_class=functools.partial(argparse.HelpFormatter, max_help_position=8),
        argument_default=argparse.SUPPRESS,  # what is not given is not there
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
    parser.add_argument("--resume", metavar="RUN", help="resume the run in this folder with its own settings")
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
    """Adds the options of a section, grouped by the sections in it; keys that several of these share stand once."""
    places: dict[tuple[str, str | None], str] = {}
    for key, section_field in walk(RunConfig):
        for tag, section in sections_of(section_field).items() if f"{key}.".startswith(f"{name}.") else ():
            fields = {each: field for each, field in section.model_fields.items() if not sections_of(field)}
            above = [each for each, field in fields.items() if (each, field.description) in places]
            title = f"{key} ({tag})" if tag else key
            text = section.__doc__ if tag else section_field.description
            if above:
                as_in = places[above[0], fields[above[0]].description]
                text = f"{text} --{key}.{above[0]} and so on are as in {as_in}."
            group = parser.add_argument_group(title, text)
            for each, field in fields.items():
                if each not in above:
                    _add_setting(group, f"{key}.{each}", field)
                places.setdefault((each, field.description), title)


def _add_setting(group: argparse._ArgumentGroup, key: str, shown: FieldInfo | None) -> None:
    group.add_argument(f"--{key}", metavar="VALUE", help=_help(shown) if shown else argparse.SUPPRESS)


def _help(field: FieldInfo) -> str:
    default = f"[{', '.join(field.default)}]" if isinstance(field.default, tuple) else field.default
    return help_text(field, "required" if field.is_required() else f"default: {as_yaml(default)}")


def settable_keys() -> list[tuple[str, FieldInfo]]:
    """Returns every dotted key that has a value, with its field; sections have none."""
    return [(key, field) for key, field in walk(RunConfig) if not sections_of(field)]
