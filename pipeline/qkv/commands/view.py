"""Writes a page with the attention of several runs, or of one run over its training: `qkv view runs/a runs/b`."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InputError
from ..files.atomic import write_output
from ..files.run_directory import EvaluationDirectory, RunDirectory, find_evaluation, inputs_of
from ..files.written import digest_of_folders, refuse_input, refuse_other_file
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
        help="show how the attention of one run on its probes changed during training, with a slider over validations",
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
    """Reads the archives, writes the page, and prints its name."""
    options = make_parser().parse_args(arguments)
    root = options.runs[0]
    if options.over_training and len(options.runs) > 1:
        raise InputError(f"--over_training: expected one run, found {len(options.runs)}")
    from ..evaluation.systems import read_page_facts
    from ..inspection.archive import stages_of_training
    from ..inspection.viewer.page import file_name, name_page, viewer_page

    if options.over_training:
        run = RunDirectory.open(root)
        title = root.absolute().name
        folders = [run.probes]
        inputs = run.inputs
    else:
        evaluations = [find_evaluation(path, options.set) for path in options.runs]
        names, title = name_page(_name_all(evaluations))
        folders = [evaluation.root for _, evaluation in evaluations]
        inputs = inputs_of(evaluations)
    origin = digest_of_folders(folders)
    output = options.output
    if output is None:
        output = Path(file_name(f"{title}, over training" if options.over_training else title))
        refuse_other_file(output, origin, "a page of these evaluations")
    else:
        refuse_input(output, inputs, "--output")
    if options.over_training:
        runs = stages_of_training(root, read_page_facts(run, None))
    else:
        runs = [
            _read_run(name, run, evaluation, options.sentences)
            for name, (run, evaluation) in zip(names, evaluations, strict=True)
        ]
        first_texts, *other_texts = ([sentence["sourceText"] for sentence in run.sentences] for run in runs)
        for path, texts in zip(options.runs[1:], other_texts, strict=True):
            if texts != first_texts:
                raise InputError(f"{path} and {root} have different sentences; compare evaluations of one set")
    write_output(output, viewer_page(title, runs, origin=origin, stages=options.over_training).encode())
    sys.stdout.write(f"{output}\n")


def _name_all(evaluations: list[tuple[RunDirectory | None, EvaluationDirectory]]) -> list[tuple[str, str]]:
    """Returns a pair of names for each evaluation: of its run, and of its set.

    For an archive without a run, the pair is the name of its folder and an empty text. If two folders have equal names,
    the name of the folder above is put before it.
    """
    roots = [evaluation.root.absolute() for _, evaluation in evaluations]
    has_equal_names = len({root.name for root in roots}) < len(roots)
    names = []
    for (run, _), root in zip(evaluations, roots, strict=True):
        if run:
            names.append((run.root.absolute().name, root.name))
        elif has_equal_names:
            names.append((f"{root.parent.name} {root.name}", ""))
        else:
            names.append((root.name, ""))
    return names


def _read_run(name: str, run: RunDirectory | None, evaluation: EvaluationDirectory, sentences: int) -> "ViewerRun":
    """Reads an evaluation for the page: facts about it, scores of all sentences, and attention of the first sentences.

    Args:
        name: the name of the run on the page.
        run: the run; None for an archive without a run.
        evaluation: the folder of the evaluation.
        sentences: the largest number of sentences to read with their attention.
    """
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
    viewer_run = ViewerRun(name, archive.gold or (), scores, facts=facts, sentences_in_set=len(archive), types=types)
    return viewer_run.add_all(archive[i] for i in archive.ids[:sentences])
