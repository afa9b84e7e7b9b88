"""Translates standard input line by line: `qkv translate RUN < in.txt > out.txt`."""

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice, repeat
from typing import TYPE_CHECKING, Any, NamedTuple

from ..config.choices import describe_names
from ..config.choices.translation import MARKUPS
from ..errors import InputError
from ..runtime.streams import write_result
from ..text.lines.sentences import SentenceSplitter
from ..text.lines.stream import ArrivingLines
from ..text.tokens.special_tokens import EOS, UNK
from . import cli

JSON_DIGITS = 6
"""The number of digits after the point of numbers in JSON."""
END_OF_INPUT = "Ctrl-Z and Enter" if sys.platform == "win32" else "Ctrl-D"

if TYPE_CHECKING:
    from ..decoding.translator import Translation
    from ..inspection.record import Record
    from ..markup.translation import MarkedWindow
    from ..run.trained_run import TrainedRun
    from ..text.lines.typed_line import ReadParagraphs
    from ..text.phrases.required import RequiredPhrase
    from ..text.phrases.sentence_files import ConstraintFiles
    from ..text.tokens.tokenizer import Tokenizer


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    parser = cli.ArgumentParser(
        "translate",
        description="Translates standard input to standard output, one line out for each line in, as soon as it comes. "
        "With --n_best N, writes up to N lines each, in Moses' format: "
        "`number ||| translation ||| LogProbability= value ||| score`. The output is UTF-8; on a terminal, control "
        "characters are escaped.",
    )
    cli.add_run_argument(parser)
    cli.add_members_argument(parser)
    cli.add_checkpoint_option(parser)
    cli.add_workers_option(parser)
    cli.add_decoding_options(parser)
    cli.add_seed_option(parser)
    cli.add_constraint_options(parser)
    parser.add_argument(
        "--detokenize",
        action="store_true",
        help="write plain text: punctuation attached to words, a capital at the beginning",
    )
    cli.add_normalize_option(parser)
    parser.add_argument(
        "--split",
        action="store_true",
        help="translate each sentence of a line separately, and keep the spaces between sentences, but not at the ends "
        "of the line; needs sentencex",
    )
    parser.add_argument(
        "--markup",
        choices=MARKUPS,
        help="keep markup of this kind in the translation, which is then written as plain text, as with --detokenize. "
        + describe_names(MARKUPS),
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="write each translation as a JSON object on a line, with its tokens and its log-probability",
    )
    parser.add_argument(
        "--attention",
        action="store_true",
        help="with --json: add the weights of the cross-attention, of every layer and head",
    )
    parser.add_argument(
        "--confidence",
        action="store_true",
        help="write before each translation the probability that it is good, from 0 to 1, and a tab; fitted once on "
        "the validation set",
    )
    parser.add_argument(
        "--at_least",
        type=cli.probability,
        metavar="CONFIDENCE",
        help="leave a line empty if its confidence is below this number, from 0 to 1",
    )
    return parser


