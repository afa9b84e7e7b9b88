"""The demo, trained and evaluated by GPU and by processor; and the archive of the same weights by both."""

import json
import os
import re
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks.gpu.sitting import (
    ON_PROCESSOR,
    PROCESSOR_CORES,
    MeasurementError,
    Sitting,
    options,
    python_command,
    query_gpus,
)
from tests.benchmarks.gpu.text import Text

MANY_CORES = 8  # from here on the processor's demo runs on cores of its own, beside everything else
LIMIT = 200.0
PROCESSOR_LIMIT = 480.0
TOLERANCE = 1e-5
PROCESSOR = "processor"


class ProcessorDemo:
    """The demo on the processor, which takes minutes: on cores of its own if there are many, from the beginning on.

    Attributes:
        name: the measurement's name, with the number of cores.
    """

    def __init__(self, sitting: Sitting) -> None:
        self._sitting = sitting
        self._result: dict[str, Any] = {}
        self._thread: threading.Thread | None = None
        cores = sorted(os.sched_getaffinity(0))
        self._cores = cores[-PROCESSOR_CORES:]
        self.name = f"processor, {len(self._cores)} cores"
        done = "missing" not in sitting.results.get("demo", {}).get(self.name, {"missing": ""})
        if len(cores) >= MANY_CORES and query_gpus("name") and not done:
            sitting.cores = cores[:-PROCESSOR_CORES]
            os.sched_setaffinity(0, sitting.cores)
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()

    def figures(self) -> dict[str, Any]:
        """Waits for the demo, or runs it now. Raises a `MeasurementError` if it failed."""
        if self._thread is None:
            self._run()
        else:
            self._thread.join(max(self._sitting.left(), 0))
        if "bleu" in self._result:
            return self._result
        raise MeasurementError(self._result.get("missing", "it did not end in time; the same command begins again"))

    def keep(self) -> None:
        """Writes the figures of a demo that has ended, also if the time was over before its stage."""
        if "bleu" in self._result:
            self._sitting.results.setdefault("demo", {})[self.name] = self._result
            self._sitting.save()

    def _run(self) -> None:
        try:
            self._result = measure_demo(self._sitting, PROCESSOR, ON_PROCESSOR, self._cores, PROCESSOR_LIMIT)
        except MeasurementError as error:
            self._result = {"missing": str(error)}


def run_demo(sitting: Sitting, text: Text, processor: ProcessorDemo) -> None:
    """Stage `demo`: a second run finds compiled programs in the cache, as the run of a person's second day."""
    for name in ("first run", "second run"):
        sitting.measure("demo", name, lambda name=name: measure_demo(sitting, name.replace(" ", "_")))
    sitting.measure("demo", processor.name, processor.figures)


def measure_demo(
    sitting: Sitting,
    name: str,
    environment: dict[str, str] | None = None,
    cores: Sequence[int] | None = None,
    limit: float = LIMIT,
) -> dict[str, Any]:
    """`make demo` in a folder of its own: seconds, BLEU and AER on the test set."""
    run = sitting.runs / f"demo_{name}"
    shutil.rmtree(run, ignore_errors=True)
    config = "configs/tiny.yaml" if sitting.tiny else "configs/demo.yaml"
    settings = {"run.directory": str(sitting.runs), "run.name": run.name}
    command = python_command("train.py", "--config", config, *options(settings))
    _, training = sitting.run(f"demo_{name}_train", command, limit, environment, cores)
    command = python_command("evaluate.py", str(run), *(["--beam_size", "1"] if sitting.tiny else []))
    _, evaluation = sitting.run(f"demo_{name}_evaluate", command, limit, environment, cores)
    metrics = json.loads((run / "evaluations" / "test" / "metrics.json").read_text(encoding="utf-8"))
    return {
        "training_seconds": round(training, 1),
        "evaluation_seconds": round(evaluation, 1),
        "bleu": metrics["bleu"],
        "aer": (metrics.get("alignment") or {}).get("aer"),
    }


def run_archive(sitting: Sitting, text: Text) -> None:
    """Stage `archive`: the largest differences of the demo's attention over the references, and the seconds."""
    sitting.measure("archive", "the same weights by GPU and processor", lambda: compare_archives(sitting))


def compare_archives(sitting: Sitting) -> dict[str, Any]:
    """Evaluates the demo's second run by both devices, and compares site by site."""
    sitting.figures("demo", "second run")
    run = sitting.runs / "demo_second_run"
    seconds = {}
    for device, environment in (("gpu", None), (PROCESSOR, ON_PROCESSOR)):
        command = python_command("evaluate.py", str(run), "--forced", "--beam_size", "1", "--name", device)
        _, seconds[device] = sitting.run(f"archive_{device}", command, LIMIT, environment)
    folders = [str(run / "evaluations" / device) for device in seconds]
    compare = python_command("-m", "tests.benchmarks.compare_archives", *folders, "--tolerance", "inf")
    output, _ = sitting.run("archive_compare", compare, LIMIT, ON_PROCESSOR)
    differences = {
        name: float(value) for name, value in re.findall(r"^(\S+) +(\d\S*e[-+]\d+)$", output, flags=re.MULTILINE)
    }
    if not differences:
        raise MeasurementError(f"no differences in {output[-200:]!r}")
    megabytes = sum(path.stat().st_size for path in Path(folders[0]).rglob("*.npz")) / 1e6
    return {
        "largest_difference": max(differences.values()),
        "differences": differences,
        "gpu_seconds": round(seconds["gpu"], 1),
        "processor_seconds": round(seconds[PROCESSOR], 1),
        "archive_megabytes": round(megabytes, 1),
    }
