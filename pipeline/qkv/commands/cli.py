"""The parts that all commands share: their options, how they read arguments, and how they end."""

import argparse
import contextlib
import functools
import logging
import re
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, NoReturn, TextIO, cast

from ..config.choices import describe
from ..config.choices.translation import BLEU_TOKENIZERS
from ..config.decoding import DecodingSettings
from ..config.ensemble import check_members, check_members_search
from ..config.run import RunConfig, RunSettings, load_trained_run, with_decoding
from ..config.schema import expectation, help_text
from ..errors import PATH_ERRORS, InputError, LostWorkerError, did_you_mean, file_system_message, invocation
from ..files.paths import check_file_to_write, check_folder_to_write, check_text, is_unicode, name_problem
from ..files.run_directory import RunDirectory
from ..run.processes import RunParts
from ..runtime.plugin_files import load_plugins
from ..runtime.streams import Messages, OutputHandler, can_flush, discard, prepare_streams

EVALUATED_HELP = "folder of a run, of one evaluation (RUN/evaluations/NAME), or of an attention archive"
TRY_AGAIN = 75  # EX_TEMPFAIL of <sysexits.h>
CONFIG_ALONE = ("length_divisor", "beam_end", "renormalize", "force_eos", "max_target_extra")
"""Settings of decoding that are no options: a run has them from the program that it was imported from."""
CONSTRAINTS = {
    "prefix": "begin each translation with its line of FILE, unless that is empty; the last word may be unfinished",
    "require": "put the words or phrases of its line of FILE, separated by tabs, into each translation, as whole "
    "words; needs a beam",
    "ban": "keep these words or phrases, one a line, out of all translations, as whole words",
}
"""What translations must or must not contain, by the options for its files."""
WIDEST_REQUIRED = 200
"""The widest beam that is divided among hypotheses by the phrases that they have met: memory grows with its square."""


class ArgumentParser(argparse.ArgumentParser):
    """The parser of a command. Wrong arguments raise an `InputError`, which suggests what was meant.

    Args:
        command: the name of the command; None for a script, which is named as its file.
        settings: see `argparse.ArgumentParser`; by default the options of every command are among its own.
    """

    def __init__(self, command: str | None = None, **settings: Any) -> None:
        if "parents" not in settings:
            settings["parents"] = [COMMON]
        super().__init__(prog=invocation(command) if command else None, allow_abbrev=False, **settings)

    def parse_args(self, args: Sequence[str]) -> argparse.Namespace:  # type: ignore[override]
        """Parses arguments; raises an `InputError` if one is wrong or unknown."""
        options, unknown = self.parse_known_args(args)
        if not unknown:
            return options
        names = [argument.partition("=")[0] for argument in unknown if argument.startswith("--")]
        if not names:
            many = any(action.nargs in ("*", "+") for action in self._actions)
            hint = "; give all folders side by side, before the options" if many else ""
            raise InputError(f"unrecognized arguments: {' '.join(unknown)}{hint}; see --help")
        known = [name for name in self._option_string_actions if name.startswith("--")]
        hints = {name: did_you_mean(name, known) or "; see --help" for name in names}
        raise InputError("\n  ".join(f"{name}: no such option{hint}" for name, hint in hints.items()))

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """Converts the values of an argument; called by the standard parser, which takes off a `--` among them, also
        that of `--option=--`."""
        if action.option_strings and arg_strings == ["--"]:
            value = self._get_value(action, "--")
            self._check_value(action, value)
            return [value] if action.nargs in ("*", "+") else value
        return super()._get_values(action, arg_strings)

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        """Converts a value; called by the standard parser, which tells nothing of the `InputError` of a path."""
        try:
            return super()._get_value(action, arg_string)
        except argparse.ArgumentError as error:
            raise error.__context__ if isinstance(error.__context__, InputError) else error from None

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Checks a choice; called by the standard parser."""
        if action.choices is not None and value not in action.choices:
            names = [str(choice) for choice in action.choices]
            expected = f"expected one of {', '.join(names)}, found {str(value)!r}"
            raise argparse.ArgumentError(action, f"{expected}{did_you_mean(str(value), names)}")

    def _print_message(self, message: str, file: Any = None) -> None:
        """Prints; called by the standard parser, whose own method passes over a write that fails."""
        (file or sys.stdout).write(message)

    def error(self, message: str) -> NoReturn:
        """Raises what the standard parser would print; called by it."""
        raise InputError(f"{message}; see --help")


COMMON = ArgumentParser(add_help=False, parents=())
"""The options of every command, which `exit_cleanly` takes off its arguments."""
_common = COMMON.add_argument_group("options of every command")
_common.add_argument(
    "--plugins",
    type=Path,
    action="append",
    default=[],
    metavar="FILE",
    help="load a Python file of your own, which registers a score, a mechanism or the like; repeatable",
)
_common.add_argument("--debug", action="store_true", help="show the traceback of an error")


def run_folder(text: str) -> RunDirectory:
    """Opens a run, as the `type` of `add_argument`."""
    return RunDirectory.open(Path(text))


def checked_path(check: Callable[[Path], None]) -> Callable[[str], Path]:
    """Makes the `type` of `add_argument` that reads a path and checks it."""

    def read(text: str) -> Path:
        if not text:  # as of a variable of the shell that is not set
            raise argparse.ArgumentTypeError("expected the path of a file or folder, found ''")
        check(path := Path(text))
        return path

    return read


text_file = checked_path(check_text)
file_to_write, folder_to_write = checked_path(check_file_to_write), checked_path(check_folder_to_write)


def result_name(text: str) -> str:
    """Checks the name of a folder of results, as the `type` of `add_argument`."""
    if problem := name_problem(text):
        raise argparse.ArgumentTypeError(problem)
    return text


def whole_number(least: int, most: int) -> Callable[[str], int]:
    """Returns what reads an option's integer, as the `type` of `add_argument`."""

    def read(text: str) -> int:
        if not re.fullmatch(r"-?[0-9]{1,18}", text) or not least <= int(text) <= most:
            found = text if len(text) <= 40 else text[:40] + "…"
            raise argparse.ArgumentTypeError(f"expected an integer >= {least} and <= {most}, found {found!r}")
        return int(text)

    return read