@cli.exit_cleanly
def main(arguments: list[str]) -> None:
    """Translates standard input, as its lines arrive."""
    options = make_parser().parse_args(arguments)
    config = cli.read_search(options)  # wrong settings are reported before TensorFlow is loaded
    _check_forms(options)
    for option in ("attention", "markup"):
        if getattr(options, option) and not config.model.has_cross_attention:
            raise InputError(f"--{option}: the model of {options.run.root} has no cross-attention; leave it out")
    if options.markup == "html-page":
        _translate_page(options, config)
        return
    lines = ArrivingLines(sys.stdin.buffer, composes=not options.markup)  # read while TensorFlow is loaded
    with cli.importing_tensorflow():  # not at the top: it imports TensorFlow, and --help must be fast
        from ..markup.translation import read_marked_lines
        from ..run.ensemble import load_runs
        from ..text.phrases.sentence_files import ConstraintFiles

    roots = [run.root for run in (options.run, *options.others)]
    run = load_runs(roots, options.checkpoint).with_config(config)
    confidence = None
    if options.confidence or options.at_least is not None:
        from ..evaluation.confidence import find_confidence, with_hypotheses  # only here: it imports sacreBLEU

        confidence = find_confidence(run)
        run = with_hypotheses(run)
    longest = run.config.model.max_positions
    constraints = ConstraintFiles(options.prefix, options.require, options.ban, run.target_tokens, longest)
    run = replace(run, banned=constraints.banned)
    reader = run.reader.typed_text("standard input", normalizes=not options.no_normalize, splits=options.split)
    if sys.stdin.buffer.isatty():
        sys.stderr.write(f"type a sentence; {END_OF_INPUT} ends\n")
    is_constrained = bool(options.prefix or options.require)
    read = partial(read_marked_lines, run, reader, options.markup) if options.markup else reader.read_paragraphs
    marked = 1 if confidence else None  # the other hypotheses are only compared with the best one
    windows = _read_windows(lines.windows(), read, constraints if is_constrained else None, marked)
    processes = cli.make_processes(options, run.config)
    if sys.stdin.buffer.isatty() and processes is None and not is_constrained:
        _trace_search(run)
    # Processes read windows ahead. So each window comes back with its translations.
    translated: Iterator[_TranslatedWindow] = (
        map(partial(_translate_window, run), windows)
        if processes is None
        else processes.map(_translate_window, windows)
    )
    for translated_window in translated:
        confidences = confidence.of(translated_window.n_bests, run.tokenizer) if confidence else None
        _write_window(translated_window, run, options, confidences)
    constraints.check_all_taken()


def _translate_page(options: argparse.Namespace, config: Any) -> None:
    """Translates standard input as one HTML page, in the encoding of the page. `config` has the settings of the run."""
    data = sys.stdin.buffer.read()
    with cli.importing_tensorflow():
        from ..markup.html_text import decode_page
        from ..markup.translation import translate_page
        from ..run.ensemble import load_runs
        from ..text.phrases.banned import read_banned

    page, encoding = decode_page(data, "standard input")
    run = load_runs([run.root for run in (options.run, *options.others)], options.checkpoint).with_config(config)
    banned = read_banned(options.ban, run.target_tokens, leads_out=False) if options.ban else None
    text, _ = translate_page(replace(run, banned=banned), page, "standard input", not options.no_normalize)
    sys.stdout.buffer.write(text.encode(encoding, "xmlcharrefreplace"))
    sys.stdout.buffer.flush()


def _trace_search(run: "TrainedRun") -> None:
    """Translates a token, which traces the graph of the search while the user types. Sampling is left out: it draws."""
    if run.config.decoding.search == "beam":
        run.translator.translate_ids([[UNK]])


class _Window(NamedTuple):
    """Lines that are read and translated together.

    - first_number: the number of the first line, from 1.
    - text: the sentences of the lines, and their token ids; with `--markup`, also the marks in them.
    - prefix_ids: the token ids with which the translation of each sentence must begin; None without `--prefix`.
    - required: the required phrases of each sentence; None without `--require`.
    - marked: with `--markup`, the number of translations of each sentence that get markup; None for all.
    """

    first_number: int
    text: "ReadParagraphs | MarkedWindow"
    prefix_ids: list[list[int]] | None
    required: "list[list[RequiredPhrase]] | None"
    marked: int | None


class _TranslatedWindow(NamedTuple):
    """The translations of a window.

    - first_number: the number of the first line, from 1.
    - text: the sentences of the lines as the model has read them.
    - n_bests: the n-best list of each sentence.
    - marked: with `--markup`, for each line its translations with markup, see `MarkedTranslations`; otherwise None.
    """

    first_number: int
    text: "ReadParagraphs"
    n_bests: "list[list[Translation]]"
    marked: list[list[str]] | None


def _read_windows(
    windows: Iterable[Sequence[str]],
    read: "Callable[[Sequence[str], Sequence[int]], ReadParagraphs | MarkedWindow]",
    constraints: "ConstraintFiles | None",
    marked: int | None,
) -> Iterator[_Window]:
    """Converts windows of lines to token ids, and adds the constraints on their sentences.

    Args:
        windows: the lines of each window.
        read: a function of lines and their numbers that divides them into sentences, and converts these to ids.
        constraints: the constraints on all sentences; None if there are none.
        marked: see `_Window`.
    """
    first_number = 1
    for lines in windows:
        text = read(lines, range(first_number, first_number + len(lines)))
        prefix_ids, required = constraints.take(len(lines)) if constraints else (None, None)
        yield _Window(first_number, text, prefix_ids, required, marked)
        first_number += len(lines)


