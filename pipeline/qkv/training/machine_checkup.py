"""The machine in the report on a training: its processor, its GPUs, and the memory that an update takes."""

from collections.abc import Iterator

import tensorflow as tf

from ..runtime.devices import gpu_memory, idle_gpu, product_rate, slow_precision, visible_gpus
from ..runtime.machine import peak_memory, total_memory, usable_cores
from .checkup_line import CheckupLine

GIGABYTE = 2**30


def describe_machine() -> CheckupLine:
    """Describes cores, memory and the speed of products."""
    memory = f"{total / GIGABYTE:.0f} GiB of memory" if (total := total_memory()) else "memory unknown"
    rates = {dtype: product_rate(dtype) / 1e9 for dtype in ("float32", "bfloat16")}
    gpus = len(visible_gpus())
    return CheckupLine(
        "machine",
        f"{usable_cores()} processor cores, {gpus or 'no'} GPU{'s' if gpus > 1 else ''}, "
        f"{memory}; matrix products {rates['float32']:.0f} GFLOP/s in float32, {rates['bfloat16']:.0f} in bfloat16",
    )


def describe_gpus(precision: str) -> Iterator[CheckupLine]:
    """Describes each GPU; and what is slower than it could be: a GPU that lies idle, a format that is converted.

    Args:
        precision: a Keras dtype policy.
    """
    gpus = visible_gpus()
    for number, (gpu, memory) in enumerate(zip(gpus, gpu_memory() if gpus else [], strict=True)):
        yield CheckupLine("gpu", f"number {number}: {gpu}, {memory / GIGABYTE:.1f} GiB of memory for TensorFlow")
    if reason := idle_gpu():
        yield CheckupLine("gpu", f"an NVIDIA GPU is there, and TensorFlow sees none: {reason}", fine=False)
    if advice := slow_precision(precision):
        yield CheckupLine("precision", advice, fine=False)


def describe_memory() -> Iterator[CheckupLine]:
    """Describes how much memory the updates so far have taken, of the machine and of each GPU."""
    gpus = visible_gpus()
    for number, total in enumerate(gpu_memory() if gpus else []):
        peak = tf.config.experimental.get_memory_info(f"GPU:{number}")["peak"]
        yield _describe_peak(f"of GPU {number}, ", peak, total)
    yield _describe_peak("", peak_memory(), total_memory())


def _describe_peak(where: str, peak: int | None, total: int | None) -> CheckupLine:
    if peak is None or total is None:
        return CheckupLine("memory", "not told by this system")
    text = f"{where}{peak / GIGABYTE:.1f} GiB with the largest batch, of {total / GIGABYTE:.0f}"
    return CheckupLine("memory", text, fine=peak < 0.8 * total)
