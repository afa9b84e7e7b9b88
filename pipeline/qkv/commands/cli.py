"""The parts that commands share: the parser of arguments, common options, error messages and exit statuses."""

import argparse
import contextlib
import functools
import gc
import logging
import re
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn, TextIO, cast

from ..config.choices import describe_names
from ..config.choices.translation import BLEU_TOKENIZERS
from ..config.decoding import DecodingSettings
from ..config.ensemble import check_members, check_members_search
from ..config.run import RunConfig, RunSettings, load_trained_run, with_decoding
from ..config.schema import expectation, help_text
from ..errors import PATH_ERRORS, InputError, LostWorkerError, did_you_mean, file_system_message, invocation
from ..files.paths import check_file_to_write, check_folder_to_write, check_text, is_unicode, name_problem
from ..files.run_directory import DEMO, DEMO_RESULTS, RunDirectory
from ..run.processes import RunParts
from ..runtime import import_tensorflow
from ..runtime.plugin_files import load_plugins
from ..runtime.streams import Messages, OutputHandler, can_flush, discard, prepare_streams

EVALUATED_HELP = "folder of a run, of one evaluation (RUN/evaluations/NAME), or of an attention archive"
TRY_AGAIN = 75  # EX_TEMPFAIL of <sysexits.h>
CONFIG_ALONE = ("length_divisor", "beam_end", "renormalize", "force_eos", "max_target_extra")
"""Settings of decoding that are not options. Imported runs have them, from the program that they come from."""
CONSTRAINTS = ("prefix", "require", "ban")
"""The options with constraints on translations, see `add_constraint_options`."""
WIDEST_REQUIRED = 200
"""The largest beam with `--require`. The memory of required phrases grows with the square of the beam size."""


class ArgumentParser(argparse.ArgumentParser):
    """The parser of a command. Wrong arguments raise an `InputError`, which suggests similar names.

    Args:
        command: the name of the command; None for a script, for which `argparse` takes the name of its file.
        settings: arguments for `argparse.ArgumentParser`. Unless they have `parents`, the options of every command are
            added (`COMMON`).
    """

    def __init__(self, command: str | None = None, **settings: Any) -> None:
        if "parents" not in settings:
            settings["parents"] = [COMMON]
        super().__init__(prog=invocation(command) if command else None, allow_abbrev=False, **settings)

    def parse_args(self, args: Sequence[str]) -> argparse.Namespace:  # type: ignore[override]
        """Parses the arguments of a command, and returns the options.

        Raises:
            InputError: an argument is wrong or unknown.
            SystemExit: with status 0, after `--help` has been printed.
        """
        options, unknown = self.parse_known_args(args)
        if not unknown:
            return options
        names = [argument.partition("=")[0] for argument in unknown if argument.startswith("--")]
        if not names:
            takes_several_folders = any(action.nargs in ("*", "+") for action in self._actions)
            hint = "; give all folders side by side, before the options" if takes_several_folders else ""
            raise InputError(f"unrecognized arguments: {' '.join(unknown)}{hint}; see --help")
        known = [name for name in self._option_string_actions if name.startswith("--")]
        hints = {name: did_you_mean(name, known) or "; see --help" for name in names}
        raise InputError("\n  ".join(f"{name}: no such option{hint}" for name, hint in hints.items()))

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """Converts the values of an argument; called by the standard parser.

        The standard parser would remove the value `--` of `--option=--`. Here it is converted like any other value.
        """
        if action.option_strings and arg_strings == ["--"]:
            value = self._get_value(action, "--")
            self._check_value(action, value)
            return [value] if action.nargs in ("*", "+") else value
        return super()._get_values(action, arg_strings)

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        """Converts a value; called by the standard parser.

        The standard parser replaces an `InputError` of the converter by a message without details. Here it is raised
        unchanged.
        """
        try:
            return super()._get_value(action, arg_string)
        except argparse.ArgumentError as error:
            raise error.__context__ if isinstance(error.__context__, InputError) else error from None

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Raises an `ArgumentError` if a value is not one of an option's choices; called by the standard parser."""
        if action.choices is not None and value not in action.choices:
            names = [str(choice) for choice in action.choices]
            problem = f"expected one of {', '.join(names)}, found {str(value)!r}"
            raise argparse.ArgumentError(action, f"{problem}{did_you_mean(str(value), names)}")

    def _print_message(self, message: str, file: Any = None) -> None:
        """Prints a message; called by the standard parser. Unlike the standard method, it raises errors of writing."""
        (file or sys.stdout).write(message)

    def error(self, message: str) -> NoReturn:
        """Raises an `InputError` with a message that the standard parser would print; called by the standard parser."""
        raise InputError(f"{message}; see --help")