def _translate_window(run: "TrainedRun", window: _Window) -> _TranslatedWindow:
    """Translates the sentences of a window."""
    from ..text.lines.typed_line import ReadParagraphs  # not at the top: it imports NumPy

    first_number, text, prefix_ids, required, marked = window
    if isinstance(text, ReadParagraphs):
        return _TranslatedWindow(first_number, text, run.translator.translate_ids(text.ids, prefix_ids, required), None)
    from ..markup.translation import translate_window  # only for texts with markup

    return _TranslatedWindow(first_number, *translate_window(run, text, prefix_ids, required, marked))


def _write_window(
    window: _TranslatedWindow,
    run: "TrainedRun",
    options: argparse.Namespace,
    confidences: Sequence[float] | None = None,
) -> None:
    """Writes the translations of a window to standard output: as text, as n-best lists or as JSON, by the options.

    Args:
        window: the window.
        run: the run.
        options: the options of the command.
        confidences: the confidence of the best translation of each sentence; None if it is not asked for.
    """
    n_bests: Sequence[Sequence[Translation]] = window.n_bests
    if options.n_best is None:
        n_bests = [n_best[:1] for n_best in n_bests]
    if options.detokenize and window.marked is None:
        n_bests = [
            [replace(translation, text=run.reader.detokenize(translation.text)) for translation in n_best]
            for n_best in n_bests
        ]
    records = _record(run, window.text.texts, n_bests) if options.attention else repeat(None)
    remaining = iter(n_bests)
    remaining_confidences = iter(confidences or repeat(1.0))
    for index, paragraph in enumerate(window.text.paragraphs):
        number = window.first_number + index
        n_bests_of_line = list(islice(remaining, len(paragraph.sentences)))
        confidences_of_line = list(islice(remaining_confidences, len(paragraph.sentences)))
        if window.marked and len(n_bests_of_line) == 1:
            marked = zip(n_bests_of_line[0], window.marked[index], strict=False)
            n_bests_of_line = [[replace(translation, text=text) for translation, text in marked]]
        if options.json:
            n_bests_of_line = list(map(partial(_leave_out, options.at_least), n_bests_of_line, confidences_of_line))
            rated = confidences_of_line if confidences else ()
            for line in _json_lines(number, n_bests_of_line, run.tokenizer, records, rated):
                write_result(line)
                sys.stdout.flush()
        elif options.n_best is None:
            confidence = min(confidences_of_line)  # a paragraph is as sure as its least sure sentence
            best_texts = [one_line(n_best[0].text) for n_best in n_bests_of_line]
            line = paragraph.join(best_texts) if window.marked is None else one_line(window.marked[index][0])
            text = "" if confidence < (options.at_least or 0.0) else line
            write_result(f"{confidence:.2f}\t{text}\n" if options.confidence else f"{text}\n")
        else:
            write_result(format_n_best(number - 1, n_bests_of_line[0]))
    sys.stdout.buffer.flush()


def _leave_out(at_least: float | None, n_best: "Sequence[Translation]", confidence: float) -> "Sequence[Translation]":
    """Returns an n-best list; the best translation alone, without its text, if the confidence is below `at_least`."""
    return n_best if confidence >= (at_least or 0.0) else [replace(n_best[0], text="")]


def _check_forms(options: argparse.Namespace) -> None:
    """Raises an `InputError` if options exclude each other, or `--split` is given and sentencex is not installed."""
    if options.attention and not options.json:
        raise InputError("--attention: attention is only written as JSON; expected --json with it")
    if options.n_best and (options.confidence or options.at_least is not None):
        raise InputError(
            "--n_best: --confidence and --at_least rate the best translation of a sentence; leave out --n_best"
        )
    if options.attention and options.others:
        raise InputError("--attention: each run of an ensemble has another attention; expected one run")
    if options.split:
        SentenceSplitter("en")  # raises the error
    if options.split and (options.prefix or options.require):
        raise InputError(
            "--split: --prefix and --require hold a line for each line, not for each sentence; leave out one"
        )
    if options.split and options.json and options.markup:
        raise InputError(
            "--split: JSON has an object for each sentence, and a tag may mark several sentences; leave out --split, "
            "--json or --markup"
        )
    if options.markup == "html-page":
        _check_page(options)
    if options.split and options.n_best and not options.json:
        raise InputError("--split: a line is joined from the best translations; expected --json with --n_best")


