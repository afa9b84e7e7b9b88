"""Aligns the words of a parallel text: `qkv align RUN [REVERSE_RUN] --source FILE --target FILE`."""

import argparse
import logging
import sys

from ..config.choices import describe
from ..config.choices.inspection import EXTRACTIONS, MEAN_WEIGHTS, PROBABLE, SITES, SYMMETRISATIONS
from ..config.choices.text import DATA_SETS
from ..config.run import load_started_run
from ..errors import InputError
from ..runtime.import_tensorflow import importing_tensorflow
from . import cli

PROGRESS_PAIRS = 10_000  # about a minute's work
CHECKED_PAIRS = 1000
COMBINED = {
    MEAN_WEIGHTS: "link each word to the word of the largest mean weight over all runs, and neighbours above 0.4",
    PROBABLE: "link by the probabilities of --probabilities, above the threshold with the fewest errors",
}
_ALIGNED = {name: site for name, site in SITES.items() if site.aligns}
READOUT_HELP = (
    f"LINKS says which words are linked (default: target). {describe(EXTRACTIONS)}. "
    f"SITE says from which attention links are read (default: cross). {describe(_ALIGNED)}."
)


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    parser = cli.ArgumentParser(
        "align",
        description="Aligns the words of a parallel text by the cross-attention of a trained run. Writes one line of "
        "links per pair in Pharaoh format: source word-target word, from 0. The links of a run and one of the opposite "
        "direction are symmetrised. Layer, head and label side are given by --at, or else chosen: on the gold "
        "alignments of the run's config, by the agreement of the two directions, or else the mean of the last layer.",
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
        help=f"count the attention of these runs too, of either direction; with --symmetrise {MEAN_WEIGHTS}",
    )
    for option, meaning in (("at", "RUN"), ("reverse_at", "REVERSE_RUN")):
        parser.add_argument(
            f"--{option}",
            metavar="LAYER,HEAD,SIDE[,LINKS[,SITE]]",
            help=f"read the links of {meaning}, and of further runs of its direction, here, such as at 1,mean,output "
            "or 2,0,input; see below (default: chosen)",
        )
    parser.add_argument("--source", type=cli.text_file, metavar="FILE", help="align these source sentences, one a line")
    parser.add_argument("--target", type=cli.text_file, metavar="FILE", help="with these translations, one a line")
    parser.add_argument(
        "--set", choices=DATA_SETS, help="align this set of RUN's config instead of --source and --target"
    )
    parser.add_argument(
        "--symmetrise",
        choices=(*SYMMETRISATIONS, *COMBINED),
        default=SYMMETRISATIONS[0],
        help=f"combine the links of two directions in this way (default: {SYMMETRISATIONS[0]}). {describe(COMBINED)}",
    )
    cli.add_normalize_option(parser)
    for side in ("source", "target"):
        parser.add_argument(
            f"--{side}_words",
            type=cli.text_file,
            metavar="FILE",
            help=f"link the words of FILE: the {side} sentences with spaces between words, for text without spaces "
            "(default: its subwords, or with two runs its characters)",
        )
    parser.add_argument(
        "--subwords",
        action="store_true",
        help="link the run's subwords, numbered as in its attention archives, instead of words",
    )
    parser.add_argument(
        "--probabilities",
        action="store_true",
        help="write after each link how probable it is, as in 0-0:0.93, calibrated on the gold alignments of RUN's "
        "config (inspection.choose_head_on, or else the validation set)",
    )
    cli.add_workers_option(parser)
    return parser


@cli.exit_cleanly
def main(arguments: list[str]) -> None:
    """Reads the text, aligns it, writes the links."""
    options = make_parser().parse_args(arguments)
    _check(options)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    with importing_tensorflow():
        from ..alignment.aligned_text import read_set, with_given_words
        from ..alignment.aligner import choose_readouts, link_calibration, load_directions
        from ..alignment.linking import Linking, align_in_processes
        from ..text.corpora.formats import read_parallel_files
        from ..text.corpora.word_links import format_pharaoh_line

    corpus = read_set(options.run, options.set) if options.set else read_parallel_files(options.source, options.target)
    names = str(options.source or "source"), str(options.target or "target")
    text = with_given_words(corpus, options.source_words, options.target_words, names)
    normalizes = not (options.set or options.no_normalize)  # a set of the run's is as it reads it
    places = options.at, options.reverse_at
    more = [run.root for run in options.more_runs]
    runs = load_directions(text, options.run.root, options.reverse and options.reverse.root, more, places, normalizes)
    if options.symmetrise == MEAN_WEIGHTS:  # no run's own links count
        runs = [run.without_probabilities() for run in runs]
    directions = choose_readouts(runs, options.subwords)
    calibrated = options.probabilities or options.symmetrise == PROBABLE
    calibration = link_calibration(directions) if calibrated else None
    linking = Linking(options.symmetrise, calibration, options.probabilities)
    links = align_in_processes(directions, linking, options.subwords, options.workers)
    for number, sentence in enumerate(links):
        if number % CHECKED_PAIRS == 0:
            for direction in directions:  # of what is not read as it is written
                direction.warn(number, number + CHECKED_PAIRS)
        if number and number % PROGRESS_PAIRS == 0:
            logging.info("%d of %d pairs", number, len(text))
        sys.stdout.write(format_pharaoh_line(sentence))


def _check(options: argparse.Namespace) -> None:
    """Raises an `InputError` for what the options or the settings of the runs rule out, before TensorFlow is loaded."""
    if bool(options.set) == bool(options.source or options.target) or bool(options.source) != bool(options.target):
        raise InputError("expected a text to align: --source and --target, or --set")
    if options.subwords and (options.reverse or options.more_runs):
        raise InputError("--subwords needs a single run: each cuts words into other subwords; leave out the others")
    if options.probabilities and options.subwords:
        raise InputError("--probabilities are of links between words, as the gold alignments are; leave out --subwords")
    if options.symmetrise in COMBINED and not (options.reverse or options.more_runs):
        raise InputError(f"--symmetrise {options.symmetrise} combines two runs; give REVERSE_RUN, or leave it out")
    if options.more_runs and (options.symmetrise != MEAN_WEIGHTS or options.probabilities):
        raise InputError(f"--more_runs needs --symmetrise {MEAN_WEIGHTS}, and no --probabilities")
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
