"""Shows several runs, or the validations of one run, on one page: `python -m pipeline.view runs/a runs/b`, or
`--help`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from .cli import ArgumentParser, add_set_option, exit_cleanly
from .errors import InputError
from .invocation import invocation
from .run_directory import RunDirectory

if TYPE_CHECKING:
    from .inspection.viewer.page import ViewerRun


@exit_cleanly
def main(arguments: list[str]) -> None:
    """Reads the archives, writes the page."""
    parser = ArgumentParser(
        prog=invocation("view"),
        description="Writes one HTML page that shows the attention of several evaluated runs on the same sentences, "
        "side by side. The page of a single run is written by evaluate.py: RUN/evaluations/SET/viewer.html.",
    )
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="folder of an evaluated run")
    parser.add_argument(
        "--over_training",
        action="store_true",
        help="show how the attention of one run over its probes' references changed from validation to validation",
    )
    add_set_option(parser)
    parser.add_argument(
        "--output", type=Path, default=Path("viewer.html"), metavar="FILE", help="the page (default: viewer.html)"
    )
    parser.add_argument(
        "--sentences", type=int, default=1000, metavar="N", help="show the first N sentences (default: 1000)"
    )
    options = parser.parse_args(arguments)
    if options.sentences < 1:
        raise InputError(f"--sentences: expected at least 1, found {options.sentences}")
    from .inspection.viewer.page import write_viewer
    from .inspection.viewer.stages import stages_of_training

    if options.over_training:
        if len(options.runs) > 1:
            raise InputError(f"--over_training: expected one run, found {len(options.runs)}")
        write_viewer(options.output, f"{options.runs[0].name}, over training", stages_of_training(options.runs[0]))
        sys.stdout.write(f"{options.output}\n")
        return
    runs = [_evaluated(root, options.set, options.sentences) for root in options.runs]
    for run in runs[1:]:
        if [s["sourceText"] for s in run.sentences] != [s["sourceText"] for s in runs[0].sentences]:
            raise InputError(f"{run.name} and {runs[0].name} have different sentences; compare evaluations of one set")
    write_viewer(options.output, f"{' and '.join(run.name for run in runs)}, {options.set}", runs)
    sys.stdout.write(f"{options.output}\n")


def _evaluated(root: Path, name: str, sentences: int) -> "ViewerRun":
    """Reads the first sentences of an evaluation.

    Raises:
        InputError: there is none, or it is damaged.
    """
    from .evaluation.translations import read_translations
    from .inspection import AttentionArchive
    from .inspection.viewer.page import ViewerRun

    evaluation = RunDirectory.open(root).evaluation(name)
    archive = AttentionArchive(evaluation.attention)
    scores: list[float] = []
    if evaluation.translations.is_file():
        table = read_translations(evaluation.translations)
        scores = table["sentence_bleu"].tolist() if "sentence_bleu" in table else []
    return ViewerRun(root.name, scores=scores).add_all(archive[i] for i in archive.ids[:sentences])


if __name__ == "__main__":
    sys.exit(main(None))
