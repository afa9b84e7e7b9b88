"""One page of several evaluated runs on the same sentences: `python -m pipeline.view runs/a runs/b`, or `--help`."""

import csv
import sys
from pathlib import Path

import pandas as pd

from pipeline.errors import ArgumentParser, InputError, exit_cleanly
from pipeline.inspection import AttentionArchive
from pipeline.inspection.page import ViewerRun, write_viewer
from pipeline.run_directory import EvaluationDirectory, RunDirectory


def viewer_run(root: Path, name: str, sentences: int) -> ViewerRun:
    """The first sentences of an evaluation.

    Raises:
        InputError: there is none, or it is damaged.
    """
    evaluation: EvaluationDirectory = RunDirectory.open(root).evaluation(name)
    archive = AttentionArchive(evaluation.attention)
    scores: list[float] = []
    if evaluation.translations.is_file():
        try:
            table = pd.read_csv(evaluation.translations, sep="\t", quoting=csv.QUOTE_NONE, keep_default_na=False)
            scores = table["sentence_bleu"].astype(float).tolist() if "sentence_bleu" in table else []
        except (ValueError, OSError) as error:
            raise InputError(f"{evaluation.translations}: not the table that evaluate.py writes: {error}") from None
    run = ViewerRun(root.name, scores=scores)
    return run.add_all(archive[i] for i in archive.ids[:sentences])


@exit_cleanly
def main(arguments: list[str]) -> None:
    """Reads the archives, writes the page."""
    parser = ArgumentParser(
        prog="python -m pipeline.view",
        description="Writes one page that shows the attention of several evaluated runs on the same sentences side by "
        "side. evaluate.py writes the page of one run itself: RUN/evaluations/SET/viewer.html.",
    )
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="folder of an evaluated run")
    parser.add_argument("--set", default="test", metavar="NAME", help="which evaluation (default: test)")
    parser.add_argument("--output", type=Path, default=Path("viewer.html"), metavar="FILE", help="default: viewer.html")
    parser.add_argument("--sentences", type=int, default=1000, metavar="N", help="the first so many (default: 1000)")
    options = parser.parse_args(arguments)
    if options.sentences < 1:
        raise InputError(f"--sentences: expected at least 1, found {options.sentences}")
    runs = [viewer_run(root, options.set, options.sentences) for root in options.runs]
    for run in runs[1:]:
        if [s["sourceText"] for s in run.sentences] != [s["sourceText"] for s in runs[0].sentences]:
            raise InputError(f"{run.name} and {runs[0].name} are not of the same sentences; compare one set")
    write_viewer(options.output, f"{' and '.join(run.name for run in runs)}, {options.set}", runs)
    sys.stdout.write(f"{options.output}\n")


if __name__ == "__main__":
    sys.exit(main(None))
