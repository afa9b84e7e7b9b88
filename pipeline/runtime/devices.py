"""What a run computes on: which devices, in which number format."""

import json
import os
from pathlib import Path

import tensorflow as tf

from .cores import CORE_GROUPS, usable_cores

MOST_WORKERS = 4  # each has a batch in memory


def make_strategy() -> tf.distribute.Strategy:
    """Several machines where `TF_CONFIG` names them, all GPUs of this one where it has several, else one device.

    Must come before anything else that uses TensorFlow.
    """
    if "cluster" in json.loads(os.environ.get("TF_CONFIG") or "{}"):
        return tf.distribute.MultiWorkerMirroredStrategy()
    if len(tf.config.list_logical_devices("GPU")) > 1:
        return tf.distribute.MirroredStrategy()
    return tf.distribute.get_strategy()


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Whether this process is the one that writes the run."""
    resolver = strategy.cluster_resolver
    if resolver is None or not resolver.task_type:
        return True
    return resolver.task_type == "chief" or (
        resolver.task_type == "worker" and resolver.task_id == 0 and "chief" not in resolver.cluster_spec().jobs
    )


def resolve_precision(precision: str) -> str:
    """The Keras dtype policy for a `training.precision`: `auto` is `mixed_bfloat16` where hardware multiplies it.

    That is GPUs, and CPUs with AMX or AVX-512 BF16 instructions; any other CPU would convert back and forth.
    """
    if precision != "auto":
        return precision
    if tf.config.list_physical_devices("GPU"):
        return "mixed_bfloat16"
    return "mixed_bfloat16" if _cpu_multiplies_bfloat16() else "float32"


def parallel_batches() -> int:
    """How many batches are best searched or read side by side: one on a GPU, some on a processor of several cores."""
    return 1 if tf.config.list_physical_devices("GPU") else min(usable_cores(), MOST_WORKERS)


def slices_per_update() -> int:
    """In how many parts an update's batch is best computed, side by side.

    Two on a processor, whatever its number of cores, so that a seed means the same random numbers everywhere;
    `pipeline.runtime.import_tensorflow` shares the cores between them.
    """
    return 1 if tf.config.list_physical_devices("GPU") else CORE_GROUPS


def _cpu_multiplies_bfloat16() -> bool:
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as file:
            flags = next((line.split() for line in file if line.startswith("flags")), [])
    except OSError:
        return False
    return bool({"amx_bf16", "avx512_bf16"} & set(flags))
