"""Parallel versions of `map`, in threads or in processes. Results keep the order of the items.

The matrix products of a small model are too small to be divided between the cores of a processor. Instead, each core or
group of cores computes different data: slices of a batch in training, batches in search and in teacher-forced passes.
TensorFlow's work is done in threads. Python code is run in processes, because Python's threads run one at a time.
"""

import os
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing, suppress
from itertools import chain, islice
from multiprocessing import get_context, parent_process
from queue import Full, Queue
from threading import Event, Thread
from typing import TypeVar

RETRY_SECONDS = 0.1  # between two checks whether the caller still wants results

Item = TypeVar("Item")
Result = TypeVar("Result")


def read_ahead(items: Iterator[Item], count: int) -> Generator[Item, None, None]:
    """Reads an iterator in another thread, up to `count + 1` items ahead of the caller.

    Args:
        items: the items. After the caller has stopped, one more is read at most.
        count: the number of items, at least 1.

    Yields:
        The items in order.

    Raises:
        Exception: an error of the iterator is raised at its position among the items.
    """
    ahead: Queue[tuple[Item] | Exception | None] = Queue(count)
    ended = Event()

    def put(entry: tuple[Item] | Exception | None) -> None:
        while not ended.is_set():
            with suppress(Full):
                ahead.put(entry, timeout=RETRY_SECONDS)
                return

    def read() -> None:
        try:
            for item in items:
                put((item,))
                if ended.is_set():
                    return
            put(None)
        except Exception as error:  # raised again in the caller's thread
            put(error)

    try:
        Thread(target=read, daemon=True).start()
        while (entry := ahead.get()) is not None:
            if isinstance(entry, Exception):
                raise entry
            yield entry[0]
    finally:
        ended.set()


def in_processes(function: Callable[[Item], Result], items: Iterable[Item], processes: int) -> Iterator[Result]:
    """Computes `map(function, items)` in several processes.

    The processes are spawned, not forked, because TensorFlow does not work in forked processes. They end with this
    process, even if it is killed.

    Args:
        function: the function, which must be picklable. It is sent to each process once.
        items: the items, which must be picklable. A thread reads them as they are needed, so they may arrive slowly,
            like typed lines. At most `processes + 2` items are computed ahead of the caller, to limit memory.
        processes: the number of processes, at least 1. With 1, the function is computed in this process.

    Yields:
        The results, in the order of the items. Each is yielded as soon as it and the ones before it are computed.

    Raises:
        Exception: an error of the function or of the iterator of items is raised at its position among the results.
    """
    if processes == 1:
        yield from map(function, items)
        return
    with ProcessPoolExecutor(processes, get_context("spawn"), _start, (function,)) as pool:
        futures = read_ahead((pool.submit(_compute, item) for item in items), processes + 1)
        try:
            with closing(futures):
                for future in futures:
                    yield future.result()
        finally:
            pool.shutdown(cancel_futures=True)


_function: Callable = print  # the function that a spawned process computes; `_start` sets it


def _start(function: Callable) -> None:
    """Sets up a spawned process: `_compute` calls `function`. The process ignores Ctrl-C, and ends with its parent."""
    global _function
    _function = function
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all processes; the parent decides what happens
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Waits until the parent process has ended, then ends this process."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _compute(item):
    """Returns the function of this spawned process, see `_start`, applied to an item."""
    return _function(item)


def in_threads(function: Callable[[Item], Result], items: Iterable[Item], threads: int) -> Iterator[Result]:
    """Computes `map(function, items)` in several threads.

    Args:
        function: the function.
        items: the items, which are read as they are needed. At most `threads` of them are computed ahead of the caller,
            to limit memory.
        threads: the number of threads, at least 1. A single item is computed in this thread.

    Yields:
        The results, in the order of the items.

    Raises:
        Exception: an error of the function or of the iterator of items is raised at its position among the results.
    """
    iterator = iter(items)
    first_two = list(islice(iterator, 2))
    if len(first_two) < 2:  # starting a thread would take as long as translating a short sentence
        yield from map(function, first_two)
        return
    ahead: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for item in chain(first_two, iterator):
            ahead.append(pool.submit(function, item))
            if len(ahead) > threads:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
