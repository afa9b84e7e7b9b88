"""The devices of a run, and the number format in which they compute."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import tensorflow as tf

from .cores import usable_cores
from .environment import count_workers
from .gpus import gpu_formats, use_gpus, visible_gpus
from .nvidia import why_unseen
from .sizes import sizes
from .workers import CONNECT_SECONDS

# By default TensorFlow rounds the factors of float32 products to 10 bits (TF32) on GPUs of compute capability 8.0 or
# more. What loads or trains a model imports this module, and says that its numbers are float32.
tf.config.experimental.enable_tensor_float_32_execution(False)


def choose_devices(gpus: int | None, deterministic: bool) -> None:
    """Chooses the GPUs of this machine that are used, and how they compute. Call it before `make_strategy`.

    Args:
        gpus: their number; None for all.
        deterministic: whether every operation gives the same result every time, for the rest of the process.

    Raises:
        InputError: there are fewer.
    """
    if gpus is not None:
        use_gpus(gpus)
    if deterministic:
        tf.config.experimental.enable_op_determinism()


COLLECTIVE_SECONDS = 1800.0
"""How long an update waits for another machine that lives but does not come."""


def make_strategy() -> tf.distribute.Strategy:
    """Chooses the devices: several machines if `TF_CONFIG` names them, else all GPUs of this one, else one device.

    Call it before anything else that uses TensorFlow, but after `choose_devices` and `join_workers`.
    """
    if count_workers() > 1:
        options = tf.distribute.experimental.CommunicationOptions(timeout_seconds=COLLECTIVE_SECONDS)
        with _connecting():
            return tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    if len(tf.config.list_logical_devices("GPU")) > 1:
        return tf.distribute.MirroredStrategy()
    return tf.distribute.get_strategy()


def resolve_precision(precision: str) -> str:
    """Returns the Keras dtype policy for a `training.precision`.

    `auto` is the format whose products the device has instructions for: `mixed_bfloat16` on GPUs of compute capability
    8.0 or more and on CPUs with AMX or AVX-512 BF16, `mixed_float16` on GPUs from 7.0 on, else `float32`: other devices
    would convert every number back and forth.
    """
    return next(iter(_fast_formats()), "float32") if precision == "auto" else precision


def slow_precision(precision: str) -> str | None:
    """Returns what to know of a Keras dtype policy that the device has no instructions for; None for any other."""
    if precision == "float32" or precision in _fast_formats():
        return None
    return (
        f"training.precision {precision}: this device converts every number before it computes, which is slower than "
        f"{resolve_precision('auto')}; auto takes what suits the device"
    )


def _fast_formats() -> list[str]:
    if visible_gpus():
        return gpu_formats()
    return ["mixed_bfloat16"] if _cpu_multiplies_bfloat16() else []


def describe_devices(precision: str) -> str:
    """Says on what is computed, and in which format; and if a GPU lies idle, why, and how to mend it.

    Args:
        precision: a Keras dtype policy.
    """
    if gpus := visible_gpus():
        names = [str(gpu) for gpu in gpus]
        shown = f"a GPU ({names[0]})" if len(gpus) == 1 else f"{len(gpus)} GPUs ({'; '.join(names)})"
        return f"computing on {shown} in {precision}"
    cores = usable_cores()
    text = f"computing on the processor, {cores} core{'s' if cores > 1 else ''}, in {precision}"
    return f"{text}. An NVIDIA GPU is there, but {reason}" if (reason := idle_gpu()) else text


def idle_gpu() -> str | None:
    """Returns why an NVIDIA GPU that is there is not used, and how to mend it; None where that is as it should be."""
    return None if tf.config.list_physical_devices("GPU") else why_unseen()


def parallel_batches() -> int:
    """Returns the number of batches to search or read in parallel: 1 on a GPU, a few on a processor with several
    cores."""
    return min(usable_cores(), sizes().most_batches)


def slices_per_update() -> int:
    """Returns the number of slices of a batch that an update computes in parallel; see `pipeline.runtime.sizes`."""
    return sizes().update_slices


def _cpu_multiplies_bfloat16() -> bool:
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as file:
            flags = next((line.split() for line in file if line.startswith("flags")), [])
    except OSError:
        return False
    return bool({"amx_bf16", "avx512_bf16"} & set(flags))


@contextmanager
def _connecting() -> Iterator[None]:
    """Ends the process if the block, in which Python itself is stopped, takes too long: a worker that ends between the
    rendezvous and the connection is not noticed otherwise."""
    if hasattr(signal, "alarm"):
        try:
            previous = signal.signal(signal.SIGALRM, signal.SIG_DFL)
        except ValueError:  # Python handles signals in the main thread only
            yield
            return
        signal.alarm(CONNECT_SECONDS)
        try:
            yield
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, previous)
    else:
        yield
