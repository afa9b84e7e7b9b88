"""A sitting: commands with limits of time, and a file of results that grows with each of them.

A sitting that is cut off loses only the measurement that was running. The same command goes on with what is missing.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Timer
from typing import Any

from tests.benchmarks.contest import ROOT, Contestant, machine

RESULTS = "results.json"
ON_PROCESSOR = {"CUDA_VISIBLE_DEVICES": ""}
PROCESSOR_CORES = 2  # as in all measurements of docs/measurements
LEAST_SECONDS = 30  # a measurement that has less is not begun


class MeasurementError(Exception):
    """A measurement has failed, or is not possible here."""


class Sitting:
    """The measurements of one machine.

    Args:
        folder: gets `results.json`, the runs, and the output of each command in `logs`.
        minutes: how long this call may measure.
        tiny: whether all sizes are tiny, to try the script on a processor.
        peers_python: the command of the interpreter that has PyTorch and JAX.

    Attributes:
        results: by stage and measurement: the figures, or `{"missing": why}`.
        cores: the processor cores of what is measured.
        programs: the folder of the programs that XLA has compiled.
        environment: the variables of all commands.
    """

    def __init__(self, folder: Path, minutes: float, tiny: bool, peers_python: Sequence[str]) -> None:
        self.folder = folder
        self.tiny = tiny
        self.peers_python = peers_python
        self.results: dict[str, dict[str, dict[str, Any]]] = {}
        self._end = time.monotonic() + 60 * minutes
        self._path = folder / RESULTS
        self.logs.mkdir(parents=True, exist_ok=True)
        if self._path.is_file():
            self.results = json.loads(self._path.read_text(encoding="utf-8"))
        # The first run of a shape is a cold one, whatever programs the user has kept.
        self.programs = folder / "programs"
        self.environment = {**os.environ, "QKV_COMPILED_PROGRAMS": str(self.programs), "PYTHONUNBUFFERED": "1"}
        paths = [str(ROOT / "pipeline"), os.environ.get("PYTHONPATH", "")]
        self.environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        self.cores = sorted(os.sched_getaffinity(0))
        self._processes: list[Process] = []

    @property
    def logs(self) -> Path:
        """The folder of the commands' output."""
        return self.folder / "logs"

    @property
    def runs(self) -> Path:
        """The folder of the runs that are trained."""
        return self.folder / "runs"

    def left(self) -> float:
        """Returns the seconds that are left."""
        return self._end - time.monotonic()

    def allowed(self, limit: float) -> float:
        """Returns the seconds that a command gets, of a limit for a GPU; a processor that many share gets more."""
        return min(4 * limit if self.tiny else limit, max(self.left(), 1.0))

    def measure(self, stage: str, name: str, measurement: Callable[[], Mapping[str, Any]]) -> dict[str, Any] | None:
        """Takes a measurement, unless an earlier call has its figures, and writes the file of results.

        Returns:
            The figures; None if the measurement failed or there was no time for it.
        """
        results = self.results.setdefault(stage, {})
        if name in results and "missing" not in results[name]:
            return results[name]
        started = time.monotonic()
        print(f"[{self.left():4.0f} s left] {stage}: {name} ...", flush=True)
        try:
            if self.left() < LEAST_SECONDS:
                raise MeasurementError("no time was left; the same command goes on")
            figures = {**measurement(), "sitting_seconds": round(time.monotonic() - started, 1)}
        except (MeasurementError, SystemExit, BrokenPipeError) as error:  # contestants that end raise the others
            figures = {"missing": str(error)}
        results[name] = figures
        self.save()
        print(f"    {json.dumps(figures)}", flush=True)
        return None if "missing" in figures else figures

    def figures(self, stage: str, name: str) -> dict[str, Any]:
        """Returns the figures of a measurement. Raises a `MeasurementError` if there are none."""
        figures = self.results.get(stage, {}).get(name, {"missing": "not measured"})
        if "missing" in figures:
            raise MeasurementError(f"needs {stage}: {name}")
        return figures

    def save(self) -> None:
        """Writes the results."""
        temporary = self._path.with_suffix(".new")
        temporary.write_text(json.dumps(self.results, indent=1, ensure_ascii=False), encoding="utf-8")
        temporary.replace(self._path)

    def start(
        self,
        name: str,
        command: Sequence[str],
        limit: float,
        environment: Mapping[str, str] | None = None,
        cores: Sequence[int] | None = None,
    ) -> "Process":
        """Starts a command in the repository, which is killed after `limit` seconds or when the time is over.

        Args:
            name: of its file in `logs`.
            command: the command.
            limit: in seconds.
            environment: variables beside the sitting's.
            cores: the processor cores that it may use; None for those of the sitting.
        """
        seconds = self.allowed(limit)
        variables = {**self.environment, **(environment or {})}
        process = Process(command, self.logs / f"{name}.log", variables, seconds, cores or self.cores)
        self._processes.append(process)
        return process

    def end(self) -> None:
        """Kills what still runs."""
        for process in self._processes:
            process.kill()

    def run(self, name: str, command: Sequence[str], limit: float, environment=None, cores=None) -> tuple[str, float]:
        """Runs a command, see `start`. Returns its output and seconds; raises a `MeasurementError` if it fails."""
        process = self.start(name, command, limit, environment, cores)
        lines = "".join(line for _, line in process.lines())
        process.check()
        return lines, process.seconds()

    def hold(self, module: str, settings: Mapping[str, Any], *, turns: int, limit: float, python: Sequence[str]):
        """Lets one contestant take turns alone. Returns the `Contestant`; raises SystemExit if it fails."""
        before = dict(os.environ)
        os.environ.update(self.environment)
        try:
            contestant = Contestant(module, module, settings, len(self.cores), python=python, limit=self.allowed(limit))
        finally:
            os.environ.clear()
            os.environ.update(before)
        for _ in range(turns):
            contestant.take_turn()
        contestant.end()
        return contestant

    def peers(self, *names: str) -> list[str]:
        """Returns an interpreter that can import modules. Raises a `MeasurementError` if none can."""
        code = f"import importlib.util as u; print([n for n in {names!r} if u.find_spec(n) is None])"
        missing = ""
        for python in (self.peers_python, [sys.executable]):
            done = subprocess.run(
                [*python, "-c", code], env=self.environment, cwd=ROOT, capture_output=True, text=True, check=False
            )
            missing = missing or done.stdout.strip() or done.stderr.strip()
            if done.stdout.strip() == "[]":
                return [*python]
        raise MeasurementError(f"not installed: {missing}")


