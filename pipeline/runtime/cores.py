"""Work side by side: the products of a small model are too small to be shared by the cores of a processor.

So cores are given work each: parts of a batch in training, batches of their own in search and forced passes.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

# Into which an update's work is cut on a processor; each is computed by its share of the cores.
CORE_GROUPS = 2

Item = TypeVar("Item")
Result = TypeVar("Result")


def usable_cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_order(function: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """`map(function, items)`, computed by threads that are at most `workers` items ahead, so that memory stays flat."""
    ahead: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        for item in items:
            ahead.append(pool.submit(function, item))
            if len(ahead) > workers:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
