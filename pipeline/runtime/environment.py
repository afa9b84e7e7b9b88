"""Checks what the environment tells TensorFlow, before it is loaded: wrong values would end the process without a
word of what was wrong."""

import json
import os
from typing import Any

from ..errors import InputError

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

THREADS = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS")
MOST_THREADS = 10_000
LEAST_ADDRESS_SPACE = 4 << 30  # TensorFlow takes 2 GiB before it computes anything


def check_environment() -> None:
    """Checks numbers of threads, the machines of `TF_CONFIG` and the limit of the address space.

    Raises:
        InputError: one is wrong, or the limit is too low.
    """
    for name in THREADS:
        for value in filter(None, os.environ.get(name, "").split(",")):  # OpenMP takes a number for each level
            if not value.strip().isdecimal() or len(value) > 9 or int(value) > MOST_THREADS:
                raise InputError(
                    f"{name}: expected a number of threads up to {MOST_THREADS}, found {value[:40]!r}: unset {name}"
                )
    count_workers()
    limit = resource.getrlimit(resource.RLIMIT_AS)[0] if resource else -1
    if resource and limit != resource.RLIM_INFINITY and limit < LEAST_ADDRESS_SPACE:
        raise InputError(
            f"the address space is limited to {limit >> 20} MiB; TensorFlow needs at least "
            f"{LEAST_ADDRESS_SPACE >> 20}: ulimit -v unlimited"
        )


def count_workers() -> int:
    """Returns the number of machines that train together, by `TF_CONFIG`; 1 without it.

    Raises:
        InputError: it is not as TensorFlow documents it.
    """
    try:
        value = json.loads(os.environ.get("TF_CONFIG") or "{}")
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or not _is_cluster(value.get("cluster", {}), value.get("task", {})):
        raise InputError(
            'TF_CONFIG: expected {"cluster": {"worker": ["HOST:PORT", ...]}, "task": {"type": "worker", "index": 0}}, '
            f"found {os.environ['TF_CONFIG'][:80]!r}; unset it to train on this machine alone"
        )
    return max(1, sum(len(value.get("cluster", {}).get(job, [])) for job in ("chief", "worker")))


def _is_cluster(cluster: Any, task: Any) -> bool:
    if not isinstance(cluster, dict) or not isinstance(task, dict):
        return False
    machines = [
        isinstance(jobs, list) and all(isinstance(address, str) for address in jobs) for jobs in cluster.values()
    ]
    if not all(machines):
        return False
    if not cluster:
        return True
    index = task.get("index")
    return type(index) is int and 0 <= index < len(cluster.get(str(task.get("type")), []))
