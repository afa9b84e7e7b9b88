"""Joins the calls of several threads: one thread computes them, and those that wait at the same time are one call.

A model translates many sentences at once in much less time than one after the other.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")

MOST_TOGETHER = 8_000
"""The largest number of characters that are computed together, about a hundred sentences. A longer call is computed in
parts, so that the calls of other threads have their turn between these parts."""

MOST_WAITING = 32
"""The largest number of waiting calls. The server has room for a few more connections, see `server.MOST_CONNECTIONS`,
so that further clients can be told."""


class BusyError(Exception):
    """Too many calls are waiting."""


class _Call(Generic[Result]):
    """A call of a function of several texts.

    Args:
        function: takes a list of texts and returns a list with a result for each text.
        texts: the texts.
    """

    def __init__(self, function: Callable[[list[str]], list[Result]], texts: list[str]) -> None:
        self.function = function
        self.texts = texts
        self.characters = sum(map(len, texts))
        self.results: list[Result] = []
        self.error: Exception | None = None
        self.done = threading.Event()


class BatchedCalls:
    """Calls functions of texts for many threads, one call after the other, in a thread of its own.

    Calls of the same function that wait at the same time are joined to one call.

    Args:
        turn: the lock that is held during a call. Other code that uses the same models holds it too.
    """

    def __init__(self, turn: threading.Lock) -> None:
        self._turn = turn
        self._waiting: deque[_Call[Any]] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._compute_all, daemon=True)
        self._thread.start()

    def call(self, function: Callable[[list[str]], list[Result]], texts: Sequence[str], seconds: float) -> list[Result]:
        """Returns the result of a function for each text. Blocks until all are computed.

        Args:
            function: takes a list of texts and returns a list with a result for each text. The list may have the texts
                of several calls, or a part of the texts of this call.
            texts: the texts.
            seconds: the time limit.

        Raises:
            BusyError: `MOST_WAITING` calls are waiting, or the calls have been closed.
            TimeoutError: the time is over.
            Exception: the function has raised it.
        """
        end = time.monotonic() + seconds
        results: list[Result] = []
        for part in _cut(texts):
            call = _Call(function, part)
            with self._changed:
                if self._closed or len(self._waiting) >= MOST_WAITING:
                    raise BusyError
                self._waiting.append(call)
                self._changed.notify()
            if not call.done.wait(max(end - time.monotonic(), 0)):
                self._forget(call)
                raise TimeoutError
            if call.error:
                raise call.error
            results += call.results
        return results

    def close(self) -> None:
        """Computes the calls that are waiting, accepts no more, and ends the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _forget(self, call: _Call[Any]) -> None:
        """Removes a call that waits; nothing is done if it is being computed."""
        with self._changed:
            if call in self._waiting:
                self._waiting.remove(call)

    def _compute_all(self) -> None:
        """Computes calls until `close`. The thread runs this method."""
        while calls := self._take():
            with self._turn:
                _compute(calls)

    def _take(self) -> list[_Call[Any]]:
        """Waits for calls, and takes the oldest call and those that are computed with it; none after `close`."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            calls: list[_Call[Any]] = []
            characters = 0
            for call in list(self._waiting):
                if not calls or (call.function == calls[0].function and characters + call.characters <= MOST_TOGETHER):
                    calls.append(call)
                    characters += call.characters
                    self._waiting.remove(call)
            return calls


def _compute(calls: Sequence[_Call[Any]]) -> None:
    """Computes calls of the same function together. If that fails, each is computed alone, for one may be the cause."""
    try:
        results = calls[0].function([text for call in calls for text in call.texts])
    except Exception as error:
        if len(calls) > 1:
            for call in calls:
                _compute([call])
        else:
            calls[0].error = error
            calls[0].done.set()
        return
    remaining = iter(results)
    for call in calls:
        call.results = [next(remaining) for _ in call.texts]
        call.done.set()


def _cut(texts: Sequence[str]) -> Iterator[list[str]]:
    """Yields the texts in parts of at most `MOST_TOGETHER` characters, or of one text that is longer."""
    part: list[str] = []
    characters = 0
    for text in texts:
        if part and characters + len(text) > MOST_TOGETHER:
            yield part
            part, characters = [], 0
        part.append(text)
        characters += len(text)
    if part:
        yield part