def _check_page(options: argparse.Namespace) -> None:
    """Raises an `InputError` for an option that has no meaning for a page, whose translation is one page."""
    for option in ("n_best", "json", "attention", "confidence", "at_least", "prefix", "require"):
        if getattr(options, option) not in (None, False):
            raise InputError(
                f"--{option}: --markup html-page writes one page; leave it out, or give lines with --markup html"
            )
    if options.workers > 1:
        raise InputError("--workers: --markup html-page is translated by one process; leave it out")


def format_n_best(number: int, translations: Sequence["Translation"]) -> str:
    """Returns the n-best list of a sentence in Moses' format, with a line for each translation.

    A line is `NUMBER ||| TEXT ||| LogProbability= VALUE ||| SCORE`.

    Args:
        number: the number of the sentence, from 0.
        translations: its translations, the best first.
    """
    lines = []
    for translation in translations:
        text = one_line(translation.text).replace("|||", "| | |")  # the separator of the format
        total = sum(translation.log_probabilities)
        lines.append(f"{number} ||| {text} ||| LogProbability= {total:.6f} ||| {translation.score:.6f}\n")
    return "".join(lines)


def _json_lines(
    number: int,
    n_bests: Sequence[Sequence["Translation"]],
    tokenizer: "Tokenizer",
    records: Iterator["Record | None"],
    confidences: Sequence[float],
) -> Iterator[str]:
    """Yields a line with a JSON object for each translation of each sentence of an input line.

    Args:
        number: the number of the input line, from 1.
        n_bests: the n-best list of each sentence of the line.
        tokenizer: the tokenizer of the run.
        records: the attention records of these translations, and then of later lines, which are not consumed. Without
            `--attention` it yields None for each translation.
        confidences: the confidence of each sentence of the line; empty if it is not asked for.
    """
    for sentence, n_best in enumerate(n_bests, 1):
        for rank, (translation, record) in enumerate(zip(n_best, records, strict=False), 1):
            fields: dict[str, Any] = {
                "line": number,
                "sentence": sentence,
                "rank": rank,
                "text": translation.text,
                "log_probability": round(sum(translation.log_probabilities), JSON_DIGITS),
                "score": round(translation.score, JSON_DIGITS),
                "tokens": tokenizer.pieces(translation.ids),
                "source_tokens": tokenizer.pieces([*translation.source_ids, EOS]),
            }
            if confidences:
                fields["confidence"] = round(confidences[sentence - 1], JSON_DIGITS)
            if record:  # float64, since a rounded float32 is written with more digits
                fields["attention"] = record.attention["cross"].astype("float64").round(JSON_DIGITS).tolist()
            yield f"{json.dumps(fields, ensure_ascii=False)}\n"


def _record(
    run: "TrainedRun", sources: Sequence[str], n_bests: Sequence[Sequence["Translation"]]
) -> Iterator["Record"]:
    """Yields a record with the cross-attention of each translation.

    Args:
        run: the run.
        sources: the source sentences.
        n_bests: the n-best list of each source sentence. The records come in the order of these lists.
    """
    from ..inspection.recorder import pair_translations  # not at the top: it imports TensorFlow

    repeated = [source for source, n_best in zip(sources, n_bests, strict=True) for _ in n_best]
    translations = list(chain.from_iterable(n_bests))
    return run.recorder(["cross"]).record(pair_translations(repeated, None, translations, run.config.decoding.kind))


def one_line(text: str) -> str:
    """Returns a text with a space for each line feed and carriage return, so that it takes one line of the output."""
    return text.replace("\n", " ").replace("\r", " ")