COMMON = ArgumentParser(add_help=False, parents=())
"""The parser of the options of every command. `exit_cleanly` parses them before the command gets its arguments."""
_common = COMMON.add_argument_group("options of every command")
_common.add_argument(
    "--plugins",
    type=Path,
    action="append",
    default=[],
    metavar="FILE",
    help="run this Python file of yours first, which registers a score, a mechanism or another part; repeatable",
)
_common.add_argument("--debug", action="store_true", help="show the traceback of an error")


@contextlib.contextmanager
def importing_tensorflow() -> Iterator[None]:
    """Sets up TensorFlow and Keras as `runtime.import_tensorflow` does, then runs the block, which imports them.

    A command needs its modules until it ends. So the garbage collector no longer looks at what the first import has
    made, which saves a twelfth of the time to a first translation.
    """
    is_first = "keras" not in sys.modules
    with import_tensorflow.importing_tensorflow():
        yield
    if is_first:
        gc.freeze()


def run_folder(text: str) -> RunDirectory:
    """Opens the run in a folder. Used as the `type` of `add_argument`.

    Raises:
        InputError: the folder is not a run that can be read, see `RunDirectory.open`.
    """
    return RunDirectory.open(Path(text))


def checked_path(check: Callable[[Path], None]) -> Callable[[str], Path]:
    """Returns a function that converts a text to a path and checks it. Used as the `type` of `add_argument`.

    The function raises an `ArgumentTypeError` for an empty text, and the errors of `check`.

    Args:
        check: a function that raises an `InputError` if the path is wrong.
    """

    def read(text: str) -> Path:
        if not text:  # for example a variable of the shell that is not set
            raise argparse.ArgumentTypeError("expected the path of a file or folder, found ''")
        path = Path(text)
        check(path)
        return path

    return read


text_file = checked_path(check_text)
file_to_write = checked_path(check_file_to_write)
folder_to_write = checked_path(check_folder_to_write)


def result_name(text: str) -> str:
    """Checks the name of a folder for results, and returns it unchanged. Used as the `type` of `add_argument`.

    Raises:
        argparse.ArgumentTypeError: no folder can have this name, see `files.paths.name_problem`.
    """
    if problem := name_problem(text):
        raise argparse.ArgumentTypeError(problem)
    return text


def whole_number(least: int, most: int) -> Callable[[str], int]:
    """Returns a function that converts a text to an integer. Used as the `type` of `add_argument`.

    The function raises an `ArgumentTypeError` unless the text is an integer from `least` to `most`.
    """

    def read(text: str) -> int:
        if not re.fullmatch(r"-?[0-9]{1,18}", text) or not least <= int(text) <= most:
            shown = text if len(text) <= 40 else text[:40] + "…"
            raise argparse.ArgumentTypeError(f"expected an integer >= {least} and <= {most}, found {shown!r}")
        return int(text)

    return read


def probability(text: str) -> float:
    """Converts a text to a number from 0 to 1. Used as the `type` of `add_argument`.

    Raises:
        argparse.ArgumentTypeError: the text is not such a number.
    """
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{0,18})?|\.[0-9]{1,18}", text) or float(text) > 1:
        raise argparse.ArgumentTypeError(f"expected a number from 0 to 1, such as 0.9, found {text!r:.42}")
    return float(text)


