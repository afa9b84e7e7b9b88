"""One page of several runs, or of one as it trained: `python -m pipeline.view runs/a runs/b`, or `--help`."""

import sys
from pathlib import Path

from pipeline.errors import ArgumentParser, InputError, exit_cleanly
from pipeline.native import loading_tensorflow


@exit_cleanly
def main(arguments: list[str]) -> None:
    """Reads the archives, writes the page."""
    parser = ArgumentParser(
        prog="python -m pipeline.view",
        description="Writes one page that shows the attention of several evaluated runs on the same sentences side by "
        "side. evaluate.py writes the page of one run itself: RUN/evaluations/SET/viewer.html.",
    )
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="folder of an evaluated run")
    parser.add_argument(
        "--over_training",
        action="store_true",
        help="show one run's probes as they were at its validations, over their references",
    )
    parser.add_argument("--set", default="test", metavar="NAME", help="which evaluation (default: test)")
    parser.add_argument("--output", type=Path, default=Path("viewer.html"), metavar="FILE", help="default: viewer.html")
    parser.add_argument("--sentences", type=int, default=1000, metavar="N", help="the first so many (default: 1000)")
    options = parser.parse_args(arguments)
    if options.sentences < 1:
        raise InputError(f"--sentences: expected at least 1, found {options.sentences}")
    with loading_tensorflow():
        from pipeline.evaluation.viewer import stages_of_training, viewer_run
        from pipeline.inspection.page import write_viewer

    if options.over_training:
        if len(options.runs) > 1:
            raise InputError("--over_training shows one run, found several")
        write_viewer(options.output, f"{options.runs[0].name}, over training", stages_of_training(options.runs[0]))
        sys.stdout.write(f"{options.output}\n")
        return
    runs = [viewer_run(root, options.set, options.sentences) for root in options.runs]
    for run in runs[1:]:
        if [s["sourceText"] for s in run.sentences] != [s["sourceText"] for s in runs[0].sentences]:
            raise InputError(f"{run.name} and {runs[0].name} are not of the same sentences; compare one set")
    write_viewer(options.output, f"{' and '.join(run.name for run in runs)}, {options.set}", runs)
    sys.stdout.write(f"{options.output}\n")


if __name__ == "__main__":
    sys.exit(main(None))
