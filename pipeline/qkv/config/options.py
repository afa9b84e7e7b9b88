"""Settings as options of the command line, with help texts made from the schema."""

import argparse
import functools
from collections.abc import Sequence
from pathlib import Path

import jsonargparse
from pydantic.fields import FieldInfo

from ..errors import InputError, invocation, nearest_key
from ..runtime.streams import HelpPrinter
from .decoding import DecodingSettings
from .messages import expectation, parse_value, sections_of, validate, walk
from .renamed import SHORT, replaced
from .run import RunConfig, RunSettings

WIDEST_REQUIRED = 200
"""The widest beam that is divided among hypotheses by the phrases that they have met: memory grows with its square."""

USAGE = f"""{invocation("train")} --config FILE [--section.key VALUE ...] [--print_config]
       {invocation("train")} --resume RUN [--section.key VALUE ...]"""

DESCRIPTION = """Trains a translator. Settings come from FILE; options override them. Write a VALUE as in YAML: 0.1,
true, null, [cross, encoder]. To resume an interrupted run, give the same command again. With --resume, settings come
from the run, and options that would change its result are refused."""


def add_decoding_options(parser: argparse.ArgumentParser) -> None:
    """Adds an option for every setting of decoding."""
    group = parser.add_argument_group("decoding (defaults: the settings of the run)")
    for name, field in DecodingSettings.model_fields.items():
        text = f"{field.description} ({expectation(field)})".replace("%", "%%")
        group.add_argument(f"--{name}", metavar="VALUE", help=text)


def add_seed_option(parser: argparse.ArgumentParser) -> None:
    """Adds the seed of sampling, which `with_decoding_options` reads."""
    text = f"With sampling: seed of the draws ({expectation(RunSettings.model_fields['seed'])}; default: the run's)"
    parser.add_argument("--seed", metavar="VALUE", help=text)


def add_given_options(parser: argparse.ArgumentParser, note: str = "") -> None:
    """Adds the files of what is known of translations, as `options.prefix`, `options.require` and `options.ban`."""
    group = parser.add_argument_group(
        f"what is known of the translations{note}", "All in the form of the training text."
    )
    group.add_argument(
        "--prefix",
        type=Path,
        metavar="FILE",
        help="a line for each sentence, with which its translation begins; empty for none. The last word may be the "
        "beginning of one",
    )
    group.add_argument(
        "--require",
        type=Path,
        metavar="FILE",
        help="a line for each sentence: words or phrases that its translation contains as whole words, separated by "
        "tabs; empty for none. Needs a beam",
    )
    group.add_argument(
        "--ban",
        type=Path,
        metavar="FILE",
        help="words or phrases, one a line, that no translation contains as whole words",
    )


def check_required(config: RunConfig, options: argparse.Namespace) -> None:
    """Checks that the search can meet requirements, if there are any.

    Raises:
        InputError: it cannot.
    """
    if options.require is None:
        return
    decoding = config.decoding
    if decoding.search != "beam":
        raise InputError(f"--require: needs a beam, and decoding.search is {decoding.search}; expected --search beam")
    if not 2 <= decoding.beam_size <= WIDEST_REQUIRED:
        raise InputError(
            f"--require: needs a beam of 2 to {WIDEST_REQUIRED} hypotheses, and decoding.beam_size is "
            f"{decoding.beam_size}; expected, for example, --beam_size 5"
        )


def with_decoding_options(config: RunConfig, options: argparse.Namespace) -> RunConfig:
    """Returns the config with the settings that options replace. Asking for more translations than the beam of the
    config holds widens it, unless its size is given as well.

    Raises:
        InputError: a value is wrong or contradicts others.
    """
    given = {
        f"decoding.{name}": parse_value(f"decoding.{name}", field, text)
        for name, field in DecodingSettings.model_fields.items()
        if (text := getattr(options, name)) is not None
    }
    if (seed := getattr(options, "seed", None)) is not None:
        given["run.seed"] = parse_value("run.seed", RunSettings.model_fields["seed"], seed)
    n_best = given.get("decoding.n_best")
    if isinstance(n_best, int) and "decoding.beam_size" not in given:
        given["decoding.beam_size"] = max(n_best, config.decoding.beam_size)
    values = config.model_dump()
    for key, value in given.items():
        values = replaced(values, key.split("."), value)
    changed = validate(RunConfig, values, dict.fromkeys(given, "command line"))
    if seed is not None and changed.decoding.search != "sampling":
        raise InputError("--seed: no effect in beam search; expected --search sampling as well")
    return changed


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
    own = ["config", "resume", "print_config", "plugins", "debug", "help", *(name[2:] for name in SHORT)]
    keys = [key for key, _ in settable_keys()] + own
    problems = []
    for argument in argv:
        name = argument[2:].partition("=")[0]
        if argument.startswith("--") and name not in keys:
            meant = nearest_key(name, keys)
            problems.append(f"--{name}: no such option" + (f"; did you mean --{meant}?" if meant else "; see --help"))
    if problems:
        raise InputError("\n  ".join(problems))
