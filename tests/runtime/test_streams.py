"""Standard streams that are closed, full or without a reader: nothing is half-written, and the status says why."""

import contextlib
import errno
import io
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from qkv.__main__ import COMMANDS
from qkv.commands.cli import exit_cleanly, log_to_output
from qkv.errors import file_system_message
from qkv.runtime.streams import Control, EscapingStream, Messages
from qkv.training.callbacks.progress_line import ProgressLine
from tests.support import ROOT

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
def test_a_command_ends_with_one_line_and_its_status_whatever_its_streams_are():
    command = f"{sys.executable} -m qkv view"
    for line, (status, message) in CASES.items():
        found, said = answer(f"{command} {line}")
        assert found == status, line
        assert message in said and said.count("\n") == bool(message), line
    assert answer(f"({command} --help; echo $? >&2) | true") == (0, "0\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_ends_by_the_same_function(command):
    assert import_module(f"qkv.commands.{command}").main.__code__ is exit_cleanly(print).__code__


def test_a_file_does_not_get_the_number_of_a_closed_stream(tmp_path):
    """What libraries print would be written into it."""
    code = """
import os, sys
from qkv.commands.cli import exit_cleanly
@exit_cleanly
def main(arguments):
    with open(*arguments, "w") as file:
        os.write(2, str(file.fileno()).encode())
sys.exit(main(sys.argv[1:]))
"""
    assert int(answer(f"{sys.executable} -c '{code}' {tmp_path}/file <&- >&-")[1]) > 2


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


TEXT = "line\n\ttab \x1b]0;title\x07 \r\x00 \x7f \x9b2J \u202ecod.exe\u2066 \u2028 é ± …"
ESCAPED = "line\n\ttab \\x1b]0;title\\x07 \\r\\x00 \\x7f \\x9b2J \\u202ecod.exe\\u2066 \\u2028 "
ENDS = {"utf-8": "é ± …", "latin-1": "é ± \\u2026", "ascii": "\\xe9 \\xb1 \\u2026"}


@pytest.mark.parametrize("encoding", ENDS)
def test_messages_never_steer_a_terminal_and_fit_every_encoding(encoding):
    stream = io.TextIOWrapper(io.BytesIO(), encoding)
    messages = Messages(EscapingStream(stream))  # as commands whose results are files have them
    print(TEXT, file=messages)
    messages.write(Control("\r\x1b[K"))
    messages.flush()
    assert stream.buffer.getvalue() == f"{ESCAPED}{ENDS[encoding]}\n\r\x1b[K".encode(encoding)


WAYS_OUT = """
import logging, sys, warnings
from qkv.commands.cli import exit_cleanly, log_to_output
from qkv.errors import InputError
from qkv.runtime.streams import write_result

@exit_cleanly
def main(arguments):
    write_result(arguments[0])
    sys.stdout.buffer.flush()
    print(arguments[0])
    logging.getLogger("qkv").warning("%s", arguments[0])  # to standard error, as in translate
    log_to_output()
    logging.getLogger("qkv").info("%s", arguments[0])
    raise InputError(arguments[0])

sys.exit(main([sys.argv[1]]))
"""


@pytest.mark.parametrize("encoding", ENDS)
def test_all_ways_out_of_a_command_but_its_results_are_escaped(encoding):
    environment = os.environ | {"PYTHONIOENCODING": encoding}
    text = TEXT.replace("\x00", "\x01")
    shown = ESCAPED.replace("x00", "x01") + ENDS[encoding]
    ended = subprocess.run([sys.executable, "-c", WAYS_OUT, text], cwd=ROOT, env=environment, capture_output=True)
    assert ended.stderr == f"{shown}\nerror: {shown}\n".encode(encoding)
    assert ended.stdout == text.encode() + f"{shown}\n{shown}\n".encode(encoding)
    assert ended.returncode == 2


@linux
def test_results_are_escaped_on_a_terminal_alone():
    code = f"""
from qkv.runtime.streams import prepare_streams, write_result
prepare_streams()
write_result({TEXT!r})
"""
    reader, terminal = os.openpty()
    environment = os.environ | {"PYTHONIOENCODING": "utf-8"}
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, stdout=terminal, check=True)
    os.close(terminal)
    assert os.read(reader, 1 << 12).decode().replace("\r\n", "\n") == ESCAPED + ENDS["utf-8"]
    os.close(reader)


def test_a_temporary_folder_that_cannot_be_written_is_named():
    full = FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")
    assert file_system_message(full).startswith(
        "No usable temporary directory found in ['/tmp']; make room there, or set TMPDIR"
    )
    assert file_system_message(FileNotFoundError(errno.ENOENT, "No such file or directory", "x")) is None


def test_a_full_disk_that_tensorflow_tells_of_is_one_line_too():
    import tensorflow as tf

    path = Path("runs") / "x" / "events.v2"
    node = "{{function_node __wrapped__FlushSummaryWriter_device_/job:localhost/device:CPU:0}} "
    error = tf.errors.ResourceExhaustedError(None, None, f"{node}{path}; No space left on device")
    assert file_system_message(error) == f"{path}: No space left on device; make room and start the same command again"
    large = tf.errors.UnknownError(None, None, f"{node}{path}; File too large")
    assert file_system_message(large).startswith(f"{path}: File too large; allow larger files")
    assert file_system_message(tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")) is None
