"""Calls of several threads: joined, in order, each thread its own, and none waits for ever."""

import threading
import time

import pytest

from qkv.live.batching import MOST_TOGETHER, MOST_WAITING, BatchedCalls, BusyError
from tests.support.processes import PATIENCE_SECONDS


class Held:
    """Calls that wait until `go`: the first call is being made, and later ones wait for it together."""

    def __init__(self):
        self.calls = BatchedCalls(threading.Lock())
        self.made = []  # the texts of each call of a function
        self.threads = []
        self.begun, self.gate = threading.Event(), threading.Event()
        self.ask(self.hold, ["first"], [])
        assert self.begun.wait(PATIENCE_SECONDS)

    def hold(self, texts):
        self.begun.set()
        assert self.gate.wait(PATIENCE_SECONDS)
        return texts

    def upper(self, texts):
        self.made.append(list(texts))
        return [text.upper() for text in texts]

    def lengths(self, texts):
        self.made.append(list(texts))
        return [len(text) for text in texts]

    def ask(self, function, texts, results):
        """Starts a thread that calls, and notes its results or its error."""

        def ask():
            try:
                results.append(self.calls.call(function, texts, PATIENCE_SECONDS))
            except Exception as error:
                results.append(error)

        self.threads.append(threading.Thread(target=ask, daemon=True))
        self.threads[-1].start()

    def wait_for(self, number):
        """Waits until as many calls wait."""
        while len(self.calls._waiting) != number:
            time.sleep(0)

    def go(self):
        self.gate.set()
        for thread in self.threads:
            thread.join(PATIENCE_SECONDS)
        self.calls.close()


@pytest.fixture
def held():
    held = Held()
    yield held
    held.go()


def test_calls_that_wait_are_one_call_and_each_thread_gets_its_own_results_in_order(held):
    results = [[] for _ in range(5)]
    for i, got in enumerate(results):
        held.ask(held.upper, [f"t{i}.{j}" for j in range(i)], got)
    held.wait_for(4)  # a call without texts does not wait
    held.go()
    assert results == [[[f"T{i}.{j}" for j in range(i)]] for i in range(5)]
    assert len(held.made) == 1 and len(held.made[0]) == 10


def test_calls_of_another_function_are_made_apart_and_the_oldest_first(held):
    results = [[] for _ in range(3)]
    for i, function in enumerate((held.upper, held.lengths, held.upper)):
        held.ask(function, [f"text {i}"], results[i])
        held.wait_for(i + 1)
    held.go()
    assert results == [[["TEXT 0"]], [[6]], [["TEXT 2"]]]
    assert held.made == [["text 0", "text 2"], ["text 1"]]


def test_a_long_call_leaves_others_their_turn(held):
    long, short = [], []
    half = "x" * (MOST_TOGETHER // 2)
    held.ask(held.upper, [half] * 7 + [half * 3], long)
    held.wait_for(1)
    held.ask(held.upper, ["short"], short)
    held.wait_for(2)
    held.go()
    assert long == [[half.upper()] * 7 + [half.upper() * 3]] and short == [["SHORT"]]
    sizes = [sum(map(len, texts)) for texts in held.made]
    assert max(sizes) == 3 * len(half) and sorted(sizes)[-2] <= MOST_TOGETHER
    assert ["short"] in held.made[:2]  # after one part of the long call


def test_a_failure_is_that_of_its_call_alone(held):
    def fail_at_bad(texts):
        if "bad" in texts:
            raise ValueError("bad")
        return texts

    results = [[] for _ in range(3)]
    for i, text in enumerate(("one", "bad", "two")):
        held.ask(fail_at_bad, [text], results[i])
    held.wait_for(3)
    held.go()
    assert results[0] == [["one"]] and results[2] == [["two"]]
    assert isinstance(results[1][0], ValueError)


def test_who_comes_when_enough_wait_is_told_so(held):
    results = []
    for _ in range(MOST_WAITING):
        held.ask(held.upper, ["a"], results)
    held.wait_for(MOST_WAITING)
    with pytest.raises(BusyError):
        held.calls.call(held.upper, ["b"], PATIENCE_SECONDS)
    held.go()
    assert results == [["A"]] * MOST_WAITING


def test_a_call_whose_time_is_over_is_not_made(held):
    with pytest.raises(TimeoutError):
        held.calls.call(held.upper, ["late"], 0.01)
    held.go()
    assert held.made == []


def test_closing_makes_the_calls_that_wait_and_no_more(held):
    results = []
    held.ask(held.upper, ["a"], results)
    held.wait_for(1)
    closing = threading.Thread(target=held.calls.close)
    closing.start()
    held.go()
    closing.join()
    assert results == [["A"]] and not held.calls._thread.is_alive()
    with pytest.raises(BusyError):
        held.calls.call(held.upper, ["b"], PATIENCE_SECONDS)


def test_nothing_is_made_while_others_have_their_turn():
    turn = threading.Lock()
    calls = BatchedCalls(turn)
    with turn, pytest.raises(TimeoutError):
        calls.call(list, ["a"], 0.01)
    assert calls.call(list, ["a"], PATIENCE_SECONDS) == ["a"]
    calls.close()
