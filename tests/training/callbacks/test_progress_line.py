"""What a person sees while a run trains: plain lines in a file, one rewritten line on a terminal."""

import io

import pytest

from qkv.training.callbacks.progress_line import ProgressLine, clock
from qkv.training.progress import Progress
from qkv.training.stopping import Limits

FIRST = {"update": 50, "epoch": 0, "minutes": 1.0, "loss": 5.4321, "learning_rate": 1e-3}
SECOND = {**FIRST, "update": 100, "minutes": 1.5, "loss": 4.5, "tokens_per_second": 12345.6}
VALIDATION = {**SECOND, "val_loss": 4.25, "val_perplexity": 70.1, "val_token_accuracy": 0.31, "val_bleu": 1.5}


class Terminal(io.StringIO):
    def isatty(self):
        return True


def show(stream, limits=None):
    line = ProgressLine(limits or Limits(max_updates=200), updates_per_epoch=80, progress=Progress(), stream=stream)
    line.on_train_batch_end(49, FIRST)
    line.on_train_batch_end(50, {})  # between two lines of logs nothing is said
    line.on_train_batch_end(99, SECOND)
    line.on_test_end(VALIDATION)
    return stream.getvalue()


def test_in_a_file_every_report_is_a_plain_line():
    text = show(io.StringIO())
    assert "\r" not in text and "\x1b" not in text and text.endswith("\n")
    first, second, validation = text.splitlines()
    assert first == "update     50  epoch 1  loss 5.432  learning rate 1.00e-03"
    assert second == "update    100  epoch 1  loss 4.500  12,346 tokens/s  learning rate 1.00e-03  1:00 left"
    assert "validation: loss 4.250  perplexity 70.10  accuracy 0.310  BLEU 1.50  after 1:30" in validation


def test_on_a_terminal_one_line_is_rewritten_and_validations_stay():
    text = show(Terminal())
    assert text.count("\n") == 1 and text.endswith("\n")
    written = text.removesuffix("\n").split("\r\x1b[K")
    assert [part[:13] for part in written] == ["", "update     50", "[############", "update    100"]
    assert "[############--------]  60 %  1:00 left  update    100" in text and "validation" in written[-1]


@pytest.mark.parametrize(
    ("limits", "left"),
    [
        (Limits(max_minutes=2), "0:30 left"),
        (Limits(max_epochs=2), "0:36 left"),
        (Limits(max_updates=200, max_minutes=100), "1:00 left"),
        (Limits(max_updates=2000, max_minutes=1.75), "0:15 left"),
        (Limits(), None),
    ],
)
def test_the_time_left_is_that_to_the_nearest_limit(limits, left):
    second = show(io.StringIO(), limits).splitlines()[1]
    assert second.endswith(left) if left else "left" not in second


def test_clock_shows_hours_only_where_there_are_some():
    assert [clock(seconds) for seconds in (-3, 5, 125, 3725)] == ["0:00", "0:05", "2:05", "1:02:05"]


def silent(stream, progress, moments):
    """Shows updates without logs, at moments in seconds."""
    line = ProgressLine(Limits(max_updates=10), updates_per_epoch=80, progress=progress, stream=stream)
    for progress.update, progress.seconds in enumerate(moments, 1):
        line.on_train_batch_end(progress.update - 1, {})
    return stream.getvalue()


def test_a_line_is_printed_after_ten_seconds_without_one():
    lines = silent(io.StringIO(), Progress(), [4, 8, 12, 16, 21, 22.5, 33]).splitlines()
    assert [line.split("  epoch")[0] for line in lines] == ["update      3", "update      6", "update      7"]
    assert lines[1].endswith("epoch 1  0:14 left")


def test_the_silence_of_a_resumed_run_begins_with_its_session():
    assert silent(io.StringIO(), Progress(seconds=1000), [1004, 1009.9]) == ""


def test_a_line_on_a_terminal_is_cut_where_the_terminal_would_wrap_it(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("LINES", "9")
    parts = show(Terminal()).split("\r\x1b[K")
    assert [len(part) for part in parts[2:3]] == [39]


def test_a_terminal_says_when_training_starts_and_when_it_is_validated_and_a_file_does_not():
    for stream, statuses in ((Terminal(), 2), (io.StringIO(), 0)):
        line = ProgressLine(Limits(max_updates=200), 80, Progress(), stream)
        line.on_train_begin()
        line.on_test_begin()
        assert stream.getvalue().count("\r\x1b[K") == statuses


def test_a_resumed_run_says_where_it_continues():
    stream = io.StringIO()
    ProgressLine(Limits(max_updates=2000), 80, Progress(update=1234), stream).on_train_begin()
    assert stream.getvalue() == "continuing after 1,234 updates\n"


def test_the_time_left_by_the_clock_is_that_to_the_total_once_it_is_known():
    for total, left in ((None, "0:30 left"), (130, "0:18 left")):
        stream = io.StringIO()
        limits = Limits(max_minutes=2, measured=True)
        line = ProgressLine(limits, 80, Progress(total_updates=total), stream)
        line.on_train_batch_end(49, FIRST)
        line.on_train_batch_end(99, SECOND)
        assert stream.getvalue().splitlines()[1].endswith(left)


def test_the_time_in_which_the_total_is_measured_does_not_count_in_the_time_left():
    stream, progress = io.StringIO(), Progress()
    line = ProgressLine(Limits(max_minutes=5, measured=True), 80, progress, stream)
    line.on_train_batch_end(49, FIRST)
    progress.total_updates = 400
    line.on_train_batch_end(99, {**SECOND, "minutes": 2.0})
    line.on_train_batch_end(199, {**SECOND, "update": 200, "minutes": 3.0})
    assert [row.split("  ")[-1] for row in stream.getvalue().splitlines()] == ["4:00 left", "3:00 left", "2:00 left"]
