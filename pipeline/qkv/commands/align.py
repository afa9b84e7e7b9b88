"""Aligns the words of a parallel text: `qkv align RUN [REVERSE_RUN] --source FILE --target FILE`.

With `--stdin`, it aligns the pairs of standard input as they come.
"""

import argparse
import logging
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from ..config.choices import describe_names
from ..config.choices.inspection import EXTRACTIONS, MEAN_WEIGHTS, PROBABLE, SITES, SYMMETRISATIONS
from ..config.choices.text import DATA_SETS
from ..config.run import load_started_run
from ..errors import InputError
from ..text.lines.stream import ArrivingLines
from . import cli

if TYPE_CHECKING:
    from ..alignment.aligned_text import AlignedText
    from ..alignment.linking import Direction

PROGRESS_PAIRS = 10_000  # between two progress messages; takes about a minute
PART_PAIRS = 1024
"""The number of pairs that are aligned together: a multiple of the pairs that a recorder batches together, so that the
batches do not depend on the number of processes."""
PATIENCE_SECONDS = 0.002
"""The time for which pairs of standard input wait for further pairs: a hundredth of a keystroke, but enough for a pipe
that holds many pairs to fill a window."""
COMBINED = {
    MEAN_WEIGHTS: "link each word to the word of the largest mean weight over all runs, and neighbours above 0.4",
    PROBABLE: "link by the probabilities of --probabilities, above the threshold with the fewest errors",
}
"""The symmetrisations that need two runs, with their help texts."""
READOUT_HELP = (
    "LAYER and HEAD are numbers from 0; HEAD may be mean. SIDE is output or input: the target tokens that label the "
    "rows of attention. "
    f"LINKS chooses the linked words (default: target). {describe_names(EXTRACTIONS)}. "
    "SITE chooses the attention that links are read from (default: cross). "
    f"{describe_names({name: site for name, site in SITES.items() if site.aligns})}."
)


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    parser = cli.ArgumentParser(
        "align",
        description="Aligns the words of a parallel text by the cross-attention of a trained run. Writes one line of "
        "links per pair in Pharaoh format: source word-target word, counted from 0. With a run of the opposite "
        "direction, the links of both are symmetrised. Layer, head and label side are those of --at. Without it they "
        "are chosen: on the gold alignments of the run's config; else the head that training guided; else by the "
        "agreement of the two directions; else the mean of the last layer.",
    )
    parser.epilog = READOUT_HELP
    parser.add_argument("run", type=cli.run_folder, metavar="RUN", help="folder of a run from source to target")
    parser.add_argument(
        "reverse", type=cli.run_folder, nargs="?", metavar="REVERSE_RUN", help="folder of a run from target to source"
    )
    parser.add_argument(
        "--more_runs",
        type=cli.run_folder,
        nargs="+",
        default=[],
        metavar="RUN",
        help=f"average the attention of these runs too, of either direction; with --symmetrise {MEAN_WEIGHTS}",
    )
    parser.add_argument(
        "--at",
        metavar="LAYER,HEAD,SIDE[,LINKS[,SITE]]",
        help="read the links of RUN, and of more runs of its direction, here, such as 1,mean,output or 2,0,input; see "
        "below (default: chosen)",
    )
    parser.add_argument(
        "--reverse_at",
        metavar="LAYER,HEAD,SIDE[,LINKS[,SITE]]",
        help="read the links of REVERSE_RUN, and of more runs of its direction, here; see below (default: chosen)",
    )
    parser.add_argument("--source", type=cli.text_file, metavar="FILE", help="align these source sentences, one a line")
    parser.add_argument(
        "--target", type=cli.text_file, metavar="FILE", help="align them with these translations, one a line"
    )
    parser.add_argument(
        "--set", choices=DATA_SETS, help="align this set of RUN's config instead of --source and --target"
    )
    parser.add_argument(
        "--symmetrise",
        choices=(*SYMMETRISATIONS, *COMBINED),
        default=SYMMETRISATIONS[0],
        help=f"combine the links of two directions in this way (default: {SYMMETRISATIONS[0]}). "
        f"{describe_names(COMBINED)}",
    )
    parser.add_argument(
        "--stdin",
        action="store_true",
        help="align the pairs of standard input instead, one a line, as soon as they come: source, tab, target; or "
        "source ||| target",
    )
    cli.add_normalize_option(parser)
    parser.add_argument(
        "--source_words",
        type=cli.text_file,
        metavar="FILE",
        help="for source text without spaces: link the words of FILE, the same sentences with spaces between words "
        "(default: subwords, with two runs characters)",
    )
    parser.add_argument(
        "--target_words",
        type=cli.text_file,
        metavar="FILE",
        help="for target text without spaces: link the words of FILE, the same sentences with spaces between words "
        "(default: subwords, with two runs characters)",
    )
    parser.add_argument(
        "--subwords",
        action="store_true",
        help="link the run's subwords, numbered as in its attention archives, instead of words",
    )
    parser.add_argument(
        "--probabilities",
        action="store_true",
        help="write the probability after each link, as in 0-0:0.93, calibrated on the gold alignments of RUN's "
        "config (inspection.choose_head_on, or else the validation set)",
    )
    cli.add_workers_option(parser)
    return parser


