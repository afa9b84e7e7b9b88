"""Times what a person waits for at the start: the first translation, and the first answer of the live page.

    python -m tests.benchmarks.first_answer [RUN] [--sentence TEXT] [--turns 5] [--site FOLDER]

Each turn is two processes in an empty folder. `qkv translate` is given a line through a pipe that stays open. The page
of `qkv live` is asked to translate as soon as its address is printed. The seconds of both cores, user and system, are
less sensitive to other programs than those of the clock.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from urllib.request import Request, urlopen

ROOT = Path(__file__).parents[2]
FURTHER = 5  # lines after the first


def wait_for_answers(process: subprocess.Popen, sentence: str) -> list[float]:
    """Seconds until `qkv translate` answers each line, from the start or from the answer before."""
    seconds, started = [], time.monotonic()
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


def wait_for_page(process: subprocess.Popen, sentence: str) -> list[float]:
    """Seconds until `qkv live` has served its page and translated the sentence for it."""
    started = time.monotonic()
    assert process.stdout
    address = process.stdout.readline().decode().strip()
    urlopen(address).read()
    body = json.dumps({"text": sentence}).encode()
    request = Request(address.replace("/?", "/answer?"), body, {"Content-Type": "application/json"})
    assert json.load(urlopen(request))["nBest"]
    seconds = time.monotonic() - started
    process.terminate()
    process.wait()
    return [seconds]


COMMANDS: dict[str, Callable[[subprocess.Popen, str], list[float]]] = {
    "translate": wait_for_answers,
    "live": wait_for_page,
}


def measure(command: str, run: str, sentence: str, site: Path) -> tuple[list[float], float]:
    """Starts a command. Returns the seconds of the clock until each answer, and those of the cores."""
    words = [sys.executable, "-m", "qkv", command, run, *(["--no_browser"] if command == "live" else [])]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        settings = {"cwd": folder, "env": {**os.environ, "PYTHONPATH": str(site)}, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **settings) as process:
            seconds = COMMANDS[command](process, sentence)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Measures, and prints the medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", nargs="?", default="demo", metavar="RUN", help="(default: %(default)s)")
    parser.add_argument("--sentence", default="the girl does not like the juice .", help="(default: %(default)s)")
    parser.add_argument("--turns", type=int, default=5, help="(default: 5)")
    parser.add_argument(
        "--site", type=Path, default=ROOT / "pipeline", help="folder of the package (default: this one)"
    )
    options = parser.parse_args()
    run = str(Path(options.run).resolve()) if Path(options.run).exists() else options.run
    turns = [
        {command: measure(command, run, options.sentence, options.site.resolve()) for command in COMMANDS}
        for _ in range(options.turns)
    ]
    for command in COMMANDS:
        first = [turn[command][0][0] for turn in turns]
        cores = statistics.median(turn[command][1] for turn in turns)
        text = f"first answer after {statistics.median(first):.2f} s (at least {min(first):.2f})"
        if further := [seconds for turn in turns for seconds in turn[command][0][1:]]:
            text += f", further ones after {statistics.median(further):.2f} s"
        print(f"qkv {command}: {text}; {cores:.2f} s of the cores; medians of {options.turns} turns")


if __name__ == "__main__":
    main()
