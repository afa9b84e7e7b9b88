"""Draws the attention of a sentence: `qkv draw RUN --sentence 7 --output picture.svg`."""

import argparse
import sys
from pathlib import Path

from ..config.choices import describe_names
from ..config.choices.inspection import LABEL_SIDES, PICTURE_SUFFIXES, SITES, site_name
from ..errors import InputError
from ..files.run_directory import EvaluationDirectory, RunDirectory, find_evaluation
from ..files.written import digest_of_folders, refuse_other_file
from .cli import EVALUATED_HELP, ArgumentParser, add_set_option, exit_cleanly, file_to_write, whole_number

LARGEST_NUMBER = 1_000_000_000  # the largest number that the options allow


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    parser = ArgumentParser(
        "draw",
        description="Draws the attention of one layer on a sentence of an evaluated run as a heat map, with a panel "
        "for each head, for papers and slides.",
    )
    parser.add_argument("evaluated", type=Path, metavar="RUN", help=EVALUATED_HELP)
    parser.add_argument(
        "--sentence",
        type=whole_number(0, LARGEST_NUMBER),
        required=True,
        metavar="N",
        help="draw this sentence, counted from 0",
    )
    add_set_option(parser)
    parser.add_argument(
        "--site",
        type=site_name,
        choices=list(SITES),
        default="cross",
        help=f"draw this attention (default: cross). {describe_names(SITES)}",
    )
    parser.add_argument(
        "--layer", type=whole_number(0, LARGEST_NUMBER), default=0, help="draw this layer, counted from 0 (default: 0)"
    )
    parser.add_argument(
        "--head",
        type=whole_number(0, LARGEST_NUMBER),
        help="draw only this head, counted from 0 (default: all, side by side)",
    )
    parser.add_argument(
        "--side",
        choices=list(LABEL_SIDES),
        default="output",
        help=f"label the rows by these target tokens (default: output). {describe_names(LABEL_SIDES)}",
    )
    parser.add_argument(
        "--output",
        type=file_to_write,
        metavar="FILE",
        help="write this .png, .svg or .pdf file (default: a name such as demo_test_7_cross_layer_0.png)",
    )
    return parser


@exit_cleanly
def main(arguments: list[str]) -> None:
    """Reads the archive, writes the picture, and prints its name."""
    options = make_parser().parse_args(arguments)
    run, evaluation = find_evaluation(options.evaluated, options.set)
    origin = digest_of_folders([evaluation.attention])
    output = options.output
    if output is None:
        output = _picture_path(run, evaluation, options)
        refuse_other_file(output, origin, "a picture of this evaluation")
    if output.suffix not in PICTURE_SUFFIXES:
        raise InputError(f"--output: expected a name that ends in {', '.join(PICTURE_SUFFIXES)}, found {str(output)!r}")
    from ..inspection import AttentionArchive
    from ..inspection.attention_figure import attention_figure
    from ..inspection.heatmap import save_figure

    archive = AttentionArchive(evaluation.attention)
    number = options.sentence
    if number not in archive.ids:
        raise InputError(f"--sentence: {options.evaluated} has {len(archive)} sentences, from 0; found {number}")
    record = archive[number]
    try:
        figure = attention_figure(record, options.site, options.layer, head=options.head, side=options.side)
    except ValueError as error:
        raise InputError(f"{options.evaluated}: {error}") from None
    save_figure(figure, output, origin)
    sys.stdout.write(f"{output}\n")


def _picture_path(run: RunDirectory | None, evaluation: EvaluationDirectory, options: argparse.Namespace) -> Path:
    """Returns the default path of the picture, such as `demo_test_7_cross_layer_0.png`, in the working directory.

    The name has the run, the evaluation, the sentence, the site and the layer; then `--head` and `--side`, unless they
    have their defaults.
    """
    head = "" if options.head is None else f"_head_{options.head}"
    side = "" if options.side == "output" else f"_{options.side}"
    name = f"{run.root.absolute().name}_{evaluation.root.name}" if run else evaluation.root.absolute().name
    return Path(f"{name}_{options.sentence}_{options.site}_layer_{options.layer}{head}{side}.png")
