"""Shows several runs, or the validations of one run, on one page: `qkv view runs/a runs/b`."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InputError
from ..files.atomic import write_output
from ..files.run_directory import EvaluationDirectory, RunDirectory, find_evaluation, inputs_of
from ..files.written import origin_of, refuse_input, refuse_other_file
from .cli import EVALUATED_HELP, ArgumentParser, add_set_option, exit_cleanly, file_to_write, whole_number

if TYPE_CHECKING:
    from ..inspection.viewer.data import ViewerRun


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    parser = ArgumentParser(
        "view",
        description="Writes one HTML page that shows the attention of several evaluated runs or attention archives on "
        "the same sentences, side by side. The page of a single run is written by evaluate.py: "
        "RUN/evaluations/SET/viewer.html.",
    )
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help=EVALUATED_HELP)
    parser.add_argument(
        "--over_training",
        action="store_true",
        help="show with a slider how one run's attention over its probes changed from validation to validation",
    )
    add_set_option(parser)
    parser.add_argument(
        "--output",
        type=file_to_write,
        metavar="FILE",
        help="write this page (default: a name such as demo_and_narrow_test.html)",
    )
    parser.add_argument(
        "--sentences",
        type=whole_number(1, 1_000_000),
        default=1000,
        metavar="N",
        help="show the first N sentences (default: 1000)",
    )
    return parser


@exit_cleanly
def main(arguments: list[str]) -> None:
    """Reads the archives, writes the page."""
    options = make_parser().parse_args(arguments)
    root = options.runs[0]
    if options.over_training and len(options.runs) > 1:
        raise InputError(f"--over_training: expected one run, found {len(options.runs)}")
    from ..evaluation.systems import read_page_facts
    from ..inspection.archive import stages_of_training
    from ..inspection.viewer.page import file_name, name_page, viewer_page

    if options.over_training:
        run = RunDirectory.open(root)
        title = f"{root.absolute().name}, over training"
        folders, inputs = [run.probes], run.inputs
    else:
        found = [find_evaluation(path, options.set) for path in options.runs]
        names, title = name_page(_name_all(found))
        folders = [evaluation.root for _, evaluation in found]
        inputs = inputs_of(found)
    output, origin = options.output, origin_of(folders)
    if output is None:
        refuse_other_file(output := Path(file_name(title)), origin, "a page of these evaluations")
    else:
        refuse_input(output, inputs, "--output")
    if options.over_training:
        runs = stages_of_training(root, read_page_facts(run, None))
    else:
        runs = [_evaluated(name, *one, options.sentences) for name, one in zip(names, found, strict=True)]
        first, *others = ([sentence["sourceText"] for sentence in run.sentences] for run in runs)
        for path, texts in zip(options.runs[1:], others, strict=True):
            if texts != first:
                raise InputError(f"{path} and {root} have different sentences; compare evaluations of one set")
    write_output(output, viewer_page(title, runs, origin=origin, stages=options.over_training).encode())
    sys.stdout.write(f"{output}\n")


def _name_all(found: list[tuple[RunDirectory | None, EvaluationDirectory]]) -> list[tuple[str, str]]:
    """Returns the (run, set) of each; archives of equal names are called after the folders that they are in."""
    roots = [evaluation.root.absolute() for _, evaluation in found]
    alike = len({root.name for root in roots}) < len(roots)
    return [
        (run.root.absolute().name, root.name)
        if run
        else (f"{root.parent.name} {root.name}" if alike else root.name, "")
        for (run, _), root in zip(found, roots, strict=True)
    ]


def _evaluated(name: str, run: RunDirectory | None, evaluation: EvaluationDirectory, sentences: int) -> "ViewerRun":
    from ..evaluation.systems import read_page_facts
    from ..evaluation.tables import read_translations
    from ..inspection import AttentionArchive
    from ..inspection.head_types import describe_types, read_head_types
    from ..inspection.viewer.data import ViewerRun

    archive = AttentionArchive(evaluation.attention)
    scores: list[float] = []
    if evaluation.translations.is_file():
        table = read_translations(evaluation.translations)
        scores = table["sentence_bleu"].tolist() if "sentence_bleu" in table else []
    facts = read_page_facts(run, evaluation)
    types = describe_types(read_head_types(evaluation.head_types))
    shown = ViewerRun(name, archive.gold or (), scores, facts=facts, sentences_in_set=len(archive), types=types)
    return shown.add_all(archive[i] for i in archive.ids[:sentences])
