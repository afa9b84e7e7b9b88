"""Contestants side by side: each in a process of its own, all with as many threads, taking turns.

A contestant is a module with `prepare(settings) -> turn`, where `turn()` does the work once and returns numbers about
it. It is imported and prepared in its process, does one turn that is not counted, and then one whenever it is asked.
"""

import argparse
import importlib
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Timer
from typing import Any

ROOT = Path(__file__).parents[2]
TENSORFLOW = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "1"}  # the faster kernels for all who use it
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")  # TensorFlow looks at the cores it may use


class Contestant:
    """A process that works when it is asked to.

    Args:
        name: what the table calls it.
        module: below `tests.benchmarks.contestants`.
        settings: what `prepare` is given, as JSON has it.
        threads: processor cores that it may use.
        python: the command of its interpreter.
        limit: the seconds after which its process is killed; None for no limit.
    """

    def __init__(
        self,
        name: str,
        module: str,
        settings: Mapping[str, Any],
        threads: int,
        *,
        python: Sequence[str] = (sys.executable,),
        limit: float | None = None,
    ) -> None:
        self.name = name
        self.turns: list[dict[str, float]] = []
        environment = {**TENSORFLOW, **os.environ, **dict.fromkeys(THREADS, str(threads))}
        started = time.perf_counter()
        self._process = subprocess.Popen(
            [*python, "-m", "tests.benchmarks.contest", module, json.dumps(settings)],
            cwd=ROOT,
            env=environment,
            preexec_fn=lambda: os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._timer = Timer(limit, self._process.kill) if limit is not None else None
        if self._timer is not None:
            self._timer.daemon = True
            self._timer.start()
        self._answer()
        self.start_seconds = time.perf_counter() - started

    def take_turn(self) -> None:
        """Works once, and keeps the numbers."""
        assert self._process.stdin
        self._process.stdin.write("turn\n")
        self._process.stdin.flush()
        self.turns.append(self._answer())

    def end(self) -> None:
        """Ends the process."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()
        if self._timer is not None:
            self._timer.cancel()

    def median(self, key: str) -> float:
        """Of the turns that were kept."""
        return statistics.median(turn[key] for turn in self.turns)

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout
        for line in self._process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        raise SystemExit(f"{self.name}: ended with {self._process.wait()}; see above")


def hold(contestants: Sequence[tuple[str, str, Mapping[str, Any]]], turns: int, threads: int) -> list[Contestant]:
    """Lets contestants `(name, module, settings)` take turns, one after the other, `turns` times."""
    running = []
    for name, module, settings in contestants:
        print(f"{name} ...", end=" ", file=sys.stderr, flush=True)
        running.append(Contestant(name, module, settings, threads))
    for _ in range(turns):
        for contestant in running:
            contestant.take_turn()
    print(file=sys.stderr)
    for contestant in running:
        contestant.end()
    return running


def add_options(parser: argparse.ArgumentParser, turns: int) -> None:
    """What every contest lets people choose."""
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--turns", type=int, default=turns, help=f"timed turns of each (default: {turns})")
    parser.add_argument("--threads", type=int, default=cores, help="(default: all cores)")
    parser.add_argument("--only", default="", metavar="TEXT", help="those with this in their name, and ours")


def chosen(contestants: Mapping[str, tuple[str, Mapping[str, Any]]], only: str) -> dict[str, Any]:
    """Ours, and those with this text in their name."""
    return {name: one for name, one in contestants.items() if only.lower() in name.lower() or name.startswith("qkv")}


def machine() -> str:
    """The processor and its cores, for the caption of a table."""
    names = [
        line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line
    ]
    return f"{names[0] if names else platform.processor()}, {len(os.sched_getaffinity(0))} cores"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Markdown, the first column to the left."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def serve(module: str, settings: Mapping[str, Any]) -> None:
    """The contestant's side: prepares, warms up, then works once for every line that is read."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever libraries print goes elsewhere
    turn = importlib.import_module(f"tests.benchmarks.contestants.{module}").prepare(settings)
    turn()
    print("{}", file=answers, flush=True)
    for _ in sys.stdin:
        started = time.perf_counter()
        numbers = turn()
        seconds = time.perf_counter() - started
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({"seconds": seconds, "peak_megabytes": peak, **numbers}), file=answers, flush=True)


if __name__ == "__main__":
    serve(sys.argv[1], json.loads(sys.argv[2]))
