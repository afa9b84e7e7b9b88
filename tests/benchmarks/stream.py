"""Pipes many lines through `qkv.commands.translate` and says how much memory it holds on the way.

    python -m tests.benchmarks.stream RUN [--lines 100000] [--settled 10000] [OPTIONS OF TRANSLATE]

Options of translate may follow, but for `--n_best`. The text is that of the demo, again and again, with a number behind
each sentence so that no two lines are equal. Memory must stay flat once `--settled` lines were translated. It is
measured twice: without oneDNN's kernels, and with them, of which TensorFlow keeps up to 1,024 in each thread, one for
each size of a product, and needs many lines to meet them. Exit status 1 if a line is lost, or if the last quarter of
the lines holds more than 2 % above the first after the settled ones; with oneDNN 15 %.
"""

import argparse
import os
import statistics
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import BinaryIO

ROOT = Path(__file__).parents[2]
SAMPLE_LINES = 500
TOLERANCES = {"0": 0.02, "1": 0.15}  # of TF_ENABLE_ONEDNN_OPTS


def sentences(lines: int) -> Iterator[bytes]:
    """Yields that many lines."""
    text = (ROOT / "data" / "demo" / "train.en").read_text(encoding="utf-8").splitlines()
    return (f"{line} {n}\n".encode() for n, line in enumerate(islice(cycle(text), lines)))


def own_megabytes(process: int) -> float:
    """The memory of a process that no file backs (Linux)."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    raise ValueError("RssAnon is not in status")


def memory_over_lines(run: Path, lines: int, options: Sequence[str], onednn: str) -> dict[int, float]:
    """Translates and returns the megabytes held after every 500 lines that came out."""
    command = [sys.executable, "-m", "qkv", "translate", str(run), *options]
    environment = os.environ | {"TF_ENABLE_ONEDNN_OPTS": onednn}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, env=environment, **pipes) as process:
        assert process.stdin and process.stdout
        threading.Thread(target=_feed, args=(process.stdin, lines), daemon=True).start()
        held, number = {}, 0
        for number, _ in enumerate(process.stdout, start=1):
            if number % SAMPLE_LINES == 0 and number < lines:  # it may be gone after its last line
                held[number] = own_megabytes(process.pid)
    if process.returncode or number != lines:
        raise SystemExit(f"{number:,} of {lines:,} lines came out; it ended with {process.returncode}")
    return held


def _feed(stream: BinaryIO, lines: int) -> None:
    with stream:
        stream.writelines(sentences(lines))


def growth(held: dict[int, float], settled: int) -> float:
    """How much more is held in the last quarter of the lines than in the first quarter after the settled ones."""
    values = [megabytes for line, megabytes in held.items() if line >= settled]
    quarter = max(1, len(values) // 4)
    return statistics.median(values[-quarter:]) / statistics.median(values[:quarter]) - 1


def main() -> int:
    """Translates, prints a line for each tenth of the text, and judges."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of a trained run")
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--settled", type=int, default=10_000, help="memory may grow until so many lines (10,000)")
    options, passed_on = parser.parse_known_args()
    failed = False
    for onednn, tolerance in TOLERANCES.items():
        print(f"with TF_ENABLE_ONEDNN_OPTS={onednn}", flush=True)
        held = memory_over_lines(options.run.absolute(), options.lines, passed_on, onednn)
        for line, megabytes in held.items():
            if line in (SAMPLE_LINES, options.settled) or line % (options.lines // 10) == 0:
                print(f"{line:>9,} lines: {megabytes:,.1f} MB")
        found = growth(held, options.settled)
        failed |= found > tolerance
        print(f"after {options.settled:,} lines: at most {max(held.values()):,.1f} MB, growth {100 * found:+.2f} %")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
