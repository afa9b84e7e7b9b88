"""Lines of a stream, in windows of what has arrived."""

import io
import os
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from qkv.errors import InputError
from qkv.text.lines import stream as arriving_lines
from qkv.text.lines.stream import ArrivingLines
from tests.support.processes import PATIENCE_SECONDS


@pytest.fixture
def pipe():
    """The two ends of a pipe, as binary files."""
    out, into = os.pipe()
    with os.fdopen(out, "rb") as reader, os.fdopen(into, "wb", buffering=0) as writer:
        yield reader, writer


@pytest.fixture
def soon():
    """Computes something that would wait for ever if the code were wrong."""
    with ThreadPoolExecutor(1) as pool:
        yield lambda function, *given: pool.submit(function, *given).result(timeout=PATIENCE_SECONDS)


def test_a_line_is_given_while_the_next_is_still_being_typed(pipe, soon):
    reader, writer = pipe
    windows = ArrivingLines(reader).windows()
    writer.write("où ?\nthe next".encode())
    assert soon(next, windows) == ["où ?"]
    writer.write(b" line\n")
    assert soon(next, windows) == ["the next line"]
    writer.close()
    assert soon(list, windows) == []


def test_lines_that_arrive_together_share_a_window(pipe, soon):
    reader, writer = pipe
    windows = ArrivingLines(reader, patience_seconds=PATIENCE_SECONDS).windows()
    writer.write(b"one\n")
    writer.write(b"two\nthree\n")
    writer.close()
    assert soon(list, windows) == [["one", "two", "three"]]


def test_windows_of_a_regular_file_are_full_however_slowly_it_is_read(tmp_path, monkeypatch):
    def read_slowly(stream):
        for line in stream:
            time.sleep(0.002)
            yield line

    monkeypatch.setattr(arriving_lines, "_unlocked", read_slowly)
    path = tmp_path / "lines"
    path.write_text("".join(f"{n}\n" for n in range(25)))
    with path.open("rb") as file:
        windows = list(ArrivingLines(file, window_lines=10, patience_seconds=0).windows())
    assert windows == [[str(n) for n in range(first, min(first + 10, 25))] for first in (0, 10, 20)]


def test_every_line_is_given_once_and_in_order_however_it_arrives(soon):
    random = np.random.default_rng(0)
    text = "".join(f"{n} é\r\n" if n % 7 else "\n" for n in range(300)) + "no line feed"
    for _ in range(5):
        out, into = os.pipe()
        with os.fdopen(out, "rb") as reader, os.fdopen(into, "wb", buffering=0) as writer:
            lines = ArrivingLines(reader, window_lines=8, patience_seconds=0)
            found = soon(feed, lines, writer, text.encode(), random)
        assert found == [line.rstrip("\r") for line in text.split("\n")]


def feed(lines, writer, data, random):
    with ThreadPoolExecutor(1) as pool:

        def write():
            for part in np.split(np.frombuffer(data, np.uint8), np.sort(random.integers(0, len(data), 40))):
                writer.write(part.tobytes())
            writer.close()

        written = pool.submit(write)
        found = [line for window in lines.windows() for line in window]
        written.result()
    return found


def test_no_more_is_read_than_two_windows_ahead():
    read = []

    class Endless(io.BytesIO):
        def __iter__(self):
            while True:
                read.append(1)
                yield b"a line\n"

    windows = ArrivingLines(Endless(), window_lines=10).windows()
    for taken in range(1, 20):
        assert next(windows) == ["a line"] * 10
        assert len(read) <= 10 * (taken + 1) + 1


def test_lines_before_one_that_is_not_utf8_are_given():
    windows = ArrivingLines(io.BytesIO(b"good\nb\xffd\nmore\n")).windows()
    assert next(windows) == ["good"]
    with pytest.raises(InputError, match="standard input:2: byte 0xff is not UTF-8"):
        next(windows)


def test_an_empty_stream_has_no_lines():
    assert list(ArrivingLines(io.BytesIO()).windows()) == []