def add_run_argument(parser: argparse.ArgumentParser) -> None:
    """Adds the folder of a trained run, as `options.run`."""
    parser.add_argument("run", type=run_folder, metavar="RUN", help="folder of a trained run, such as runs/demo")


def add_members_argument(parser: argparse.ArgumentParser) -> None:
    """Adds further runs, as `options.others`."""
    parser.add_argument(
        "others",
        type=run_folder,
        nargs="*",
        default=[],
        metavar="RUN2",
        help="folders of further runs with the same tokenizer, which translate with RUN, by its settings, as an "
        "ensemble: by the mean of their log-probabilities",
    )


def add_checkpoint_option(parser: argparse.ArgumentParser, side_by_side: bool = False) -> None:
    """Adds the choice of a run's weights, as `options.checkpoint`; `side_by_side` allows both."""
    parser.add_argument(
        "--checkpoint",
        choices=("best", "last", "both") if side_by_side else ("best", "last"),
        default="best",
        help="use the weights that were best on validation, or the last ones, also during training"
        f"{', or both side by side' if side_by_side else ''} (default: best)",
    )


def add_workers_option(parser: argparse.ArgumentParser) -> None:
    """Adds the number of processes that share the work, as `options.workers`."""
    parser.add_argument(
        "--workers",
        type=whole_number(1, 1000),
        default=1,
        metavar="N",
        help="share the work among N processes, each with the model in its memory; with the same results (default: 1)",
    )


def add_normalize_option(parser: argparse._ActionsContainer) -> None:
    """Adds whether text is read as it is, as `options.no_normalize`."""
    parser.add_argument(
        "--no_normalize",
        action="store_true",
        help="read the text as it is, without the run's data.normalize, which makes it look like the training text",
    )


def add_set_option(parser: argparse.ArgumentParser) -> None:
    """Adds the name of the evaluation that is read of a run, as `options.set`."""
    parser.add_argument(
        "--set", type=result_name, default="test", metavar="NAME", help="read the evaluation NAME (default: test)"
    )


def add_links_options(parser: argparse._ActionsContainer, default: str = "") -> None:
    """Adds a file of gold links, as `options.alignments` and `options.first_index`."""
    parser.add_argument(
        "--alignments",
        type=text_file,
        metavar="FILE",
        help=f"compare links with these gold alignments of the sentences, in Pharaoh format{default}",
    )
    parser.add_argument(
        "--first_index",
        type=int,
        choices=(0, 1),
        default=0,
        help="the number of the first word in the file of --alignments (default: 0)",
    )


def check_links_options(options: argparse.Namespace) -> None:
    """Raises an `InputError` if `--first_index` is given without the file that it describes."""
    if options.first_index and not options.alignments:
        raise InputError("--first_index needs --alignments, the file whose words it counts")


def add_bleu_option(parser: argparse.ArgumentParser, default: str) -> None:
    """Adds the tokenizer of BLEU, as `options.bleu_tokenizer`, None for the default."""
    parser.add_argument(
        "--bleu_tokenizer",
        choices=list(BLEU_TOKENIZERS),
        metavar="NAME",
        help=f"split text into words by this tokenizer of sacreBLEU (default: {default}). {describe(BLEU_TOKENIZERS)}",
    )


def add_decoding_options(parser: argparse.ArgumentParser, without: Collection[str] = ()) -> None:
    """Adds an option for each setting of decoding, except `CONFIG_ALONE` and `without`."""
    group = parser.add_argument_group("decoding (defaults: the settings of the run)")
    for name, field in DecodingSettings.model_fields.items():
        if name not in (*CONFIG_ALONE, *without):
            group.add_argument(f"--{name}", metavar="VALUE", help=help_text(field))


def add_seed_option(parser: argparse.ArgumentParser) -> None:
    """Adds the seed of sampling, which `with_decoding` reads."""
    limits = expectation(RunSettings.model_fields["seed"])
    parser.add_argument(
        "--seed", metavar="VALUE", help=f"with sampling: seed the draws by this number ({limits}; default: the run's)"
    )


