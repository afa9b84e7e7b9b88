"""The folder of a run: one process trains it at a time, and refusals of the disk are reported in one line."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from qkv.commands.cli import exit_cleanly
from qkv.errors import InputError
from qkv.files.json import read_json_if_whole
from qkv.files.run_directory import RunDirectory
from tests.support import ROOT
from tests.support.processes import PATIENCE_SECONDS

HOLD = """
import sys, time
from pathlib import Path
from qkv.files.run_directory import RunDirectory
with RunDirectory(Path(sys.argv[1])).locked():
    print("locked", flush=True)
    time.sleep(600)
"""


def test_a_second_process_is_refused_and_a_dead_one_leaves_no_lock(tmp_path):
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE)
    try:
        assert holder.stdout.readline() == b"locked\n"
        expected = rf"process {holder.pid} on .* trains this run at the moment"
        with pytest.raises(InputError, match=expected), RunDirectory(tmp_path).locked():
            pass
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        holder.stdout.close()
    assert (tmp_path / ".lock").exists()  # it could not tidy up
    with RunDirectory(tmp_path).locked():
        pass
    assert not list(tmp_path.iterdir())


def test_the_lock_is_released_after_an_error(tmp_path):
    for _ in range(2):
        with pytest.raises(KeyError), RunDirectory(tmp_path).locked():
            raise KeyError


def test_the_lock_is_never_held_by_two_processes_at_once(tmp_path):
    code = """
import sys, time
from pathlib import Path
from qkv.errors import InputError
from qkv.files.run_directory import RunDirectory
from tests.support.processes import PATIENCE_SECONDS
root, end = Path(sys.argv[1]), time.monotonic() + PATIENCE_SECONDS
for _ in range(20):
    while True:
        try:
            with RunDirectory(root).locked():
                (root / "inside").touch(exist_ok=False)
                (root / "inside").unlink()
            break
        except InputError:
            assert time.monotonic() < end
            time.sleep(0.001)
"""
    processes = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT) for _ in range(3)]
    assert [process.wait(timeout=PATIENCE_SECONDS) for process in processes] == [0, 0, 0]


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (errno.ENOSPC, "error: runs/x: No space left on device; make room and start the same command again\n"),
        (
            errno.EFBIG,
            "error: runs/x: File too large; allow larger files (ulimit -f unlimited, or another disk) and start the "
            "same command again\n",
        ),
        (errno.EROFS, "error: runs/x: Read-only file system; choose a folder that can be written to\n"),
        (errno.EACCES, "error: runs/x: Permission denied; change its permissions, or choose another folder\n"),
    ],
)
def test_a_refusal_of_the_disk_is_reported_in_one_line_with_advice(number, message, capsys):
    @exit_cleanly
    def command(arguments):
        raise OSError(number, os.strerror(number), "runs/x")

    assert command([]) == 1
    assert capsys.readouterr().err == message
    with pytest.raises(OSError, match="runs/x"):
        command(["--debug"])


def test_a_file_that_may_not_be_read_is_not_called_damaged(capsys):
    @exit_cleanly
    def command(arguments):
        try:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "runs/x")
        except OSError:
            raise InputError("runs/x: the file is damaged; train anew") from None

    assert command([]) == 2
    assert "runs/x: Permission denied; change its permissions" in capsys.readouterr().err


def test_json_that_may_not_be_read_counts_neither_as_missing_nor_as_damaged(monkeypatch, tmp_path):
    path = tmp_path / "manifest.json"
    assert read_json_if_whole(path) == {}
    path.write_text("{")
    assert read_json_if_whole(path) == {}

    def refuse(*arguments, **settings):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(PermissionError):
        read_json_if_whole(path)


def test_a_plugin_that_ends_the_command_is_told_and_no_other_is_blamed(tmp_path, capsys):
    @exit_cleanly
    def command(arguments):
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        command([])
    assert capsys.readouterr().err == ""
    (tmp_path / "plugin.py").touch()
    assert command(["--plugins", str(tmp_path / "plugin.py")]) == 2
    assert capsys.readouterr().err == "error: a plugin has ended the command: exit 3; fix the plugin\n"


def test_other_errors_of_the_system_keep_their_traceback():
    @exit_cleanly
    def command(arguments):
        raise OSError(errno.EIO, "Input/output error")

    with pytest.raises(OSError, match="Input/output"):
        command([])


def test_a_training_may_begin_in_the_folder_that_has_results_of_the_packaged_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in ("runs/demo/evaluations/test", "runs/demo/live/0001", "runs/other/evaluations/test"):
        Path(folder).mkdir(parents=True)
    assert RunDirectory.create(Path("runs/demo")).root == Path("runs/demo")
    with pytest.raises(InputError, match=r"runs/other: expected a new or an empty folder, found 'evaluations' in it"):
        RunDirectory.create(Path("runs/other"))
    Path("runs/demo/mine").touch()
    with pytest.raises(InputError, match=r"runs/demo: expected a new or an empty folder, found 'mine' in it"):
        RunDirectory.create(Path("runs/demo"))
