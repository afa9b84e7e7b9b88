"""Chooses the devices of a run, their number format, and the sizes of the work that they do at once."""

import os
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
# more. All code that loads or trains a model imports this module, so that float32 is exact.
tf.config.experimental.enable_tensor_float_32_execution(False)


def choose_devices(gpus: int | None, deterministic: bool) -> None:
    """Chooses which GPUs of this machine TensorFlow uses, and whether it computes deterministically.

    Call it before `make_strategy`.

    Args:
        gpus: the number of GPUs to use, in TensorFlow's order; 0 for the processor, None for all GPUs.
        deterministic: if True, every operation gives the same result every time, for the rest of the process.

    Raises:
        InputError: the machine has fewer GPUs than `gpus`, or TensorFlow has initialised them already.
    """
    if deterministic:
        tf.config.experimental.enable_op_determinism()
    all_gpus = tf.config.list_physical_devices("GPU")
    if gpus is not None and gpus > len(all_gpus):
        hint = f"; the machine has an NVIDIA GPU, but {reason}" if (reason := idle_gpu()) else ""
        raise InputError(
            f"run.devices: expected at most {len(all_gpus)}, the number of GPUs that TensorFlow sees, "
            f"found {gpus}{hint}"
        )
    if gpus is None or all_gpus[:gpus] == tf.config.get_visible_devices("GPU"):
        return
    try:
        tf.config.set_visible_devices(all_gpus[:gpus], "GPU")
    except RuntimeError:
        raise InputError(
            f"run.devices: this process uses the {len(all_gpus)} GPUs already, so {gpus} of them cannot be chosen any "
            "more; start another process"
        ) from None


COLLECTIVE_SECONDS = 1800.0  # the time for which an update waits for a worker that is connected but does not answer


def make_strategy() -> tf.distribute.Strategy:
    """Returns the distribution strategy for training.

    It distributes over all workers if `TF_CONFIG` has several. Otherwise it distributes over all GPUs in use if there
    are several. Otherwise it uses one device.

    Call it before anything else that uses TensorFlow, but after `choose_devices` and `runtime.workers.join_workers`.
    """
    if read_cluster():
        options = tf.distribute.experimental.CommunicationOptions(timeout_seconds=COLLECTIVE_SECONDS)
        with _connecting():
            return tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    if len(tf.config.list_logical_devices("GPU")) > 1:
        return tf.distribute.MirroredStrategy()
    return tf.distribute.get_strategy()


def resolve_precision(precision: str) -> str:
    """Returns the Keras dtype policy for a value of the setting `training.precision`.

    `auto` becomes the first of `fast_formats`: `mixed_bfloat16` on GPUs of compute capability 8.0 or more and on CPUs
    with AMX or AVX-512 BF16, else `mixed_float16` on a single GPU of 7.0 or more, else `float32`. Any other value is
    returned unchanged.
    """
    return next(iter(fast_formats()), "float32") if precision == "auto" else precision


def slow_precision(precision: str) -> str | None:
    """Returns a warning if the device has no instructions for a Keras dtype policy; None otherwise."""
    if precision == "float32" or precision in fast_formats():
        return None
    return (
        f"training.precision {precision}: this device converts every number before it computes, which is slower than "
        f"{resolve_precision('auto')}; auto chooses the precision that suits the device"
    )


def describe_devices(precision: str) -> str:
    """Returns a message that names the devices in use and the Keras dtype policy `precision`.

    If TensorFlow does not see an NVIDIA GPU of the machine, the message says why, and how to fix it.
    """
    if gpus := visible_gpus():
        counted = "a GPU" if len(gpus) == 1 else f"{len(gpus)} GPUs"
        return f"computing on {counted} ({'; '.join(map(str, gpus))}) in {precision}"
    cores = usable_cores()
    text = f"computing on the processor, {cores} core{'s' if cores > 1 else ''}, in {precision}"
    return f"{text}. The machine has an NVIDIA GPU, but {reason}" if (reason := idle_gpu()) else text


def idle_gpu() -> str | None:
    """Returns a message that says why TensorFlow does not see an NVIDIA GPU of the machine, and how to fix it.

    Returns None if TensorFlow sees a GPU, or if `runtime.machine.why_unseen` has no advice.
    """
    return None if tf.config.list_physical_devices("GPU") else why_unseen()


def parallel_batches() -> int:
    """Returns the number of batches that a search or a teacher-forced pass computes in parallel threads.

    It is 1 on a GPU, and up to 4 on a processor.
    """
    return min(usable_cores(), sizes().most_batches)


def slices_per_update() -> int:
    """Returns the number of slices of a batch that an update computes in parallel; see `Sizes`."""
    return sizes().update_slices


ISAS_WITH_BFLOAT16 = ("DEFAULT", "ALL", "AVX512_CORE_BF16", "AVX512_CORE_FP16", "AVX512_CORE_AMX", "AVX10_1_512")
"""Beginnings of the values of ONEDNN_MAX_CPU_ISA with which oneDNN uses instructions for bfloat16."""


def _cpu_multiplies_bfloat16() -> bool:
    """Returns whether oneDNN multiplies bfloat16 by instructions of the processor; False if the system is not Linux.

    The variable ONEDNN_MAX_CPU_ISA (or DNNL_MAX_CPU_ISA) may forbid oneDNN to use them.
    """
    highest = os.environ.get("ONEDNN_MAX_CPU_ISA") or os.environ.get("DNNL_MAX_CPU_ISA") or "DEFAULT"
    if not highest.upper().startswith(ISAS_WITH_BFLOAT16):
        return False
    with suppress(OSError):
        return not {"amx_bf16", "avx512_bf16"}.isdisjoint(Path("/proc/cpuinfo").read_text(encoding="utf-8").split())
    return False


