"""Times what a person waits for who types sentences: from the start to the first answer, and for every further one.

    python -m tests.benchmarks.first_answer RUN [--sentence TEXT] [--turns 5]

Each turn is a process of its own, which is given a line through a pipe that stays open.
"""

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
FURTHER = 5  # lines after the first


def wait_for_answers(run: Path, sentence: str) -> list[float]:
    """Seconds until the answer to each line, from the start or from the answer before."""
    command = [sys.executable, "-m", "qkv", "translate", str(run)]
    seconds, started = [], time.monotonic()
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin and process.stdout
        for _ in range(1 + FURTHER):
            process.stdin.write(f"{sentence}\n".encode())
            process.stdin.flush()
            if not process.stdout.readline():
                raise SystemExit("no answer")
            now = time.monotonic()
            seconds.append(now - started)
            started = now
        process.communicate()
    return seconds


def main() -> None:
    """Measures, and prints the medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, metavar="RUN")
    parser.add_argument("--sentence", default="the cat eats the apple .", help="(default: %(default)s)")
    parser.add_argument("--turns", type=int, default=5, help="(default: 5)")
    options = parser.parse_args()
    turns = [wait_for_answers(options.run.resolve(), options.sentence) for _ in range(options.turns)]
    first = statistics.median(turn[0] for turn in turns)
    further = statistics.median(seconds for turn in turns for seconds in turn[1:])
    print(f"first answer after {first:.2f} s, further ones after {further:.2f} s; medians of {options.turns} turns")


if __name__ == "__main__":
    main()