class Process:
    """A command that runs, in a process group of its own.

    Args:
        command: the command.
        log: gets its output.
        environment: its environment.
        limit: the seconds after which it is killed.
        cores: the processor cores that it may use.
    """

    def __init__(
        self, command: Sequence[str], log: Path, environment: Mapping[str, str], limit: float, cores: Sequence[int]
    ) -> None:
        self._log = log
        self._limit = limit
        self._started = self._ended = time.monotonic()
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
            preexec_fn=lambda: os.sched_setaffinity(0, cores),
        )
        self._timer = Timer(limit, self.kill)
        self._timer.daemon = True
        self._timer.start()

    def lines(self):
        """Yields the seconds since the start with each line, until the process ends."""
        assert self._process.stdout
        with self._process.stdout, self._log.open("w", encoding="utf-8") as file:
            for line in self._process.stdout:
                file.write(line)
                file.flush()
                yield time.monotonic() - self._started, line
        self._process.wait()
        self._timer.cancel()
        self._ended = time.monotonic()

    def seconds(self) -> float:
        """Returns how long the process ran, once `lines` has ended."""
        return self._ended - self._started

    def kill(self) -> None:
        """Kills the process and all that it has started."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def check(self) -> None:
        """Raises a `MeasurementError` with the last lines if the process has failed."""
        if code := self._process.wait():
            why = f"killed after {self._limit:.0f} s" if code == -signal.SIGKILL else f"ended with {code}"
            last = self._log.read_text(encoding="utf-8").strip().splitlines()[-4:]
            raise MeasurementError(f"{why}: {' / '.join(last)}")


def python_command(*words: str) -> list[str]:
    """Returns a command of this interpreter."""
    return [sys.executable, *words]


def options(settings: Mapping[str, Any]) -> list[str]:
    """Returns settings as options of `train.py`."""
    return [word for key, value in settings.items() for word in (f"--{key}", option_value(value))]


def option_value(value: Any) -> str:
    """Returns a value as it is written in YAML."""
    return value if isinstance(value, str) else json.dumps(value)


def query_gpus(*fields: str) -> list[list[str]]:
    """Returns fields of `nvidia-smi` for each GPU; an empty list if there is none."""
    if shutil.which("nvidia-smi") is None:
        return []
    command = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    rows = done.stdout.strip().splitlines() if done.returncode == 0 else []
    return [re.split(r",\s*", row) for row in rows]


def read_memory() -> tuple[int, int] | None:
    """Returns the megabytes of the first GPU that are in use, and all of them; None if they are not known."""
    rows = query_gpus("memory.used", "memory.total")
    try:
        used, total = map(int, rows[0])
    except (IndexError, ValueError):
        return None
    return used, total


def describe_machine() -> dict[str, str]:
    """Returns the facts for the caption."""
    gpus = query_gpus("name", "memory.total", "driver_version")
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    named = [f"{name}, {memory} MiB, driver {driver}" for name, memory, driver in gpus]
    return {"GPU": "; ".join(named) or "none", "processor": machine(), "commit": commit.stdout.strip() or "unknown"}