@contextmanager
def _connecting() -> Iterator[None]:
    """Kills the process if the block takes more than `CONNECT_SECONDS`, for example if another worker has ended.

    A timeout in Python would not work: TensorFlow blocks the interpreter while it connects. On Windows and outside the
    main thread there is no time limit.
    """
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
"""The lowest compute capabilities of NVIDIA GPUs with units for bfloat16 products (Ampere) and float16 ones (Volta)."""


class Gpu(NamedTuple):
    """A GPU.

    - name: the product name.
    - capability: NVIDIA's compute capability, such as (8, 0); None for a GPU of another maker.
    """

    name: str
    capability: tuple[int, int] | None

    def __str__(self) -> str:
        """Returns the name, with the compute capability if there is one."""
        suffix = f", compute capability {'.'.join(map(str, self.capability))}" if self.capability else ""
        return f"{self.name}{suffix}"


def visible_gpus() -> list[Gpu]:
    """Returns the GPUs that TensorFlow uses; an empty list if it computes on the processor."""
    gpus = []
    for device in tf.config.get_visible_devices("GPU"):
        details = tf.config.experimental.get_device_details(device)
        gpus.append(Gpu(details.get("device_name", device.name), details.get("compute_capability")))
    return gpus


def fast_formats() -> list[str]:
    """Returns the mixed Keras dtype policies whose products the device computes faster than float32, the best first.

    A processor or a GPU needs special units for these products. If there are several GPUs, all of them need the units.
    `mixed_float16` is returned only for a single GPU, because `training.step.TrainStep` does not support it on several.
    """
    gpus = visible_gpus()
    if not gpus:
        return ["mixed_bfloat16"] if _cpu_multiplies_bfloat16() else []
    lowest_capability = min(gpu.capability or (0, 0) for gpu in gpus)
    needed_capabilities = {"mixed_bfloat16": BFLOAT16_SINCE, "mixed_float16": FLOAT16_SINCE}
    if len(gpus) > 1:
        del needed_capabilities["mixed_float16"]
    return [policy for policy, capability in needed_capabilities.items() if lowest_capability >= capability]


def gpu_memory() -> list[int]:
    """Returns the bytes of memory that TensorFlow may allocate on each GPU in use; an empty list without a GPU."""
    from tensorflow.python.client.device_lib import list_local_devices  # TensorFlow has no public function for it

    return [device.memory_limit for device in list_local_devices() if device.device_type == "GPU"]


def free_gpu_memory() -> int | None:
    """Returns the bytes that TensorFlow may still allocate on the first GPU in use; None without a GPU."""
    if not visible_gpus():
        return None
    return max(gpu_memory()[0] - tf.config.experimental.get_memory_info("GPU:0")["current"], 0)


MOST_PARALLEL_BATCHES = 4  # each is in memory


@dataclass(frozen=True)
class Sizes:
    """The amounts of work that a device does at once. They change speed and memory use.

    Attributes:
        update_slices: the number of slices of a batch that an update computes in parallel.
        loss_chunk_tokens: the number of tokens whose logits over the vocabulary the cross-entropy holds in memory.
        divergence_chunk_tokens: the number of tokens whose logits R-Drop's divergence holds in memory, for each of its
            two passes.
        matrix_groups: the number of groups of equally shaped matrices that Muon orthogonalises in parallel.
        search_sentences: the maximum number of sentences in a batch of a search if `decoding.batch_sentences` is auto.
        most_batches: the largest number of batches that a search or a teacher-forced pass computes in parallel.
    """

    update_slices: int
    loss_chunk_tokens: int
    divergence_chunk_tokens: int
    matrix_groups: int
    search_sentences: int
    most_batches: int


CPU = Sizes(
    # It does not depend on the number of cores, so that a seed gives the same random numbers on every processor.
    # `runtime.import_tensorflow` divides the cores between the slices.
    update_slices=CORE_GROUPS,
    # (1024, V) or twice (512, V) float32 scores fit a CPU's last cache for V of some thousands.
    loss_chunk_tokens=1024,
    divergence_chunk_tokens=512,
    matrix_groups=CORE_GROUPS,
    search_sentences=64,
    most_batches=MOST_PARALLEL_BATCHES,
)
# Not tuned yet. (4096, V) scores of 32,000 words are half a gigabyte in float32.
GPU = Sizes(
    update_slices=1,
    loss_chunk_tokens=4096,
    divergence_chunk_tokens=2048,
    matrix_groups=1,
    # A step takes about as long for one sentence as for some thousands, until the GPU is busy.
    search_sentences=2048,
    most_batches=1,
)


def sizes() -> Sizes:
    """Returns the sizes for the device in use: `GPU` or `CPU`."""
    return GPU if visible_gpus() else CPU


MATRIX_SIZE = 1024  # rows and columns of the matrices that are multiplied to measure the device


def product_rate(dtype: str) -> float:
    """Measures the speed of matrix products in a number format, such as `float32`.

    Returns:
        Arithmetic operations per second, the best of four measurements.
    """
    x = tf.cast(tf.random.normal((MATRIX_SIZE, MATRIX_SIZE)), dtype)
    return 2 * MATRIX_SIZE**3 / min(timeit.repeat(lambda: tf.matmul(x, x).numpy(), number=1, repeat=4))
