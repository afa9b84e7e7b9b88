"""Threads and processes compute in order, hand on errors, and do not outlive the process that has started them."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from functools import partial
from itertools import count
from queue import Queue

import pytest

from qkv.runtime.machine import is_running
from qkv.runtime.parallel import in_processes, in_threads, read_ahead
from tests.support.processes import PATIENCE_SECONDS

STARTS_AND_WAITS = """
import time
from qkv.runtime.parallel import in_processes
from tests.support.processes import tell_process

if __name__ == "__main__":
    for process in in_processes(tell_process, range(2), 2):
        print(process, flush=True)
        time.sleep(1000)
"""


def test_results_come_in_order_from_other_processes():
    assert list(in_processes(partial(pow, 2), range(7), 2)) == [1, 2, 4, 8, 16, 32, 64]


def test_errors_are_handed_on_and_nothing_is_left():
    with pytest.raises(ZeroDivisionError):
        list(in_processes((1).__truediv__, [1, 0, 1], 2))
    assert not multiprocessing.active_children()


def test_each_result_of_a_stream_comes_before_the_next_item_and_few_items_are_read_ahead():
    came, read = Queue(), []

    def items():
        for number in range(40):
            read.append(number)
            yield number
            if number < 5:
                came.get(timeout=PATIENCE_SECONDS)  # the result of this item is there

    for number, result in enumerate(in_processes(abs, items(), 2)):
        assert result == number
        came.put(number)
        assert len(read) <= number + 6
    assert read == list(range(40))


def test_an_error_of_what_is_streamed_comes_after_the_results_before_it():
    def items():
        yield 1
        raise KeyError("line 2")

    results = in_processes(abs, items(), 2)
    assert next(results) == 1
    with pytest.raises(KeyError):
        next(results)


def test_a_stream_that_nobody_reads_any_more_ends():
    results = in_processes(abs, count(), 2)
    assert [next(results), next(results)] == [0, 1]
    results.close()
    assert not multiprocessing.active_children()


def test_processes_end_with_the_one_that_has_started_them(tmp_path):
    script = tmp_path / "starts.py"
    script.write_text(STARTS_AND_WAITS)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True, env=environment) as starter:
        worker = int(starter.stdout.readline())
        assert is_running(worker)
        starter.send_signal(signal.SIGKILL)
        starter.communicate(timeout=PATIENCE_SECONDS)  # until nobody has the pipe any more, the workers neither


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_come_in_the_order_of_the_items(threads):
    last = threading.Event()

    def late(item):
        if threads > 1 and item == 0:
            assert last.wait(PATIENCE_SECONDS)  # the first ends after the second
        if item == 1:
            last.set()
        return item * item

    assert list(in_threads(late, range(20), threads)) == [item * item for item in range(20)]


def test_only_some_items_are_taken_ahead_of_the_reader():
    taken = []
    results = in_threads(lambda item: item, (taken.append(item) or item for item in range(100)), threads=2)
    next(results)
    assert len(taken) == 3


def test_another_thread_reads_ahead_as_many_items_as_it_may():
    read, threads = Queue(), set()

    def items():
        for item in range(20):
            threads.add(threading.current_thread())
            read.put(item)
            yield item

    results = read_ahead(items(), 3)
    assert next(results) == 0
    assert [read.get(timeout=PATIENCE_SECONDS) for _ in range(5)] == [0, 1, 2, 3, 4]  # one taken, three kept, one held
    assert read.empty()
    assert list(results) == list(range(1, 20))
    assert threading.current_thread() not in threads and len(threads) == 1


def test_a_thread_that_reads_ahead_ends_with_its_reader_and_hands_on_errors():
    def items():
        threads.append(threading.current_thread())
        yield 1
        yield 2
        raise KeyError("line 3")

    threads = []
    results = read_ahead(items(), 5)
    assert [next(results), next(results)] == [1, 2]
    with pytest.raises(KeyError, match="line 3"):
        next(results)
    endless = read_ahead((threads.append(threading.current_thread()) or item for item in count()), 1)
    assert next(endless) == 0
    endless.close()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()


def test_a_single_item_is_computed_by_the_reader_itself():
    (found,) = in_threads(lambda item: (item, threading.current_thread()), ["a"], threads=2)
    assert found == ("a", threading.current_thread())
    assert list(in_threads(str, [], threads=2)) == []


def test_an_exception_of_a_thread_reaches_the_reader():
    def fails(item):
        if item == 3:
            raise ValueError("three")
        return item

    results = in_threads(fails, range(10), threads=2)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="three"):
        next(results)
