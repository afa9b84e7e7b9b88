"""Aligns the words of a parallel text: `python -m pipeline.align RUN [REVERSE_RUN] --source FILE --target FILE`."""

import argparse
import logging
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .cli import ArgumentParser, exit_cleanly
from .config.names import DATA_SETS, EXTRACTIONS, MEAN_WEIGHTS, PROBABLE, SITES, SYMMETRISATIONS, describe
from .errors import InputError
from .invocation import invocation
from .runtime.import_tensorflow import importing_tensorflow
from .spread import add_workers_option

if TYPE_CHECKING:
    from .text.corpus import Corpus

PROGRESS_PAIRS = 10_000  # about a minute's work
COMBINED = {
    MEAN_WEIGHTS: "by the mean of their weights: each word with the one of the largest mean, and neighbours of links "
    "above 0.4",
    PROBABLE: "by the probability that a link is right, calibrated as for --probabilities on the attention of both: "
    "links above the threshold with the fewest errors",
}
_ALIGNED = {name: site for name, site in SITES.items() if site.aligns}
READOUT_HELP = (
    f"LINKS says which words are linked (default: target). {describe(EXTRACTIONS)}. "
    f"SITE says from which attention links are read (default: cross). {describe(_ALIGNED)}."
)


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    parser = ArgumentParser(
        prog=invocation("align"),
        description="Aligns the words of a parallel text by the cross-attention of a trained run. Writes one line of "
        "links per pair in Pharaoh format: source word-target word, from 0. With a run of the opposite direction the "
        "links of both are symmetrised. Layer, head and label side are those given by --at; without it they are chosen "
        "on the gold alignments that the run's config names, or else by the agreement of the two directions.",
    )
    parser.epilog = READOUT_HELP
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of a run from source to target")
    parser.add_argument(
        "reverse", type=Path, nargs="?", metavar="REVERSE_RUN", help="folder of a run from target to source"
    )
    parser.add_argument("--source", type=Path, metavar="FILE", help="source sentences, one per line")
    parser.add_argument("--target", type=Path, metavar="FILE", help="their translations, one per line")
    parser.add_argument(
        "--set", choices=DATA_SETS, help="align this set of RUN's config instead of --source and --target"
    )
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="write the links to this file (default: standard output)"
    )
    parser.add_argument(
        "--symmetrise",
        choices=(*SYMMETRISATIONS, *COMBINED),
        default=SYMMETRISATIONS[0],
        help=f"how the links of two directions are combined (default: {SYMMETRISATIONS[0]}). {describe(COMBINED)}",
    )
    _add_word_options(parser)
    _add_probability_options(parser)
    add_workers_option(parser)
    for option, meaning in (("at", "RUN"), ("reverse_at", "REVERSE_RUN")):
        parser.add_argument(
            f"--{option}",
            metavar="LAYER,HEAD,SIDE[,LINKS[,SITE]]",
            help=f"where in {meaning} links are read, such as 1,mean,output or 2,0,input; see below",
        )
    return parser


def _add_word_options(parser: argparse.ArgumentParser) -> None:
    for side in ("source", "target"):
        parser.add_argument(
            f"--{side}_words",
            type=Path,
            metavar="FILE",
            help=f"the {side} sentences again, with spaces between words: links are between these words. For text "
            "without spaces; otherwise its subwords count as words, or its characters if there are two runs",
        )
    parser.add_argument(
        "--subwords",
        action="store_true",
        help="link the run's subwords instead of words, numbered as in its attention archives",
    )


def _add_probability_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--probabilities",
        action="store_true",
        help="write the probability that a link is right after it, as in 0-0:0.93. It is calibrated on the gold "
        "alignments that RUN's config names (inspection.choose_head_on, or else the validation set)",
    )
    parser.add_argument(
        "--calibration",
        type=Path,
        metavar="FILE",
        help="take probabilities from the link_calibration.json of an evaluation of RUN, so that no gold alignments "
        "are needed; for a single run, and with --probabilities",
    )


