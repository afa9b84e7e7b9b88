"""Measures an attention archive: `qkv measure ARCHIVE`, or `--help`."""

import argparse
import sys
from pathlib import Path

from ..errors import InputError, invocation
from ..files.run_directory import EvaluationDirectory, find_evaluation
from . import cli


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    parser = cli.ArgumentParser(
        "measure",
        description="Measures an attention archive of any program (docs/use/archive.md), as evaluate.py measures that "
        "of a run. Writes measures of each layer and head (heads.csv, head_types.csv) and of each sentence "
        "(sentences.csv), and BLEU and chrF of translations (metrics.json). With gold alignments, it also writes the "
        "error rate of each layer, head and side (head_alignment.csv) and the links of the best (alignments.pharaoh).",
    )
    parser.add_argument("archive", type=Path, metavar="ARCHIVE", help="folder of an attention archive")
    cli.add_links_options(parser, " (default: those in the archive, if it has some)")
    parser.add_argument(
        "--choose_on",
        type=Path,
        metavar="ARCHIVE",
        help="choose layer, head and side on this archive of the same model, which has gold alignments of other "
        "sentences (default: on ARCHIVE itself, which is optimistic)",
    )
    cli.add_bleu_option(parser, default="13a")
    parser.add_argument(
        "--folder",
        type=cli.folder_to_write,
        metavar="FOLDER",
        help="write the files to this folder (default: into ARCHIVE)",
    )
    return parser


@cli.exit_cleanly
def main(arguments: list[str]) -> None:
    """Reads the archive, measures it, writes the files, and prints a short table."""
    options = make_parser().parse_args(arguments)
    cli.check_links_options(options)
    choice_evaluation = options.choose_on and find_evaluation(options.choose_on, "test")[1]
    run, evaluation = find_evaluation(options.archive, "test")
    if run is not None and options.folder is None:
        raise InputError(
            f"{evaluation.root}: measured already by evaluate.py, into the same files; name another folder: --folder"
        )
    folder = EvaluationDirectory(options.folder or evaluation.root)
    cli.log_to_output()
    from ..evaluation.archive_scores import archive_metrics, check_archive_files, score_alignments, write_archive_files
    from ..evaluation.printed_table import print_rows
    from ..inspection import AttentionArchive
    from ..metrics.bleu import check_bleu_tokenizer
    from ..text.corpora.word_links import read_pharaoh

    tokenizer = options.bleu_tokenizer or "13a"
    check_bleu_tokenizer(tokenizer, "--bleu_tokenizer")
    check_archive_files(folder)
    archive = AttentionArchive(evaluation.attention)
    gold = archive.gold
    if options.alignments:
        gold = read_pharaoh(options.alignments, first_index=options.first_index)
    choose_on = None
    if choice_evaluation:
        choose_on = AttentionArchive(choice_evaluation.attention), str(options.choose_on)
    name = evaluation.root.absolute().name
    readouts = score_alignments(archive, name, gold, choose_on, options.alignments, options.first_index)
    metrics = archive_metrics(archive, name, readouts, tokenizer)
    write_archive_files(archive, gold, readouts, metrics, folder)
    print_rows(metrics)
    sys.stdout.write(f"results: {folder.root}\nnext:\n  {invocation('view', options.archive)}\n")
