"""Compares evaluated runs: `qkv compare runs/a runs/b ...`, or `--help`."""

import argparse
import sys
from pathlib import Path

from ..errors import InputError
from ..files.atomic import write_output
from ..files.run_directory import find_evaluation, inputs_of
from ..files.written import refuse_input
from .cli import EVALUATED_HELP, ArgumentParser, add_set_option, exit_cleanly, file_to_write

COMPARE_SAMPLES = 1000  # the number of resamples in the bootstrap and in approximate randomisation


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    parser = ArgumentParser(
        "compare",
        description="Compares evaluated runs. The table has BLEU and chrF (paired bootstrap) and the alignment error "
        "rate (approximate randomisation), with 95 % confidence intervals and p-values against the first run, then "
        "loss, search, seed, parameters, updates and minutes of training. Below the table are the measures of heads, "
        "if the evaluations have them, and means of runs that differ only in their seed. Attention archives without a "
        "run are compared by the values that they have.",
    )
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help=EVALUATED_HELP)
    add_set_option(parser)
    parser.add_argument(
        "--heads",
        action="store_true",
        help="compare each head too, matched to a head of the first run, with p-values corrected by Holm's method",
    )
    parser.add_argument("--csv", type=file_to_write, metavar="FILE", help="write the table to this CSV file too")
    parser.add_argument(
        "--fail_if_worse",
        action="store_true",
        help="end with status 1 if the BLEU or chrF of a run is lower than the first run's, with p below 0.05",
    )
    return parser


@exit_cleanly
def main(arguments: list[str]) -> int:
    """Reads the evaluations, compares them, and prints the table.

    Returns the exit status: 1 if `--fail_if_worse` is given and a run is worse than the first, else 0.
    """
    options = make_parser().parse_args(arguments)
    if len(options.runs) < 2:
        raise InputError("expected at least two runs to compare, found one; see --help")
    if options.csv:
        refuse_input(options.csv, inputs_of(find_evaluation(path, options.set) for path in options.runs), "--csv")
    from ..evaluation.comparison import as_text, compare, compare_all_measures, find_worse, means_over_seeds
    from ..evaluation.measure_comparison import compare_faithfulness, compare_heads
    from ..evaluation.systems import find_system, match_to_first
    from ..evaluation.tables import csv_of

    systems = [find_system(path, options.set) for path in options.runs]
    table, alignment_notes = compare(systems, COMPARE_SAMPLES)
    note = "; p against the first" if "BLEU" in table or table["AER p"].notna().any() else ""
    sys.stdout.write(f"{len(systems[0].table)} sentences{note}\n\n{as_text(table)}\n")
    for line in [*alignment_notes, *means_over_seeds(systems, table)]:
        sys.stdout.write(f"\n{line}\n")
    blocks = compare_all_measures(systems, COMPARE_SAMPLES)
    if options.heads:
        blocks += compare_heads(systems, match_to_first(systems), COMPARE_SAMPLES)
    for block in [*blocks, *compare_faithfulness(systems, COMPARE_SAMPLES)]:
        sys.stdout.write(f"\n{block}\n")
    if options.csv:
        write_output(options.csv, csv_of(table))
    if not options.fail_if_worse:
        return 0
    if "BLEU" not in table:
        raise InputError("--fail_if_worse: these are archives over given targets, which have no scores; leave it out")
    messages = find_worse(table)
    for message in messages:
        sys.stderr.write(f"{message}\n")
    return 1 if messages else 0
