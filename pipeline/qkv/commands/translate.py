"""Translates standard input line by line: `qkv translate RUN < in.txt > out.txt`."""

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import starmap
from typing import TYPE_CHECKING, Any

from ..runtime.import_tensorflow import importing_tensorflow
from ..runtime.streams import write_result
from ..text.lines.stream import ArrivingLines
from .cli import (
    ArgumentParser,
    add_checkpoint_option,
    add_constraint_options,
    add_decoding_options,
    add_members_argument,
    add_normalize_option,
    add_run_argument,
    add_seed_option,
    add_workers_option,
    exit_cleanly,
    make_spreading,
    read_search,
)

if TYPE_CHECKING:
    from ..decoding.translator import Translation
    from ..run.trained_run import TrainedRun

END_OF_INPUT = "Ctrl-Z and Enter" if sys.platform == "win32" else "Ctrl-D"


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    parser = ArgumentParser(
        "translate",
        description="Translates standard input to standard output, one line out for each line in, as soon as it comes. "
        "With --n_best N, writes up to N lines each, in Moses' format: "
        "`number ||| translation ||| LogProbability= value ||| score`. Translations are written as they "
        "are, in UTF-8; on a terminal, control characters are escaped.",
    )
    add_run_argument(parser)
    add_members_argument(parser)
    add_checkpoint_option(parser)
    add_workers_option(parser)
    add_decoding_options(parser)
    add_seed_option(parser)
    add_constraint_options(parser)
    parser.add_argument(
        "--detokenize",
        action="store_true",
        help="write plain text: punctuation attached to words, a capital at the beginning",
    )
    add_normalize_option(parser)
    return parser


@exit_cleanly
def main(arguments: list[str]) -> None:
    """Translates standard input, as its lines arrive."""
    options = make_parser().parse_args(arguments)
    config = read_search(options)  # what is wrong is told first
    lines = ArrivingLines(sys.stdin.buffer)  # read while TensorFlow is loaded
    with importing_tensorflow():  # not at the top: it imports TensorFlow, and --help must be fast
        from ..run.ensemble import load_runs
        from ..text.phrases.sentence_files import SentenceFiles

    roots = [run.root for run in (options.run, *options.others)]
    run = load_runs(roots, options.checkpoint).with_config(config)
    given = SentenceFiles(
        options.prefix, options.require, options.ban, run.target_tokens, run.config.model.max_positions
    )
    run = replace(run, banned=given.banned)
    format_line = format_best if options.n_best is None else format_n_best
    if sys.stdin.buffer.isatty():
        sys.stderr.write(f"type a sentence; {END_OF_INPUT} ends\n")
    typed = run.typed_text("standard input", normalizes=not options.no_normalize)

    def windows() -> Iterator[tuple[Any, ...]]:
        first = 1
        for window in lines.windows():
            _, ids = typed.read(window, first)
            yield ids, *given.take(len(window))
            first += len(window)

    number = 0
    for translated in _translate(run, windows(), options):
        for translations in translated:
            if options.detokenize:
                translations = [replace(one, text=run.detokenize(one.text)) for one in translations]
            write_result(format_line(number, translations))
            number += 1
        sys.stdout.buffer.flush()
    given.check_all_taken()


def _translate(
    run: "TrainedRun", windows: Iterable[tuple[Any, ...]], options: argparse.Namespace
) -> Iterable[list[list["Translation"]]]:
    if options.workers == 1:
        return starmap(run.translator.translate_ids, windows)
    return make_spreading(options, run.config).translate(windows)


def format_best(number: int, translations: Sequence["Translation"]) -> str:
    """Returns the best translation of a sentence, as a line."""
    return f"{_one_line(translations[0].text)}\n"


def format_n_best(number: int, translations: Sequence["Translation"]) -> str:
    """Returns all translations of a sentence in Moses' format: `number ||| text ||| features ||| score`."""
    lines = []
    for translation in translations:
        text = _one_line(translation.text).replace("|||", "| | |")  # the separator of the format
        total = sum(translation.log_probabilities)
        lines.append(f"{number} ||| {text} ||| LogProbability= {total:.6f} ||| {translation.score:.6f}\n")
    return "".join(lines)


def _one_line(text: str) -> str:
    """Returns a text without line ends: line i of the output is the translation of line i of the input."""
    return text.replace("\n", " ").replace("\r", " ")
