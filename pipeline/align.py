"""Aligns the words of a parallel text: `python -m pipeline.align RUN [REVERSE_RUN] --source FILE --target FILE`."""

import argparse
import logging
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from .cli import ArgumentParser, exit_cleanly
from .config.names import SYMMETRISATIONS
from .errors import InputError
from .runtime.import_tensorflow import importing_tensorflow

PROGRESS_PAIRS = 10_000  # a minute's work, more or less


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = ArgumentParser(
        prog=f"python -m {__package__}.align",
        description="Aligns the words of a parallel text by a trained run's cross-attention, and writes links in "
        "Pharaoh format, source-target from 0, a line for each pair. With a run of the opposite direction both are "
        "symmetrised. Layer, head and label side are those given, or else chosen on the gold alignments that the run's "
        "config names, or else those on which the two directions agree most.",
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of a run from source to target")
    parser.add_argument("reverse", type=Path, nargs="?", metavar="REVERSE_RUN", help="one from target to source")
    parser.add_argument("--source", type=Path, metavar="FILE", help="sentences, one a line")
    parser.add_argument("--target", type=Path, metavar="FILE", help="their translations, one a line")
    parser.add_argument(
        "--set", choices=("train", "validation", "test"), help="in place of files: which set of RUN's config"
    )
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="where links are written (default: standard output)"
    )
    parser.add_argument(
        "--symmetrise",
        choices=SYMMETRISATIONS,
        default=SYMMETRISATIONS[0],
        help=f"how two directions become one (default: {SYMMETRISATIONS[0]})",
    )
    parser.add_argument(
        "--subwords",
        action="store_true",
        help="link the run's subwords, as its attention archives list them, in place of words",
    )
    for option, meaning in (("at", "RUN"), ("reverse_at", "REVERSE_RUN")):
        parser.add_argument(
            f"--{option}",
            metavar="LAYER,HEAD,SIDE[,LINKS[,SITE]]",
            help=f"where {meaning} is read, such as 1,mean,output or 2,0,input; LINKS: for each target word the source "
            "word attended to most (target, the default), the other way round (source), where both agree (mutual), "
            "these and what touches them (grow-diag; if they have any weight: grow-diag-over-0.02), or every "
            "pair with more than so much weight (over-0.1 to over-0.4); SITE: cross; norms, the weights times the "
            "length of what they weigh; or gradients, gradient times input",
        )
    return parser


@exit_cleanly
def main(arguments: list[str]) -> None:
    """Reads, aligns, writes."""
    options = make_parser().parse_args(arguments)
    if options.reverse_at and not options.reverse:
        raise InputError("--reverse_at needs REVERSE_RUN, the run that it is of")
    if bool(options.set) == bool(options.source or options.target) or bool(options.source) != bool(options.target):
        raise InputError("expected the text that is aligned: --source and --target, or --set")
    if options.subwords and options.reverse:
        raise InputError("--subwords: two runs cut words into different subwords; leave out REVERSE_RUN")
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    with importing_tensorflow():
        from .alignment import symmetrise
        from .alignment.aligner import Direction, align
        from .config import load_run_config
        from .run_directory import RunDirectory
        from .text.corpus import read_corpus, read_parallel_files
        from .text.pharaoh import format_pharaoh_line, write_pharaoh
        from .trained_run import settings_of_set

    if options.set:
        path = RunDirectory.open(options.run).config
        corpus = read_corpus(settings_of_set(load_run_config(path), options.set, path))
    else:
        corpus = read_parallel_files(options.source, options.target)
    directions = [Direction.load(options.run, options.at, corpus.source, corpus.target)]
    if options.reverse:
        directions.append(Direction.load(options.reverse, options.reverse_at, corpus.target, corpus.source))
    links = align(directions, symmetrise.SYMMETRISATIONS[options.symmetrise], options.subwords)
    links = _counted(links, len(corpus))
    if options.output:
        write_pharaoh(options.output, links)
    else:
        for sentence in links:
            sys.stdout.write(format_pharaoh_line(sentence))


def _counted(links: Iterable[Any], total: int) -> Iterator[Any]:
    """The same, and now and then says how many there were."""
    for number, sentence in enumerate(links, 1):
        yield sentence
        if number % PROGRESS_PAIRS == 0:
            logging.info("%d of %d pairs", number, total)


if __name__ == "__main__":
    sys.exit(main(None))
