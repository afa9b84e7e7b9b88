"""Trains a translator: `python train.py --config configs/demo.yaml`, or `--help`."""

import argparse
import functools
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo

from ..config import RunConfig, load_run_config
from ..config.messages import parse_value
from ..config.run import KEPT_BUT, changes_of_result, dump, load_started_run
from ..config.schema import expectation, sections_of, walk
from ..errors import InputError, LostWorkerError, invocation
from ..run import train
from ..runtime.cluster import meet, read_cluster
from ..runtime.streams import write_result
from .cli import ArgumentParser, check_config_paths, exit_cleanly, log_to_output

TELLING_MINUTES = 1.0
USAGE = f"""{invocation("train")} --config FILE [--section.key VALUE ...] [--print_config]
       {invocation("train")} --resume RUN [--section.key VALUE ...]"""
DESCRIPTION = """Trains a translator. Settings come from FILE; options override them. Write a VALUE as in YAML: 0.1,
true, null, [cross, encoder]. To resume an interrupted run, give the same command again. With --resume, settings come
from the run, and options that would change its result are refused."""


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
    """The training that is asked for: a new run with `config`, or the run in the folder `resume`, whose settings
    `config` then holds."""

    config: RunConfig
    resume: Path | None = None


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
    run: Path | None
    if "resume" in given:
        config = _load_resumed(run := Path(given["resume"]), overrides)
    else:
        config = load_run_config(given["config"], overrides)
        run = _find_started_run(config)
    if "print_config" in given:
        write_result(dump(config))
        raise SystemExit(0)
    _refuse_imported(config, given.get("config") or given["resume"])
    return TrainArguments(config, run)


def _load_resumed(run: Path, overrides: Mapping[str, Any]) -> RunConfig:
    path = run / "config.yaml"
    if not path.is_file():
        raise InputError(f"{run}: there is no run to resume here: {path} is missing")
    config = load_started_run(path, overrides)
    if changes := changes_of_result(load_started_run(path), config):
        raise InputError(
            f"--{', --'.join(changes)}: a resumed run keeps its settings, except {KEPT_BUT}; "
            "for other settings start a new run with --config and --run.name"
        )
    return config


def _find_started_run(config: RunConfig) -> Path | None:
    """Returns the folder of a run that was started with these settings, or None if there is none."""
    run = config.run.directory / str(config.run.name)
    path = run / "config.yaml"
    if not path.is_file():
        return None
    if changes := changes_of_result(load_started_run(path), config):
        shown = "\n  ".join(changes)
        raise InputError(
            f"{run}: the run exists already, and was started with other settings:\n  {shown}\nResume it as it is: "
            f"{invocation('train')} --resume {run}; start another one: --run.name NAME; or delete the folder"
        )
    return run


def _refuse_imported(config: RunConfig, place: str) -> None:
    if config.tokenizer.kind == "given" and config.training.start_from is None:
        data = {f"data.{name}": getattr(config.data, name) for name in ("train", "validation")}
        missing = [key for key, value in data.items() if value is None]
        missing += ["training.max_updates (or max_epochs, max_minutes)"] * config.training.has_no_limit
        has = f"; it has no {', '.join(missing)}" if missing else ""
        raise InputError(
            f"{place}: tokenizer.kind is given, so this is an imported run, which "
            f"is not trained itself{has}. Train a new run that starts from it: --training.start_from RUN with text and "
            f"a limit, or use it with {invocation('evaluate')} and {invocation('translate')}"
        )


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of `train.py`; its help lists every key with its meaning, range and default."""
    parser = ArgumentParser(
        "train",
        usage=USAGE,
        description=DESCRIPTION,
        formatter_class=functools.partial(argparse.HelpFormatter, max_help_position=8),
        argument_default=argparse.SUPPRESS,  # what is not given is not there
    )
    parser.add_argument(
        "--config", metavar="FILE", help="YAML file with the settings of a run, such as those in configs/."
    )
    parser.add_argument("--resume", metavar="RUN", help="Folder of a run to resume with its own settings.")
    parser.add_argument("--print_config", action="store_true", help="Print all settings as a config file and exit.")
    _add_sections(parser)
    return parser


def _add_sections(parser: argparse.ArgumentParser) -> None:
    """Adds each section as a group of options; of a section with keys of an earlier one, only others are shown."""
    shown: list[tuple[str, set[tuple[str, str | None]]]] = []
    keys: set[str] = set()
    for section_key, section_field in walk(RunConfig):
        for tag, section in sections_of(section_field).items():
            own = {(name, field.description) for name, field in section.model_fields.items()}
            related = [(key, other) for key, other in shown if own <= other or other <= own]
            above, known = related[0] if related else ("", set())
            shown.append((section_key, own))
            example = f"--{section_key}.{next(iter(section.model_fields))}"
            note = f" Keys as in {above}: {example} and so on." if above else ""
            title = f"{section_key} ({tag})" if tag else section_key
            meaning = section.__doc__ if tag else section_field.description
            group = parser.add_argument_group(title, f"{meaning}{note}")
            for name, field in section.model_fields.items():
                option = f"--{section_key}.{name}"
                if not sections_of(field) and option not in keys:
                    keys.add(option)
                    text = f"{field.description} ({expectation(field)}; {_default(field)})".replace("%", "%%")
                    hidden = (name, field.description) in known
                    group.add_argument(option, metavar="VALUE", help=argparse.SUPPRESS if hidden else text)


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