@exit_cleanly
def main(arguments: list[str]) -> None:
    """Reads the text, aligns it, writes the links."""
    options = make_parser().parse_args(arguments)
    _check(options)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    with importing_tensorflow():
        from .alignment.align_pairs import align_in_processes
        from .alignment.aligner import Direction, choose_readouts
        from .alignment.given_words import read_given_words
        from .alignment.link_calibration import link_calibration
        from .alignment.linking import make_linking
        from .text.pharaoh import format_pharaoh_line, write_pharaoh

    corpus = _read_text(options)
    source_words, target_words = (
        read_given_words(path, sentences) if path else None
        for path, sentences in ((options.source_words, corpus.source), (options.target_words, corpus.target))
    )
    forward = Direction.load(options.run, options.at, corpus.source, corpus.target)
    directions = [replace(forward, source_words=source_words, target_words=target_words)]
    if options.reverse:
        reverse = Direction.load(options.reverse, options.reverse_at, corpus.target, corpus.source)
        directions.append(replace(reverse, source_words=target_words, target_words=source_words))
    directions = choose_readouts(directions, options.subwords)
    calibrated = options.probabilities or options.symmetrise == PROBABLE
    calibration = link_calibration(directions, options.calibration) if calibrated else None
    linking = make_linking(options.symmetrise, calibration, options.probabilities)
    links = align_in_processes(directions, linking, options.subwords, options.workers)
    links = _with_progress(links, len(corpus))
    if options.output:
        write_pharaoh(options.output, links)
    else:
        for sentence in links:
            sys.stdout.write(format_pharaoh_line(sentence))


def _check(options: argparse.Namespace) -> None:
    if options.reverse_at and not options.reverse:
        raise InputError("--reverse_at needs REVERSE_RUN, the run whose layer and head it names")
    if bool(options.set) == bool(options.source or options.target) or bool(options.source) != bool(options.target):
        raise InputError("expected a text to align: --source and --target, or --set")
    if options.subwords and options.reverse:
        raise InputError(
            "--subwords needs a single run, since two runs cut words into different subwords; leave out REVERSE_RUN"
        )
    if options.probabilities and options.subwords:
        raise InputError("--probabilities are of links between words, as the gold alignments are; leave out --subwords")
    if options.symmetrise in COMBINED and not options.reverse:
        raise InputError(f"--symmetrise {options.symmetrise} combines two runs; give REVERSE_RUN, or leave it out")
    if options.calibration and (options.reverse or not options.probabilities):
        raise InputError("--calibration needs --probabilities and a single run; leave it out, or REVERSE_RUN")
    if options.subwords and (options.source_words or options.target_words):
        raise InputError("--subwords and --source_words or --target_words name different words; give one of them")


def _read_text(options: argparse.Namespace) -> "Corpus":
    from .config import load_run_config
    from .config.started_run import settings_of_set
    from .run_directory import RunDirectory
    from .text.corpus import read_corpus, read_parallel_files
    from .text.sets import with_held_out_files

    if options.set:
        run = RunDirectory.open(options.run)
        config = with_held_out_files(load_run_config(run.config), run)
        settings = settings_of_set(config, options.set, run.config)
        if config.data.tags and options.set == "train":
            raise InputError(
                f"{run.config}: the corpora of data.train have tags, so their links would be those of other words; "
                "align one corpus at a time with --source and --target, and with decoding.tag in the config of the run"
            )
        return read_corpus(settings)
    return read_parallel_files(options.source, options.target)


def _with_progress(links: Iterable[Any], total: int) -> Iterator[Any]:
    """Passes on items and logs progress."""
    for number, sentence in enumerate(links, 1):
        yield sentence
        if number % PROGRESS_PAIRS == 0:
            logging.info("%d of %d pairs", number, total)


if __name__ == "__main__":
    sys.exit(main(None))