def add_run_argument(parser: argparse.ArgumentParser) -> None:
    """Adds the argument RUN, the folder of a trained run: `options.run`, a `RunDirectory`."""
    parser.add_argument(
        "run", type=run_folder, metavar="RUN", help=f"folder of a trained run, or {DEMO}, a run in the package"
    )


def add_default_run_argument(parser: argparse.ArgumentParser, name: str, nargs: str, meaning: str) -> None:
    """Adds an argument for trained runs that may be left out, as `default_run` says.

    Args:
        parser: the parser.
        name: the name of the argument in the options.
        nargs: the number of runs, `?` or `*`, see `argparse`.
        meaning: the description of the argument, for the help text.
    """
    default = f"{DEMO_RESULTS} if it is a run, otherwise {DEMO}, a run in the package"
    parser.add_argument(name, type=run_folder, nargs=nargs, metavar="RUN", help=f"{meaning} (default: {default})")


def add_members_argument(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments RUN2, the other runs of an ensemble: `options.others`, a list of `RunDirectory`."""
    parser.add_argument(
        "others",
        type=run_folder,
        nargs="*",
        default=[],
        metavar="RUN2",
        help="folders of more runs with the same tokenizer: all runs translate as an ensemble, by the mean of their "
        "log-probabilities, with the settings of RUN",
    )


def add_checkpoint_option(parser: argparse.ArgumentParser, side_by_side: bool = False) -> None:
    """Adds the option for the weights to use: `options.checkpoint`, `best` or `last`.

    If `side_by_side` is True, the value may also be `both`.
    """
    parser.add_argument(
        "--checkpoint",
        choices=("best", "last", "both") if side_by_side else ("best", "last"),
        default="best",
        help="use the weights that were best on validation, or the last ones, which a run has during training too"
        f"{', or both side by side' if side_by_side else ''} (default: best)",
    )


def add_workers_option(parser: argparse.ArgumentParser) -> None:
    """Adds the option for the number of processes: `options.workers`, an int."""
    parser.add_argument(
        "--workers",
        type=whole_number(1, 1000),
        default=1,
        metavar="N",
        help="divide the work between N processes, each with the model in its memory; the results are the same "
        "(default: 1)",
    )


def add_normalize_option(parser: argparse._ActionsContainer) -> None:
    """Adds the option that switches off `data.normalize`: `options.no_normalize`, a bool."""
    parser.add_argument(
        "--no_normalize",
        action="store_true",
        help="do not change the text by the run's data.normalize, which gives it the style of the training text",
    )


def add_set_option(parser: argparse.ArgumentParser) -> None:
    """Adds the option for the name of the evaluation to read from a run: `options.set`, by default `test`."""
    parser.add_argument(
        "--set",
        type=result_name,
        default="test",
        metavar="NAME",
        help="if RUN is a run, read its evaluation of this name (default: test)",
    )


def add_links_options(parser: argparse._ActionsContainer, default: str = "") -> None:
    """Adds the options for a file of gold links: `options.alignments`, a path, and `options.first_index`, 0 or 1.

    Args:
        parser: the parser or the group of options.
        default: a note about the default of `--alignments` for its help text, in brackets.
    """
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
        help="count the words in the file of --alignments from this number (default: 0)",
    )


def check_links_options(options: argparse.Namespace) -> None:
    """Raises an `InputError` if `--first_index` is given without `--alignments`."""
    if options.first_index and not options.alignments:
        raise InputError("--first_index needs --alignments, the file whose words it counts")


def add_bleu_option(parser: argparse.ArgumentParser, default: str) -> None:
    """Adds the option for the tokenizer of BLEU: `options.bleu_tokenizer`, a name, or None for the default.

    Args:
        parser: the parser.
        default: the default, in words, for the help text.
    """
    parser.add_argument(
        "--bleu_tokenizer",
        choices=list(BLEU_TOKENIZERS),
        metavar="NAME",
        help=f"split text into words by this tokenizer of sacreBLEU (default: {default}). "
        f"{describe_names(BLEU_TOKENIZERS)}",
    )


def add_decoding_options(parser: argparse.ArgumentParser, without: Collection[str] = ()) -> None:
    """Adds an option for each setting of section `decoding`, except those in `CONFIG_ALONE` and `without`.

    The options are texts, or None if they are not given. `config.run.with_decoding` applies them to a config.
    """
    group = parser.add_argument_group("decoding (defaults: the settings of the run)")
    for name, field in DecodingSettings.model_fields.items():
        if name not in (*CONFIG_ALONE, *without):
            group.add_argument(f"--{name}", metavar="VALUE", help=help_text(field))


def add_seed_option(parser: argparse.ArgumentParser) -> None:
    """Adds the option for the seed of sampling: `options.seed`, a text or None, see `config.run.with_decoding`."""
    limits = expectation(RunSettings.model_fields["seed"])
    parser.add_argument(
        "--seed",
        metavar="VALUE",
        help=f"with sampling: use this seed for the random draws ({limits}; default: the run's)",
    )


def add_constraint_options(parser: argparse.ArgumentParser, note: str = "") -> None:
    """Adds options for files with constraints on translations: `options.prefix`, `options.require`, `options.ban`.

    Each is a path or None.

    Args:
        parser: the parser.
        note: text to append to the description of the options in the help.
    """
    group = parser.add_argument_group(
        "constraints on the translations", f"Text files, with words in the form of the training text{note}."
    )
    group.add_argument(
        "--prefix",
        type=text_file,
        metavar="FILE",
        help="begin translation i with line i of FILE, unless the line is empty; the last word may be incomplete",
    )
    group.add_argument(
        "--require",
        type=text_file,
        metavar="FILE",
        help="put the words or phrases of line i of FILE, separated by tabs, into translation i, as whole words; needs "
        "beam search",
    )
    group.add_argument(
        "--ban",
        type=text_file,
        metavar="FILE",
        help="keep the words or phrases of FILE, one a line, out of all translations, as whole words",
    )


def read_search(options: argparse.Namespace, tuned: bool = True) -> RunConfig:
    """Reads the settings of the first run, and changes them by the options of the search.

    Also checks that all runs have the weights and support the search.

    Args:
        options: the options of the command: the runs, `--checkpoint`, `--workers`, and those of decoding, of the seed
            and of constraints.
        tuned: if True, settings of the run's `decoding.yaml` are used, see `config.run.load_trained_run`.

    Returns:
        All settings of the first run, changed by the options.

    Raises:
        InputError: a config cannot be read, a run lacks the weights of `--checkpoint`, an option is wrong or
            contradicts others, or the runs cannot translate as an ensemble.
    """
    runs = [options.run, *options.others]
    for run in runs:
        run.check_weights(options.checkpoint)
    check_members(runs)
    config = with_decoding(load_trained_run(options.run, tuned), vars(options))
    check_members_search(config, options.others)
    decoding = config.decoding
    if options.require and decoding.search != "beam":
        raise InputError(
            f"--require: needs beam search, but decoding.search is {decoding.search}; expected --search beam"
        )
    if options.require and not 2 <= decoding.beam_size <= WIDEST_REQUIRED:
        raise InputError(
            f"--require: needs a beam of 2 to {WIDEST_REQUIRED} hypotheses, but decoding.beam_size is "
            f"{decoding.beam_size}; expected, for example, --beam_size 5"
        )
    if options.workers > 1 and decoding.search == "sampling":
        raise InputError(
            "--workers: sampling draws one translation after the other, so it cannot be divided between processes; "
            "expected --workers 1"
        )
    return config


def make_processes(options: argparse.Namespace, config: RunConfig) -> RunParts | None:
    """Describes the processes that `--workers` starts, and the runs that each of them loads.

    Args:
        options: the options of the command, as for `read_search`.
        config: the settings of the first run.

    Returns:
        The description, by which work can be divided between processes; None if there is a single process.
    """
    if options.workers == 1:
        return None
    roots = tuple(run.root for run in (options.run, *options.others))
    return RunParts(roots, options.checkpoint, config, options.workers, options.ban, bool(options.require))


def log_to_output() -> None:
    """Writes log messages of qkv to standard output. Call it in a command whose results are files."""
    if not isinstance(sys.stdout, Messages):
        sys.stdout = cast(TextIO, Messages(sys.stdout))
    logging.basicConfig(handlers=[OutputHandler()])
    logging.getLogger("qkv").setLevel(logging.INFO)  # messages of TensorFlow at this level are for its developers


_LONG_WORD = re.compile(r"(?<=\S{200})\S{200,}")


def _fail(message: str, status: int) -> int:
    """Writes a message to standard error, with long words shortened, and returns the exit status."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"{_LONG_WORD.sub('…', message)}\n")
    can_flush(sys.stderr)
    return status


def _report(error: BaseException) -> int:
    """Writes a message for an error that the user can fix, and returns the exit status; raises any other error."""
    if isinstance(error, KeyboardInterrupt):
        return _fail("interrupted", 130)
    assert isinstance(error, Exception)
    if isinstance(error, InputError | LostWorkerError):
        # A file that the user may not read is reported as such, not as damaged.
        denied = file_system_message(error.__context__) if isinstance(error.__context__, PermissionError) else None
        return _fail(f"error: {denied or error}", 2 if isinstance(error, InputError) else TRY_AGAIN)
    if message := file_system_message(error):
        output = "" if can_flush(sys.stdout) else "standard output: "
        return _fail(f"error: {output}{message}", 2 if getattr(error, "errno", None) in PATH_ERRORS else 1)
    raise error


def _check_unicode(arguments: Sequence[str]) -> None:
    """Raises an `InputError` if an argument is not valid UTF-8 or has a zero byte."""
    for argument in arguments:
        if "\0" in argument or not is_unicode(argument):
            raise InputError(f"{argument[:200]!r}: expected text in UTF-8 without zero bytes; rename the file")


def exit_cleanly(main: Callable[[list[str]], int | None]) -> Callable[..., int]:
    """Decorates the main function of a command: an error becomes a message and an exit status.

    The status is 2 after an `InputError` or for a wrong path, 1 for another error of the file system such as a full
    disk, 130 after Ctrl-C, and 75 if another worker is lost. Other errors are raised.

    The decorator also handles the options of every command, which `main` does not get: `--plugins FILE` runs a plugin
    file first, and `--debug` raises every error with its traceback.

    Args:
        main: the main function. It takes the arguments of the command, and returns an exit status, or None for 0.

    Returns:
        A function of the arguments, by default `sys.argv[1:]`, that returns the exit status.
    """

    @functools.wraps(main)
    def command(arguments: list[str] | None = None) -> int:
        all_arguments = sys.argv[1:] if arguments is None else arguments
        debug = False
        prepare_streams()
        try:
            _check_unicode(all_arguments)
            common_options, arguments_of_command = COMMON.parse_known_args(all_arguments)
            debug = common_options.debug
            load_plugins(common_options.plugins)
            try:
                status = main(arguments_of_command) or 0
            except SystemExit as error:  # after --help, or raised by a script's parser or a plugin
                sys.stdout.flush()
                if error.code and common_options.plugins:
                    raise InputError(f"a plugin has ended the command: exit {error.code}; fix the plugin") from error
                raise
            sys.stdout.flush()
            return status
        except BrokenPipeError:
            discard(sys.stdout)  # the reader has left (`| head`), which is not an error
            return 0
        except (Exception, KeyboardInterrupt) as error:
            if debug:
                raise
            return _report(error)

    return command
