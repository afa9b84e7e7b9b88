"""The command; `tests/benchmarks/gpu/__init__.py` says what it measures."""

import argparse
import shlex
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from tests.benchmarks import gpu
from tests.benchmarks.contest import ROOT
from tests.benchmarks.gpu.demo import ProcessorDemo, run_archive, run_demo
from tests.benchmarks.gpu.memory import run_memory
from tests.benchmarks.gpu.page import write_page
from tests.benchmarks.gpu.search import run_search
from tests.benchmarks.gpu.sitting import Sitting, describe_machine
from tests.benchmarks.gpu.text import Text, find_text
from tests.benchmarks.gpu.training import run_first_update, run_peers, run_products, run_several_gpus, run_training

STAGES: dict[str, Callable[..., None]] = {
    "products": run_products,
    "training": run_training,
    "first_update": run_first_update,
    "demo": run_demo,
    "archive": run_archive,
    "search": run_search,
    "memory": run_memory,
    "peers": run_peers,
    "several_gpus": run_several_gpus,
}


def measure(sitting: Sitting, stages: list[str], search_run: Path | None) -> str:
    """Takes the measurements of stages, and returns the page of all results in the sitting's folder.

    Ctrl-C and SIGTERM end the measurements: the page has what there is.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    text: Text = find_text(sitting.folder)
    facts = {**describe_machine(), "text": text.description, "sizes": "tiny" if sitting.tiny else "as named"}
    processor = ProcessorDemo(sitting) if "demo" in stages else None
    arguments = {"search": (search_run,), "demo": (processor,)}
    with suppress(KeyboardInterrupt):
        for stage in (name for name in STAGES if name in stages):
            STAGES[stage](sitting, text, *arguments.get(stage, ()))
    if processor is not None:
        processor.keep()
    sitting.end()
    page = write_page(sitting.results, facts)
    (sitting.folder / "results.md").write_text(page, encoding="utf-8")
    return page


def main() -> None:
    """Measures, and prints the page last."""
    form = partial(argparse.RawDescriptionHelpFormatter, width=120)
    parser = argparse.ArgumentParser("python -m tests.benchmarks.gpu", description=gpu.__doc__, formatter_class=form)
    parser.add_argument("--minutes", type=float, default=10, help="how long this call may take (default: 10)")
    parser.add_argument("--folder", type=Path, default=ROOT / "runs/gpu", help="of the results (default: runs/gpu)")
    parser.add_argument("--only", nargs="+", choices=STAGES, default=[*STAGES], metavar="STAGE", help="some stages")
    parser.add_argument("--search_run", type=Path, metavar="RUN", help="search with this run's weights")
    parser.add_argument("--peers_python", default=sys.executable, metavar="COMMAND", help="has PyTorch and JAX")
    parser.add_argument("--tiny", action="store_true", help="try the script on a processor")
    options = parser.parse_args()
    sitting = Sitting(options.folder.resolve(), options.minutes, options.tiny, shlex.split(options.peers_python))
    print(measure(sitting, options.only, options.search_run))


if __name__ == "__main__":
    main()
