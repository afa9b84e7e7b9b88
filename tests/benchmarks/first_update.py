"""Times what a person waits for who starts a training: from the start to the first update.

    python -m tests.benchmarks.first_update [CONFIG ...] [--beside TREE] [--turns 5]

Each turn is a process of its own, which starts a new run in a folder of its own and is ended after its first update.
`--beside` names another checkout (`git worktree add ../before COMMIT`), which takes turns with this one; both must hold
the text of the configs.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks.contest import machine, table

ROOT = Path(__file__).parents[2]


def wait_for_update(tree: Path, config: str) -> float:
    """Seconds from the start of a process to its first update."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {"run.directory": folder, "run.name": "turn", "training.log_every_updates": 1}
        options = [str(word) for key, value in settings.items() for word in (f"--{key}", value)]
        command = [sys.executable, "train.py", "--config", config, *options]
        started = time.monotonic()
        with subprocess.Popen(
            command, cwd=tree, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            assert process.stdout
            lines = []
            for line in process.stdout:
                if line.startswith("update "):
                    seconds = time.monotonic() - started
                    process.kill()
                    return seconds
                lines.append(line)
    raise SystemExit(f"{tree}, {config}: there was no update\n{''.join(lines)}")


def main() -> None:
    """Measures, and prints a table of medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("configs", nargs="*", default=["configs/demo.yaml"], metavar="CONFIG")
    parser.add_argument("--beside", type=Path, metavar="TREE", help="another checkout, in turns with this one")
    parser.add_argument("--turns", type=int, default=5, help="(default: 5)")
    options = parser.parse_args()
    trees = [ROOT, *filter(None, [options.beside and options.beside.resolve()])]
    rows = []
    for config in options.configs:
        turns = [[wait_for_update(tree, config) for tree in trees] for _ in range(options.turns)]
        rows.append([config, *(f"{statistics.median(seconds):.1f}" for seconds in zip(*turns, strict=True))])
    print(table(["", "here, s", "beside, s"][: 1 + len(trees)], rows))
    print(f"\n{machine()}; medians of {options.turns} turns")


if __name__ == "__main__":
    main()
