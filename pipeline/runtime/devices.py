"""The devices of a run, and the number format in which they compute."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import tensorflow as tf

from .cores import CORE_GROUPS, usable_cores
from .environment import count_workers
from .workers import CONNECT_SECONDS

MOST_WORKERS = 4  # each holds a batch in memory

COLLECTIVE_SECONDS = 1800.0
"""How long an update waits for another machine that lives but does not come."""


def make_strategy() -> tf.distribute.Strategy:
    """Chooses the devices: several machines if `TF_CONFIG` names them, else all GPUs of this one, else one device.

    Call it before anything else that uses TensorFlow, but after `join_workers`.
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

    `auto` is `mixed_bfloat16` on GPUs and on CPUs with AMX or AVX-512 BF16 instructions, else `float32`: other CPUs
    would convert every number back and forth.
    """
    if precision != "auto":
        return precision
    if tf.config.list_physical_devices("GPU"):
        return "mixed_bfloat16"
    return "mixed_bfloat16" if _cpu_multiplies_bfloat16() else "float32"


def parallel_batches() -> int:
    """Returns the number of batches to search or read in parallel: 1 on a GPU, a few on a processor with several
    cores."""
    return 1 if tf.config.list_physical_devices("GPU") else min(usable_cores(), MOST_WORKERS)


def slices_per_update() -> int:
    """Returns the number of slices of a batch that an update computes in parallel: 1 on a GPU, `CORE_GROUPS` on a
    processor.

    It does not depend on the number of cores, so that a seed gives the same random numbers on every processor;
    `pipeline.runtime.import_tensorflow` divides the cores between the slices.
    """
    return 1 if tf.config.list_physical_devices("GPU") else CORE_GROUPS


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
