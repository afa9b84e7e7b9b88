"""Parallel maps that keep the order, by threads or by processes.

The products of a small model are too small to be shared between the cores of a processor. Each core, or group of
cores, gets work of its own instead: slices of a batch in training, batches in search and in teacher-forced passes. What
Python itself computes is done in processes, since its threads would take turns.
"""

import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import suppress
from itertools import chain, islice
from multiprocessing import get_context, parent_process
from queue import Full, Queue
from threading import Event, Thread
from typing import TypeVar

PATIENCE_SECONDS = 0.1  # between two looks at whether the results are still wanted

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_processes(function: Callable[[Item], Result], items: Iterable[Item], processes: int) -> Iterator[Result]:
    """Computes `map(function, items)` in processes, in order.

    They end with this one, however it ends. A thread reads the items, which may arrive one by one, such as lines that
    are typed: each result is yielded as soon as it and those before it are there. At most `processes + 2` items are
    computed ahead of the caller, so that memory stays flat.

    Args:
        function: can be pickled, and is sent to each process once.
        items: can be pickled; read as they are needed.
        processes: their number; 1 for this one. Others are spawned, not forked: TensorFlow would not survive that.
    """
    if processes == 1:
        yield from map(function, items)
        return
    ahead: Queue[Future[Result] | Exception | None] = Queue(processes + 1)
    ended = Event()

    def put(arrived: Future[Result] | Exception | None) -> None:
        while not ended.is_set():
            with suppress(Full):
                ahead.put(arrived, timeout=PATIENCE_SECONDS)
                return

    def feed(pool: ProcessPoolExecutor) -> None:
        try:
            for item in items:
                put(pool.submit(_compute, item))
                if ended.is_set():
                    return
            put(None)
        except Exception as error:  # raised again where the results are used
            put(error)

    with ProcessPoolExecutor(processes, get_context("spawn"), _start, (function,)) as pool:
        try:
            Thread(target=feed, args=(pool,), daemon=True).start()
            while (arrived := ahead.get()) is not None:
                if isinstance(arrived, Exception):
                    raise arrived
                yield arrived.result()
        finally:
            ended.set()
            pool.shutdown(cancel_futures=True)


_function: Callable = print  # what a process computes; set in each when it starts


def _start(function: Callable) -> None:
    global _function
    _function = function
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all; the caller says what happens then
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _compute(item):
    return _function(item)


def in_threads(function: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """Computes `map(function, items)` in threads, in order.

    At most `workers` items are computed ahead of the caller, so that memory stays flat. A single item needs no thread,
    which would take as long as a short sentence.
    """
    stream = iter(items)
    first = list(islice(stream, 2))
    if len(first) < 2:
        yield from map(function, first)
        return
    ahead: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        for item in chain(first, stream):
            ahead.append(pool.submit(function, item))
            if len(ahead) > workers:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