@cli.exit_cleanly
def main(arguments: list[str]) -> None:
    """Reads the text, aligns it, and writes the links to standard output."""
    options = make_parser().parse_args(arguments)
    _check(options)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    # Read while TensorFlow is loaded. Full windows have the same batches as the parts of a file.
    lines = ArrivingLines(sys.stdin.buffer, PART_PAIRS, PATIENCE_SECONDS) if options.stdin else None
    with cli.importing_tensorflow():
        from ..alignment.aligned_text import AlignedText, read_pairs
        from ..alignment.aligner import choose_readouts, choose_readouts_of_stream, link_calibration, load_directions
        from ..alignment.linking import Linking, align_parts
        from ..text.corpora.word_links import format_pharaoh_line

    text = AlignedText([], []) if lines else _read_text(options)
    normalizes = not (options.set or options.no_normalize)  # the sets of a run have its style already
    readouts = options.at, options.reverse_at
    reverse_root = options.reverse and options.reverse.root
    more_roots = [run.root for run in options.more_runs]
    directions = load_directions(text, options.run.root, reverse_root, more_roots, readouts, normalizes)
    if options.symmetrise == MEAN_WEIGHTS:  # the attention of the runs is averaged, not their links
        directions = [direction.without_probabilities() for direction in directions]
    if lines:
        arriving = read_pairs(lines.windows(), "standard input")
        if (first := next(arriving, None)) is None:
            return
        directions = choose_readouts_of_stream(directions, first, options.subwords)
        parts: Iterator[AlignedText] = chain([first], arriving)
    else:
        directions = choose_readouts(directions, options.subwords)
        parts = text.parts(PART_PAIRS)
    calibrated = options.probabilities or options.symmetrise == PROBABLE
    calibration = link_calibration(directions) if calibrated else None
    linking = Linking(options.symmetrise, calibration, options.probabilities)
    pairs = f" of {len(text)} pairs" if text else " pairs"
    number = 0
    for links in align_parts(directions, linking, options.subwords, _checked(parts, directions), options.workers):
        for sentence in links:
            if number and number % PROGRESS_PAIRS == 0:
                logging.info("%d%s", number, pairs)
            sys.stdout.write(format_pharaoh_line(sentence))
            number += 1
        sys.stdout.flush()


def _read_text(options: argparse.Namespace) -> "AlignedText":
    """Returns the text of `--set`, or of `--source` and `--target`."""
    from ..alignment.aligned_text import read_set, with_given_words
    from ..text.corpora.formats import read_parallel_files

    corpus = read_set(options.run, options.set) if options.set else read_parallel_files(options.source, options.target)
    names = str(options.source or "source"), str(options.target or "target")
    return with_given_words(corpus, options.source_words, options.target_words, names)


def _checked(parts: "Iterable[AlignedText]", directions: "Sequence[Direction]") -> "Iterator[AlignedText]":
    """Yields the parts of a text, and logs warnings about text that the runs read in another form."""
    first = 1
    for part in parts:
        for direction in directions:
            direction.warn(part, first)
        first += len(part)
        yield part


def _check(options: argparse.Namespace) -> None:
    """Raises an `InputError` if options contradict each other, or if a run does not support them.

    Call it before TensorFlow is imported, so that the user gets the error at once.
    """
    texts = (options.source or options.target, options.set, options.stdin)
    if sum(map(bool, texts)) != 1 or bool(options.source) != bool(options.target):
        raise InputError("expected a text to align: --source and --target, or --set, or --stdin")
    if options.stdin and (options.source_words or options.target_words):
        raise InputError(
            "--source_words and --target_words are copies of the lines of a file; with --stdin, leave them out, and "
            "send text with spaces between its words"
        )
    if options.subwords and (options.reverse or options.more_runs):
        raise InputError("--subwords needs a single run: each cuts words into other subwords; leave out the others")
    if options.probabilities and options.subwords:
        raise InputError("--probabilities are of links between words, as the gold alignments are; leave out --subwords")
    if options.symmetrise in COMBINED and not (options.reverse or options.more_runs):
        raise InputError(f"--symmetrise {options.symmetrise} combines two runs; give REVERSE_RUN, or leave it out")
    if options.more_runs and (options.symmetrise != MEAN_WEIGHTS or options.probabilities):
        raise InputError(f"--more_runs needs --symmetrise {MEAN_WEIGHTS}, and cannot be used with --probabilities")
    if options.subwords and (options.source_words or options.target_words):
        raise InputError("--subwords and --source_words or --target_words name different words; give one of them")
    from ..alignment.gold import choice_settings
    from ..text.corpora.held_out import with_held_out_files

    for run in filter(None, (options.run, options.reverse, *options.more_runs)):
        if not load_started_run(run.config).model.has_cross_attention:
            raise InputError(f"{run.root}: its model has no cross-attention, and so no links to read")
    if not (options.probabilities or options.symmetrise == PROBABLE):
        return
    choice = choice_settings(with_held_out_files(load_started_run(options.run.config), options.run))
    if choice is None or choice.alignments is None:
        raise InputError(
            f"{options.run.root}: probabilities are calibrated on gold alignments, and its config names none; name "
            "some (inspection.choose_head_on) or leave out --probabilities"
        )