def add_constraint_options(parser: argparse.ArgumentParser, note: str = "") -> None:
    """Adds the files of `CONSTRAINTS`, as `options.prefix`, `options.require` and `options.ban`."""
    group = parser.add_argument_group(
        "constraints on the translations", f"Files of text in the form of the training text{note}."
    )
    for name, meaning in CONSTRAINTS.items():
        group.add_argument(f"--{name}", type=text_file, metavar="FILE", help=meaning)


def read_search(options: argparse.Namespace, tuned: bool = True) -> RunConfig:
    """Reads the run's settings, `tuned` or not, with the search's options; checks that each run can be searched so.

    Raises:
        InputError: a run has no such weights, a value is wrong, or the runs cannot translate together.
    """
    runs = [options.run, *options.others]
    for run in runs:
        run.check_weights(options.checkpoint)
    check_members(runs)
    config = with_decoding(load_trained_run(options.run, tuned), vars(options))
    check_members_search(config, options.others)
    decoding = config.decoding
    if options.require and decoding.search != "beam":
        raise InputError(f"--require: needs a beam, and decoding.search is {decoding.search}; expected --search beam")
    if options.require and not 2 <= decoding.beam_size <= WIDEST_REQUIRED:
        raise InputError(
            f"--require: needs a beam of 2 to {WIDEST_REQUIRED} hypotheses, and decoding.beam_size is "
            f"{decoding.beam_size}; expected, for example, --beam_size 5"
        )
    if options.workers > 1 and decoding.search == "sampling":
        raise InputError("--workers: sampling draws one translation after the other; expected --workers 1 with it")
    return config


def make_processes(options: argparse.Namespace, config: RunConfig) -> RunParts | None:
    """Returns the processes that share the work of the runs, and what they need of the options; None for this one."""
    if options.workers == 1:
        return None
    roots = tuple(run.root for run in (options.run, *options.others))
    return RunParts(roots, options.checkpoint, config, options.workers, options.ban, bool(options.require))


def log_to_output() -> None:
    """Makes messages of the package appear on standard output, for a command whose results are files."""
    if not isinstance(sys.stdout, Messages):
        sys.stdout = cast(TextIO, Messages(sys.stdout))
    logging.basicConfig(handlers=[OutputHandler()])
    logging.getLogger("qkv").setLevel(logging.INFO)  # TensorFlow's own information is for its developers


_LONG_WORD = re.compile(r"(?<=\S{200})\S{200,}")


def _fail(message: str, status: int) -> int:
    with contextlib.suppress(OSError):
        sys.stderr.write(f"{_LONG_WORD.sub('…', message)}\n")
    can_flush(sys.stderr)
    return status


def _report(error: BaseException) -> int:
    """Reports an error that a person can mend in one line, and returns the exit status; raises any other again."""
    if isinstance(error, KeyboardInterrupt):
        return _fail("interrupted", 130)
    assert isinstance(error, Exception)
    if isinstance(error, InputError | LostWorkerError):
        # What may not be read is not damaged.
        denied = file_system_message(error.__context__) if isinstance(error.__context__, PermissionError) else None
        return _fail(f"error: {denied or error}", 2 if isinstance(error, InputError) else TRY_AGAIN)
    if refused := file_system_message(error):
        output = "" if can_flush(sys.stdout) else "standard output: "
        return _fail(f"error: {output}{refused}", 2 if getattr(error, "errno", None) in PATH_ERRORS else 1)
    raise error


def _refuse_unwritable(arguments: Sequence[str]) -> None:
    for argument in arguments:
        if "\0" in argument or not is_unicode(argument):
            raise InputError(f"{argument[:200]!r}: expected text in UTF-8 without zero bytes; rename the file")


def exit_cleanly(main: Callable[[list[str]], int | None]) -> Callable[..., int]:
    """Makes a command report errors in one line and return a fitting exit status; it takes `sys.argv[1:]` by default.

    An `InputError` prints `error: ...` and gives status 2, a disk that refuses to write gives 1, Ctrl-C gives 130, and
    the loss of another worker 75. The options of every command may stand anywhere among the arguments and are taken off
    them: `--debug` lets every traceback through, and `--plugins FILE` loads a plugin first.
    """

    @functools.wraps(main)
    def command(arguments: list[str] | None = None) -> int:
        given = sys.argv[1:] if arguments is None else arguments
        debug = False
        prepare_streams()
        try:
            _refuse_unwritable(given)
            common, others = COMMON.parse_known_args(given)
            debug = common.debug
            load_plugins(common.plugins)
            try:
                status = main(others) or 0
            except SystemExit as error:  # after --help, of a script's own parser, or within a plugin
                sys.stdout.flush()
                if error.code and common.plugins:
                    raise InputError(f"a plugin has ended the command: exit {error.code}; fix the plugin") from error
                raise
            sys.stdout.flush()
            return status
        except BrokenPipeError:
            discard(sys.stdout)  # the reader left (`| head`), which is no error
            return 0
        except (Exception, KeyboardInterrupt) as error:
            if debug:
                raise
            return _report(error)

    return command
