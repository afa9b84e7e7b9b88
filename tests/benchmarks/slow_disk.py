"""Trains, evaluates and exports while every write takes long, and compares the ends with those on a fast disk.

    python -m tests.benchmarks.slow_disk [--seconds 0.1]

Writes are those that `kill_every_write` counts; before each, and once more when half of it is done, the process waits.
A training is also killed in the middle and goes on as slowly, and a run is evaluated by two processes at once. All must
end with status 0 and the same bytes but for times. Exit status 1 if not.
"""

import argparse
import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.benchmarks.kill_every_write import Trial, evaluation_trial, export_trial, places, training_trial
from tests.support.run_contents import contents, differing


def waiting(seconds: float, killed_at: int | None = None) -> Callable[[int], None]:
    """What is done before each write: nothing for a time, or the end of the process."""

    def wait(number: int) -> None:
        if number == killed_at:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(seconds)

    return wait


def check(trial: Trial, what: str, seconds: float, *, twice: bool = False) -> int:
    """Runs a command on a fast disk and on slow ones; returns how many ends differ."""
    counted = trial.place / "counted"

    def count(number: int) -> None:
        counted.write_text(str(number))

    trial.reset(trial.before)
    assert trial.run(count) == 0
    end, bad = contents(trial.target), 0
    writes = int(counted.read_text())

    def compare(name: str, statuses: list[int], started: float) -> int:
        others = differing(contents(trial.target), end)
        fine = not others and not any(statuses)
        outcome = "the same" if fine else f"status {statuses}, DIFFERS: {', '.join(others[:5])}"
        print(f"{what}, {name}: {time.monotonic() - started:.0f} s, {outcome}", flush=True)
        return not fine

    print(f"{what}: {writes} writes", flush=True)
    trial.reset(trial.before)
    started = time.monotonic()
    bad += compare("slow", [trial.run(waiting(seconds))], started)
    trial.reset(trial.before)
    started = time.monotonic()
    assert trial.run(waiting(seconds, writes // 2)) == -signal.SIGKILL
    bad += compare("slow, killed half-way and continued", [trial.run(waiting(seconds))], started)
    if twice:
        trial.reset(trial.before)
        started = time.monotonic()
        with ThreadPoolExecutor(2) as pool:
            statuses = list(pool.map(trial.run, [waiting(seconds), waiting(1.3 * seconds)]))
        bad += compare("slow, by two processes", statuses, started)
    return bad


def main(arguments: list[str] | None = None) -> int:
    """Waits, compares."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=0.1, help="that each write takes (default: 0.1)")
    options = parser.parse_args(arguments)
    with places() as place:
        folders = [place / name for name in ("training", "evaluation", "export")]
        for folder in folders:
            folder.mkdir()
        training = training_trial(folders[0])
        bad = check(training, "training", options.seconds)
        run: Path = training.target
        bad += check(evaluation_trial(folders[1], run), "evaluation", options.seconds, twice=True)
        bad += check(export_trial(folders[2], run), "export", options.seconds)
    return int(bad > 0)


if __name__ == "__main__":
    raise SystemExit(main())
