"""Sends pairs to `qkv align RUN --stdin`, and says how long an answer takes and how much memory is held on the way.

    python -m tests.benchmarks.align_stream RUN [--source FILE --target FILE] [--pairs 100000] [OPTIONS OF ALIGN]

Options of align may follow, such as `--probabilities`; two runs need `--at` and `--reverse_at`. By default the text is
that of the demo. It measures three things:

- the time from a pair to its links, for `--singles` pairs of which each is sent when the one before is answered;
- how many of these links differ from those that `--source` and `--target` give;
- the memory of the process while `--pairs` pairs go through a pipe: the text again and again, with a number behind each
  source, so that no two pairs are equal.

Exit status 1 if a line is lost, if half of the single pairs take more than `--limit_ms`, if links differ, or if the
last quarter of the pairs holds more than 2 % above the first one after `--settled` pairs.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import BinaryIO

from tests.benchmarks.stream import growth, own_megabytes

ROOT = Path(__file__).parents[2]
SAMPLE_PAIRS = 1000
TOLERANCE = 0.02
FIRST = 10  # pairs that do not count: the graph is traced at the first one


def command(run: Path, options: Sequence[str]) -> list[str]:
    """Returns the command without its text."""
    return [sys.executable, "-m", "qkv", "align", str(run), *options]


def time_singles(run: Path, pairs: Sequence[tuple[str, str]], options: Sequence[str]) -> tuple[list[float], list[str]]:
    """Sends each pair when the one before is answered. Returns the milliseconds of each, and its links."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([*command(run, options), "--stdin"], **pipes) as process:
        assert process.stdin and process.stdout
        milliseconds, links = [], []
        for source, target in pairs:
            begun = time.perf_counter()
            process.stdin.write(f"{source}\t{target}\n".encode())
            process.stdin.flush()
            links.append(process.stdout.readline().decode())
            milliseconds.append(1000 * (time.perf_counter() - begun))
    if process.returncode:
        raise SystemExit(f"qkv align ended with {process.returncode}")
    return milliseconds, links


def links_of_files(run: Path, pairs: Sequence[tuple[str, str]], options: Sequence[str]) -> list[str]:
    """Returns the links of the same pairs, given as files."""
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for name, lines in zip(("source", "target"), zip(*pairs, strict=True), strict=True):
            path = Path(folder) / name
            path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            files += [f"--{name}", str(path)]
        ended = subprocess.run([*command(run, options), *files], check=True, capture_output=True)
    return ended.stdout.decode().splitlines(keepends=True)


def memory_over_pairs(
    run: Path, pairs: Iterator[tuple[str, str]], count: int, options: Sequence[str]
) -> tuple[dict[int, float], float]:
    """Pipes pairs through. Returns the megabytes held after every 1,000 answers, and the pairs a second after these."""
    environment = os.environ | {"TF_ENABLE_ONEDNN_OPTS": "0"}  # see `stream.py`: kernels are kept for each size
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([*command(run, options), "--stdin"], env=environment, **pipes) as process:
        assert process.stdin and process.stdout
        threading.Thread(target=_feed, args=(process.stdin, islice(pairs, count)), daemon=True).start()
        held, number, begun = {}, 0, 0.0
        for number, _ in enumerate(process.stdout, start=1):
            begun = time.perf_counter() if number == SAMPLE_PAIRS else begun
            if number % SAMPLE_PAIRS == 0 and number < count:  # it may be gone after its last line
                held[number] = own_megabytes(process.pid)
    if process.returncode or number != count:
        raise SystemExit(f"{number:,} of {count:,} lines came out; it ended with {process.returncode}")
    return held, (count - SAMPLE_PAIRS) / (time.perf_counter() - begun)


def _feed(stream: BinaryIO, pairs: Iterator[tuple[str, str]]) -> None:
    with stream:
        stream.writelines(f"{source} {n}\t{target}\n".encode() for n, (source, target) in enumerate(pairs))


def main() -> int:
    """Measures, prints and judges."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of a trained run")
    parser.add_argument("--source", type=Path, default=ROOT / "data" / "demo" / "train.en", help="the sources")
    parser.add_argument("--target", type=Path, default=ROOT / "data" / "demo" / "train.fr", help="their translations")
    parser.add_argument("--singles", type=int, default=2000, help="pairs that are sent one by one (2,000)")
    parser.add_argument("--pairs", type=int, default=100_000, help="pairs that are piped through (100,000)")
    parser.add_argument("--settled", type=int, default=10_000, help="memory may grow until so many pairs (10,000)")
    parser.add_argument("--limit_ms", type=float, default=20, help="the median time of a single pair (20)")
    options, passed_on = parser.parse_known_args()
    sides = (path.read_text(encoding="utf-8").splitlines() for path in (options.source, options.target))
    pairs = list(zip(*sides, strict=True))
    run, singles = options.run.absolute(), pairs[: options.singles]

    milliseconds, links = time_singles(run, singles, passed_on)
    cuts = statistics.quantiles(milliseconds[FIRST:], n=100)
    expected = links_of_files(run, singles, passed_on)
    different = sum(one != other for one, other in zip(links, expected, strict=True))
    print(f"one by one: {cuts[49]:.1f} ms a pair, 90 % below {cuts[89]:.1f}, 99 % below {cuts[98]:.1f}", flush=True)
    print(f"{different:,} of {len(links):,} differ from the links of files", flush=True)

    failed = bool(different) or cuts[49] > options.limit_ms
    if options.pairs:
        held, rate = memory_over_pairs(run, cycle(pairs), options.pairs, passed_on)
        for number, megabytes in held.items():
            if number in (SAMPLE_PAIRS, options.settled) or number % (options.pairs // 10) == 0:
                print(f"{number:>9,} pairs: {megabytes:,.1f} MB")
        found = growth(held, options.settled)
        failed |= found > TOLERANCE
        print(f"after {options.settled:,} pairs: at most {max(held.values()):,.1f} MB, growth {100 * found:+.2f} %")
        print(f"{rate:,.0f} pairs a second")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
