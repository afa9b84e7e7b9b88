"""Standard streams that are closed, full or without a reader: nothing is half-written, and the status says why."""

import contextlib
import errno
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.__main__ import COMMANDS
from pipeline.cli import exit_cleanly, log_to_output
from pipeline.errors import refusal
from pipeline.standard_streams import Messages
from pipeline.training.callbacks.progress import ProgressLine
from tests.tiny_runs import ROOT

BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
CASES = {
    "--help > /dev/full": (1, "No space left on device; make room"),
    "--help >&-": (0, ""),
    "--help <&- >&- 2>&-": (0, ""),
    "--nonsense >&-": (2, "error: "),
    "--nonsense 2> /dev/full": (2, ""),
    "--nonsense <&- >&- 2>&-": (2, ""),
}
linux = pytest.mark.skipif(sys.platform != "linux", reason="/dev/full")


def answer(line):
    """The status and the errors of a command of the shell."""
    process = subprocess.run(["sh", "-c", line], cwd=ROOT, env=BUFFERED, capture_output=True, text=True)
    return process.returncode, process.stderr


@linux
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_ends_with_one_line_and_its_status_whatever_its_streams_are(command):
    for line, (status, message) in CASES.items():
        found, said = answer(f"{sys.executable} -m pipeline.{command} {line}")
        assert found == status, line
        assert message in said and said.count("\n") == bool(message), line
    left = f"({sys.executable} -m pipeline.{command} --help; echo $? >&2) | true"
    assert answer(left) == (0, "0\n")


def test_a_file_does_not_get_the_number_of_a_closed_stream(tmp_path):
    """What libraries print would be written into it."""
    code = f"""
import os, sys
from pipeline.cli import exit_cleanly
@exit_cleanly
def main(arguments):
    with open({str(tmp_path / "file")!r}, "w") as file:
        os.write(2, str(file.fileno()).encode())
sys.exit(main([]))
"""
    assert answer(f"{sys.executable} -c '{code}' <&- >&-".replace(repr(str(tmp_path / "file")), f'"{tmp_path}/file"'))[
        1
    ] not in ("0", "1")


class Failing(io.StringIO):
    """A stream that nobody reads, or that is full."""

    def __init__(self, number):
        super().__init__()
        self.number = number

    def write(self, text):
        raise OSError(self.number, os.strerror(self.number))


def train_with(stream):
    """A command that shows its progress, and writes a result at the end."""
    results = []

    @exit_cleanly
    def command(arguments):
        log_to_output()
        line = ProgressLine(None, 1, type("Progress", (), {"seconds": 0.0}))
        line._print("update 1", rewritable=False)
        print("next")
        results.append("result")

    with contextlib.redirect_stdout(stream):
        status = command([])
    return status, results


def test_a_reader_that_leaves_ends_the_messages_and_not_the_work():
    assert train_with(Failing(errno.EPIPE)) == (0, ["result"])


def test_messages_that_cannot_be_written_end_the_work_with_one_line(capsys):
    assert train_with(Failing(errno.ENOSPC)) == (1, [])
    assert capsys.readouterr().err == "error: No space left on device; make room and start the same command again\n"


def test_messages_are_a_stream_like_any_other():
    stream = Messages(io.StringIO())
    print("a", file=stream, flush=True)
    assert stream.getvalue() == "a\n" and not stream.isatty()


def test_a_temporary_folder_that_cannot_be_written_is_named():
    full = FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")
    assert refusal(full).startswith("No usable temporary directory found in ['/tmp']; make room there, or set TMPDIR")
    assert refusal(FileNotFoundError(errno.ENOENT, "No such file or directory", "x")) is None


def test_a_full_disk_that_tensorflow_tells_of_is_one_line_too():
    import tensorflow as tf

    path = Path("runs") / "x" / "events.v2"
    node = "{{function_node __wrapped__FlushSummaryWriter_device_/job:localhost/device:CPU:0}} "
    error = tf.errors.ResourceExhaustedError(None, None, f"{node}{path}; No space left on device")
    assert refusal(error) == f"{path}: No space left on device; make room and start the same command again"
    assert refusal(tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")) is None
