"""The devices of a run: which are used, in which number format they compute, and how much at once."""

import signal
import timeit
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import tensorflow as tf

from ..errors import InputError
from .cluster import read_cluster
from .machine import CORE_GROUPS, usable_cores, why_unseen
from .workers import CONNECT_SECONDS

# By default TensorFlow rounds the factors of float32 products to 10 bits (TF32) on GPUs of compute capability 8.0 or
# more. What loads or trains a model imports this module, and says that its numbers are float32.
tf.config.experimental.enable_tensor_float_32_execution(False)


def choose_devices(gpus: int | None, deterministic: bool) -> None:
    """Chooses the GPUs of this machine that are used, and how they compute. Call it before `make_strategy`.

    Args:
        gpus: their number, the first ones; 0 for the processor, None for all.
        deterministic: whether every operation gives the same result every time, for the rest of the process.

    Raises:
        InputError: there are fewer, or TensorFlow has taken them already.
    """
    if deterministic:
        tf.config.experimental.enable_op_determinism()
    there = tf.config.list_physical_devices("GPU")
    if gpus is not None and gpus > len(there):
        hint = f"; an NVIDIA GPU is there, but {reason}" if (reason := idle_gpu()) else ""
        raise InputError(
            f"run.devices: expected at most {len(there)}, as many GPUs as TensorFlow sees, found {gpus}{hint}"
        )
    if gpus is None or there[:gpus] == tf.config.get_visible_devices("GPU"):
        return
    try:
        tf.config.set_visible_devices(there[:gpus], "GPU")
    except RuntimeError:
        raise InputError(
            f"run.devices: {gpus} of {len(there)} GPUs cannot be chosen any more, in use; start another process"
        ) from None


COLLECTIVE_SECONDS = 1800.0  # how long an update waits for another machine that lives but does not come


def make_strategy() -> tf.distribute.Strategy:
    """Chooses the devices: several machines if `TF_CONFIG` names them, else all GPUs of this one, else one device.

    Call it before anything else that uses TensorFlow, but after `choose_devices` and `join_workers`.
    """
    if read_cluster():
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
    return next(iter(fast_formats()), "float32") if precision == "auto" else precision


def slow_precision(precision: str) -> str | None:
    """Returns what to know of a Keras dtype policy that the device has no instructions for; None for any other."""
    if precision == "float32" or precision in fast_formats():
        return None
    return (
        f"training.precision {precision}: this device converts every number before it computes, which is slower than "
        f"{resolve_precision('auto')}; auto takes what suits the device"
    )


def describe_devices(precision: str) -> str:
    """Says on what is computed, in which Keras dtype policy, and why a GPU lies idle and how to mend it."""
    if gpus := visible_gpus():
        counted = "a GPU" if len(gpus) == 1 else f"{len(gpus)} GPUs"
        return f"computing on {counted} ({'; '.join(map(str, gpus))}) in {precision}"
    cores = usable_cores()
    text = f"computing on the processor, {cores} core{'s' if cores > 1 else ''}, in {precision}"
    return f"{text}. An NVIDIA GPU is there, but {reason}" if (reason := idle_gpu()) else text


def idle_gpu() -> str | None:
    """Returns why an NVIDIA GPU that is there is not used, and how to mend it; None where that is as it should be."""
    return None if tf.config.list_physical_devices("GPU") else why_unseen()


def parallel_batches() -> int:
    """Returns the number of batches to search or read in parallel: 1 on a GPU, a few on a processor."""
    return min(usable_cores(), sizes().most_batches)


def slices_per_update() -> int:
    """Returns the number of slices of a batch that an update computes in parallel; see `Sizes`."""
    return sizes().update_slices


def _cpu_multiplies_bfloat16() -> bool:
    with suppress(OSError):
        return not {"amx_bf16", "avx512_bf16"}.isdisjoint(Path("/proc/cpuinfo").read_text(encoding="utf-8").split())
    return False


