"""`batches.batch_tokens: auto`: the size that is found, the memory that is taken, and the seconds of the trials.

The base size does not fill a large card, so another process holds most of the memory for this measurement.
"""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

from tests.benchmarks.contest import ROOT
from tests.benchmarks.gpu.sitting import MeasurementError, Sitting, query_gpus, read_memory
from tests.benchmarks.gpu.text import Text
from tests.benchmarks.gpu.training import compiled, sizes, train_ours

LEFT_GIBIBYTES = 4.0  # an epoch of this text must have 64 batches, which sets a limit too
HOG = """
import sys, torch
free, total = torch.cuda.mem_get_info()
held = torch.empty(max(int(free - float(sys.argv[1]) * 2**30), 1), dtype=torch.uint8, device="cuda")
print("held", flush=True)
sys.stdin.read()
"""


def run_memory(sitting: Sitting, text: Text) -> None:
    """Stage `memory`."""
    sitting.measure("memory", "base, batch_tokens auto", lambda: measure_memory(sitting, text))


def measure_memory(sitting: Sitting, text: Text) -> dict[str, Any]:
    """Trains the base size with `auto` in little memory."""
    if not query_gpus("name") and not sitting.tiny:
        raise MeasurementError("there is no GPU")
    size = sizes(sitting, text)["base, 16,384 tokens"]
    size = size._replace(overrides={**size.overrides, "batches.batch_tokens": "auto"})
    with hold_memory(sitting), watch_memory() as seen:
        trained, _ = train_ours(sitting, "base_auto", size, compiled(sitting), windows=0)
    log = (sitting.logs / "base_auto.log").read_text(encoding="utf-8")
    found = re.search(r"batch_tokens auto: ([\d,]+)", log)
    fixed = sitting.results.get("training", {}).get("qkv, base, 16,384 tokens", {}).get("start_seconds")
    return {
        "batch_tokens": found and int(found[1].replace(",", "")),
        **seen,
        "trial_seconds": fixed and round(trained.start - fixed, 1),
        "start_seconds": round(trained.start, 1),
        "batches_cut": "cut" in log,
    }


@contextmanager
def hold_memory(sitting: Sitting) -> Iterator[None]:
    """Holds all of the GPU's memory but `LEFT_GIBIBYTES`, if PyTorch is there to do it."""
    process = None
    if query_gpus("name"):
        try:
            python = sitting.peers("torch")
        except MeasurementError:
            python = []
        if python:
            process = subprocess.Popen(
                [*python, "-c", HOG, str(LEFT_GIBIBYTES)],
                cwd=ROOT,
                env=sitting.environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            assert process.stdout
            process.stdout.readline()
    try:
        yield
    finally:
        if process is not None:
            process.kill()
            process.wait()


@contextmanager
def watch_memory() -> Iterator[dict[str, int]]:
    """Watches the first GPU. The dict gets the megabytes that are free at the start, and the most that were taken."""
    seen: dict[str, int] = {}
    over = Event()
    before = read_memory()

    def watch() -> None:
        while before and not over.wait(0.3):
            if now := read_memory():
                seen["used_megabytes"] = max(seen["used_megabytes"], now[0] - before[0])

    if before:
        seen.update(free_megabytes=before[1] - before[0], used_megabytes=0)
    watching = Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield seen
    finally:
        over.set()
        watching.join()
