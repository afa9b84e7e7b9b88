"""Parallel work: the products of a small model are too small to be shared between the cores of a processor.

Each core, or group of cores, gets work of its own instead: slices of a batch in training, batches in search and in
teacher-forced passes.
"""

import math
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from .cpu_quota import cpu_quota

CORE_GROUPS = 2  # groups of cores that compute a slice of an update each

Item = TypeVar("Item")
Result = TypeVar("Result")


def usable_cores() -> int:
    """Returns the number of processor cores that this process may use, by its affinity and its container's quota."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = cpu_quota()
    return cores if quota is None else max(1, min(cores, math.ceil(quota)))


def in_order(function: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """Computes `map(function, items)` in threads, in order.

    At most `workers` items are computed ahead of the caller, so that memory stays flat.
    """
    ahead: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        for item in items:
            ahead.append(pool.submit(function, item))
            if len(ahead) > workers:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
