"""Threads that compute a few results ahead of the reader."""

import threading

import pytest

from pipeline.runtime.cores import in_order
from tests.patience import PATIENCE_SECONDS


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_results_come_in_the_order_of_the_items(workers):
    last = threading.Event()

    def late(item):
        if workers > 1 and item == 0:
            assert last.wait(PATIENCE_SECONDS)  # the first ends after the second
        if item == 1:
            last.set()
        return item * item

    assert list(in_order(late, range(20), workers)) == [item * item for item in range(20)]


def test_only_some_items_are_taken_ahead_of_the_reader():
    taken = []
    results = in_order(lambda item: item, (taken.append(item) or item for item in range(100)), workers=2)
    next(results)
    assert len(taken) == 3


def test_an_exception_of_a_worker_reaches_the_reader():
    def fails(item):
        if item == 3:
            raise ValueError("three")
        return item

    results = in_order(fails, range(10), workers=2)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="three"):
        next(results)