@contextmanager
def _connecting() -> Iterator[None]:
    """Ends the process if the block, which stops Python, takes too long, as where a worker has ended after `meet`."""
    try:
        previous = signal.signal(signal.SIGALRM, signal.SIG_DFL)
    except (AttributeError, ValueError):  # Windows has no alarm, and Python handles signals in the main thread only
        yield
        return
    signal.alarm(CONNECT_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


BFLOAT16_SINCE, FLOAT16_SINCE = (8, 0), (7, 0)
"""The compute capabilities from which on NVIDIA's GPUs have units for products in these formats: Ampere, and Volta."""


class Gpu(NamedTuple):
    """A GPU.

    - name: of the product.
    - capability: NVIDIA's compute capability, such as (8, 0); None for another maker's.
    """

    name: str
    capability: tuple[int, int] | None

    def __str__(self) -> str:
        known = f", compute capability {'.'.join(map(str, self.capability))}" if self.capability else ""
        return f"{self.name}{known}"


def visible_gpus() -> list[Gpu]:
    """Returns the GPUs that are used."""
    devices = tf.config.get_visible_devices("GPU")
    known = [(device, tf.config.experimental.get_device_details(device)) for device in devices]
    return [Gpu(one.get("device_name", device.name), one.get("compute_capability")) for device, one in known]


def fast_formats() -> list[str]:
    """Returns the Keras dtype policies whose products the processor, or all GPUs in use, have units for, the best
    first; float16 for a single GPU alone, see `training.step.TrainStep`."""
    gpus = visible_gpus()
    if not gpus:
        return ["mixed_bfloat16"] if _cpu_multiplies_bfloat16() else []
    least = min(gpu.capability or (0, 0) for gpu in gpus)
    since = {"mixed_bfloat16": BFLOAT16_SINCE, "mixed_float16": FLOAT16_SINCE}
    if len(gpus) > 1:
        del since["mixed_float16"]
    return [policy for policy, capability in since.items() if least >= capability]


def gpu_memory() -> list[int]:
    """Returns the memory that TensorFlow may take of each GPU in use, in bytes."""
    from tensorflow.python.client.device_lib import list_local_devices  # the only one that tells it

    return [device.memory_limit for device in list_local_devices() if device.device_type == "GPU"]


MOST_WORKERS = 4  # each holds a batch in memory


@dataclass(frozen=True)
class Sizes:
    """The sizes of what is computed at once.

    Attributes:
        update_slices: slices of a batch that an update computes side by side.
        loss_chunk_tokens: tokens whose scores over the vocabulary exist at the same time, in the cross-entropy.
        divergence_chunk_tokens: the same of either pass, in R-Drop's divergence.
        matrix_groups: groups of matrices of one shape that Muon makes orthogonal side by side.
        search_sentences: sentences that are translated in one batch, unless `decoding.batch_sentences` says it.
        most_batches: batches that are searched or read side by side, at most.
    """

    update_slices: int
    loss_chunk_tokens: int
    divergence_chunk_tokens: int
    matrix_groups: int
    search_sentences: int
    most_batches: int


CPU = Sizes(
    # Not by the number of cores, so that a seed gives the same random numbers on every processor;
    # `qkv.runtime.import_tensorflow` divides the cores between the slices.
    update_slices=CORE_GROUPS,
    # (1024, V) or twice (512, V) float32 scores fit a CPU's last cache for V of some thousands.
    loss_chunk_tokens=1024,
    divergence_chunk_tokens=512,
    matrix_groups=CORE_GROUPS,
    search_sentences=64,
    most_batches=MOST_WORKERS,
)
# Not tuned yet. (4096, V) scores of 32,000 words are half a gigabyte in float32.
GPU = Sizes(
    update_slices=1,
    loss_chunk_tokens=4096,
    divergence_chunk_tokens=2048,
    matrix_groups=1,
    search_sentences=512,
    most_batches=1,
)


def sizes() -> Sizes:
    """Returns the sizes for the device that computes."""
    return GPU if visible_gpus() else CPU


MATRIX = 1024  # rows and columns of the matrices that are multiplied to measure the device


def product_rate(dtype: str) -> float:
    """Measures the arithmetic operations per second of matrix products in a number format, as the best of four runs."""
    x = tf.cast(tf.random.normal((MATRIX, MATRIX)), dtype)
    return 2 * MATRIX**3 / min(timeit.repeat(lambda: tf.matmul(x, x).numpy(), number=1, repeat=4))
