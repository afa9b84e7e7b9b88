"""Checks what the environment tells TensorFlow, before it is loaded: wrong values would end the process without a
word of what was wrong."""

import json
import os
from dataclasses import dataclass
from typing import Any

from ..errors import InputError

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

THREADS = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS")
MOST_THREADS = 10_000
JOBS = ("chief", "worker")  # that train
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


@dataclass(frozen=True)
class Cluster:
    """The workers that train together, the chief first.

    Args:
        addresses: `HOST:PORT` of each.
        names: of each, as `TF_CONFIG` has them: `worker 0`.
        index: the place of this process among them.
    """

    addresses: tuple[str, ...]
    names: tuple[str, ...]
    index: int

    def __len__(self) -> int:
        return len(self.addresses)

    @property
    def is_chief(self) -> bool:
        """Whether this process is the one that prepares, validates and writes the run."""
        return self.index == 0

    def describe(self, index: int) -> str:
        """Returns the name and the address of a worker, for messages."""
        return f"{self.names[index]} ({self.addresses[index]})"

    def address(self, index: int) -> tuple[str, int]:
        """Returns host and port of a worker."""
        host, _, port = self.addresses[index].rpartition(":")
        return host.strip("[]"), int(port)


def count_workers() -> int:
    """Returns the number of machines that train together, by `TF_CONFIG`; 1 without it.

    Raises:
        InputError: it is not as TensorFlow documents it.
    """
    cluster = read_cluster()
    return 1 if cluster is None else len(cluster)


def read_cluster() -> Cluster | None:
    """Returns the machines that train together, by `TF_CONFIG`; None where it names less than two.

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
    cluster, task = value.get("cluster", {}), value.get("task", {})
    tasks = [(job, number) for job in JOBS for number in range(len(cluster.get(job, [])))]
    if len(tasks) < 2:
        return None
    return Cluster(
        tuple(cluster[job][number] for job, number in tasks),
        tuple(f"{job} {number}" for job, number in tasks),
        _find_own_place(tasks, task, [cluster[job][number] for job, number in tasks]),
    )


def _find_own_place(tasks: list[tuple[str, int]], task: dict[str, Any], addresses: list[str]) -> int:
    own = (task.get("type"), task.get("index"))
    if own not in tasks:
        raise InputError(f"TF_CONFIG: expected a task of type {' or '.join(JOBS)}, found {own[0]!r}")
    for address in addresses:
        port = address.rpartition(":")[2]
        if not (port.isdecimal() and len(port) <= 5 and 0 < int(port) < 1 << 16):
            raise InputError(f"TF_CONFIG: expected addresses as HOST:PORT, found {address[:80]!r}")
    return tasks.index(own)


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
