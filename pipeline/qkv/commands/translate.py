"""Translates standard input line by line: `qkv translate RUN < in.txt > out.txt`."""

import argparse
import json
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, count, islice, repeat, starmap
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from ..runtime.import_tensorflow import importing_tensorflow
from ..runtime.streams import write_result
from ..text.lines.sentences import Paragraph, SentenceSplitter
from ..text.lines.stream import ArrivingLines
from ..text.tokens.special_tokens import EOS
from . import cli

DIGITS = 6  # after the point, of numbers in JSON
END_OF_INPUT = "Ctrl-Z and Enter" if sys.platform == "win32" else "Ctrl-D"

if TYPE_CHECKING:
    from ..decoding.translator import Translation
    from ..inspection.record import Record
    from ..run.trained_run import TrainedRun
    from ..text.tokens.tokenizer import Tokenizer


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    parser = cli.ArgumentParser(
        "translate",
        description="Translates standard input to standard output, one line out for each line in, as soon as it comes. "
        "With --n_best N, writes up to N lines each, in Moses' format: "
        "`number ||| translation ||| LogProbability= value ||| score`. Translations are written as they "
        "are, in UTF-8; on a terminal, control characters are escaped.",
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
        help="translate each sentence of a line by itself, and keep the spaces between them, but not those at the ends "
        "of the line; needs sentencex",
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
    return parser


@cli.exit_cleanly
def main(arguments: list[str]) -> None:
    """Translates standard input, as its lines arrive."""
    options = make_parser().parse_args(arguments)
    config = cli.read_search(options)  # what is wrong is told first
    _check_forms(options)
    if options.attention and not config.model.has_cross_attention:
        raise InputError(f"--attention: the model of {options.run.root} has no cross-attention; leave it out")
    lines = ArrivingLines(sys.stdin.buffer)  # read while TensorFlow is loaded
    with importing_tensorflow():  # not at the top: it imports TensorFlow, and --help must be fast
        from ..run.ensemble import load_runs
        from ..text.phrases.sentence_files import ConstraintFiles

    roots = [run.root for run in (options.run, *options.others)]
    run = load_runs(roots, options.checkpoint).with_config(config)
    longest = run.config.model.max_positions
    given = ConstraintFiles(options.prefix, options.require, options.ban, run.target_tokens, longest)
    run = replace(run, banned=given.banned)
    split = run.splitter if options.split else lambda line: Paragraph([line], [])
    if sys.stdin.buffer.isatty():
        sys.stderr.write(f"type a sentence; {END_OF_INPUT} ends\n")
    typed = run.typed_text("standard input", normalizes=not options.no_normalize)
    being_translated: deque[tuple[list[Paragraph], list[str]]] = deque()  # windows

    def windows() -> Iterator[tuple[Any, ...]]:
        read = count(1)
        for window in lines.windows():
            numbers = list(islice(read, len(window)))
            paragraphs = list(map(split, typed.readable(window, numbers) if options.split else window))
            numbers = [number for one, number in zip(paragraphs, numbers, strict=True) for _ in one.sentences]
            texts, ids = typed.read([sentence for one in paragraphs for sentence in one.sentences], numbers)
            being_translated.append((paragraphs, texts))
            yield ids, *given.take(len(ids))

    written = count()
    processes = cli.make_processes(options, run.config)
    translate = processes.translate if processes else partial(starmap, run.translator.translate_ids)
    for translated in translate(windows()):
        if options.n_best is None:
            translated = [n_best[:1] for n_best in translated]
        if options.detokenize:
            translated = [[replace(one, text=run.detokenize(one.text)) for one in n_best] for n_best in translated]
        paragraphs, texts = being_translated.popleft()
        records = _record(run, texts, translated) if options.attention else repeat(None)
        found = iter(translated)
        for paragraph, number in zip(paragraphs, written, strict=False):
            n_bests = list(islice(found, len(paragraph.sentences)))
            if options.json:
                for line in _json_lines(number, n_bests, run.tokenizer, records):
                    write_result(line)
                    sys.stdout.flush()
            elif options.n_best is None:
                write_result(f"{paragraph.join([one_line(n_best[0].text) for n_best in n_bests])}\n")
            else:
                write_result(format_n_best(number, n_bests[0]))
        sys.stdout.buffer.flush()
    given.check_all_taken()


def _check_forms(options: argparse.Namespace) -> None:
    """Raises an `InputError` if options ask for output that does not go together."""
    if options.attention and not options.json:
        raise InputError("--attention: is a part of JSON; expected --json with it")
    if options.attention and options.others:
        raise InputError("--attention: each run of an ensemble has its own; expected one run")
    if options.split:
        SentenceSplitter("en")  # whose library may be missing
    if options.split and (options.prefix or options.require):
        raise InputError("--split: --prefix and --require have a line for each line; expected none of them with it")
    if options.split and options.n_best and not options.json:
        raise InputError("--split: lines are put together of the best translations; expected --json with --n_best")


def format_n_best(number: int, translations: Sequence["Translation"]) -> str:
    """Returns all translations of a sentence in Moses' format: `number ||| text ||| features ||| score`."""
    lines = []
    for translation in translations:
        text = one_line(translation.text).replace("|||", "| | |")  # the separator of the format
        total = sum(translation.log_probabilities)
        lines.append(f"{number} ||| {text} ||| LogProbability= {total:.6f} ||| {translation.score:.6f}\n")
    return "".join(lines)


def _json_lines(
    number: int, n_bests: Sequence[Sequence["Translation"]], tokenizer: "Tokenizer", records: Iterator["Record | None"]
) -> Iterator[str]:
    """Yields the translations of the sentences of line `number` as JSON on lines, with their records if there are."""
    for sentence, n_best in enumerate(n_bests, 1):
        for rank, (translation, record) in enumerate(zip(n_best, records, strict=False), 1):
            found: dict[str, Any] = {
                "line": number + 1,
                "sentence": sentence,
                "rank": rank,
                "text": translation.text,
                "log_probability": round(sum(translation.log_probabilities), DIGITS),
                "score": round(translation.score, DIGITS),
                "tokens": tokenizer.pieces(translation.ids),
                "source_tokens": tokenizer.pieces([*translation.source_ids, EOS]),
            }
            if record:  # float64, since float32 has digits of no meaning
                found["attention"] = record.attention["cross"].astype("float64").round(DIGITS).tolist()
            yield f"{json.dumps(found, ensure_ascii=False)}\n"


def _record(
    run: "TrainedRun", sources: Sequence[str], n_bests: Sequence[Sequence["Translation"]]
) -> Iterator["Record"]:
    """Yields the attention of the translations of sentences."""
    from ..inspection.recorder import pair_translations  # not at the top: it imports TensorFlow

    repeated = [source for source, n_best in zip(sources, n_bests, strict=True) for _ in n_best]
    translations = list(chain.from_iterable(n_bests))
    return run.recorder(["cross"]).record(pair_translations(repeated, None, translations, run.config.decoding.kind))


def one_line(text: str) -> str:
    """Returns a text without line ends: line i of the output is the translation of line i of the input."""
    return text.replace("\n", " ").replace("\r", " ")
