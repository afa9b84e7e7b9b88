"""The programs that XLA has compiled: found again by other processes, and never loaded if they are damaged."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf

from qkv.errors import InputError
from qkv.runtime import compiled_programs
from qkv.runtime.compiled_programs import VARIABLE, keep_programs, keeping_programs, programs_root
from tests.support.processes import PATIENCE_SECONDS

SCRIPT = """
import sys
from qkv.runtime.import_tensorflow import importing_tensorflow
with importing_tensorflow():
    import tensorflow as tf
    from qkv.runtime.compiled_programs import keep_programs, keeping_programs
keep_programs(True)
for number in range(int(sys.argv[1])):  # a run that continues traces other functions before
    tf.function(lambda x: x + number)(1.0)

@tf.function(jit_compile=True)
def double(x):
    return tf.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, 2 * tf.tanh(x)), (0, x))[1]

with keeping_programs():
    print(float(double(tf.constant(3.0))))
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "programs"))
    monkeypatch.delenv("TF_XLA_FLAGS", raising=False)
    monkeypatch.setattr(compiled_programs, "_folder", None)
    return tmp_path / "programs"


def start(traced=0):
    return subprocess.Popen([sys.executable, "-c", SCRIPT, str(traced)], stdout=subprocess.PIPE, text=True)


def finish(process):
    output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0
    return output


def files(folder):
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.rglob("*.*") if path.is_file()}


@pytest.mark.minutes
def test_a_program_is_loaded_by_later_processes_whatever_they_have_traced_and_made_again_if_damaged(folder):
    output = finish(start())
    made = files(folder)
    assert len(made) == 2 and all("qkv__" in path.name for path in made)  # the program and its digest
    assert finish(start(traced=5)) == output
    assert files(folder) == made
    program = next(path for path in made if path.suffix == ".pb")
    program.write_bytes(program.read_bytes()[:-100])
    both = start(), start(traced=1)  # two processes at once
    assert [finish(process) for process in both] == [output] * 2
    assert program.read_bytes() != made[program][1][:-100]
    assert len(files(folder)) == 2


def test_the_folder_is_the_users_and_can_be_elsewhere_or_none(monkeypatch, tmp_path):
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert programs_root() == Path.home() / ".cache" / "qkv" / "programs"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert programs_root() == tmp_path / "qkv" / "programs"
    monkeypatch.setenv(VARIABLE, "off")
    assert programs_root() is None


def kept(folder, name, content=b"program", digest=None):
    """Writes a program of this machine as an earlier process left it."""
    machine = folder / compiled_programs._machine()
    machine.mkdir(parents=True, exist_ok=True)
    program = machine / f"qkv__{name}__XLA_CPU_JIT.pb"
    program.write_bytes(content)
    compiled_programs._folder = machine
    compiled_programs._record()
    if digest is not None:
        program.with_name(f"{program.name}.sha256").write_text(digest)
    compiled_programs._folder = None
    return program


def test_programs_without_their_digest_are_deleted_and_the_oldest_if_there_are_too_many(folder, monkeypatch):
    damaged = kept(folder, "damaged", digest="0" * 64)
    oldest, newest = kept(folder, "a", b"x" * 60), kept(folder, "b", b"x" * 60)
    unknown = kept(folder, "unknown")
    unknown.with_name(f"{unknown.name}.sha256").unlink()
    os.utime(oldest, (1, 1))
    monkeypatch.setattr(compiled_programs, "MOST_BYTES", 100)
    flags = []
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda: flags.append(os.environ["TF_XLA_FLAGS"]))
    keep_programs(True)
    left = [path for path in (damaged, unknown, oldest, newest) if path.exists()]
    assert left == [newest]
    assert len(list(newest.parent.iterdir())) == 2  # with its digest
    assert flags[0].startswith(f"--tf_xla_persistent_cache_directory={newest.parent} ")
    assert "TF_XLA_FLAGS" not in os.environ


@pytest.mark.parametrize("obstacle", ["off", "a file", "a full disk", "read-only", "a space", "the user's own"])
def test_nothing_is_kept_where_it_cannot_be(obstacle, folder, monkeypatch):
    """A program that cannot be written would end the training."""
    if obstacle == "off":
        monkeypatch.setenv(VARIABLE, "off")
    elif obstacle == "a file":
        folder.write_text("")
    elif obstacle == "a full disk":
        monkeypatch.setattr(compiled_programs, "LEAST_FREE", 1 << 80)
    elif obstacle == "read-only":  # for root, too
        monkeypatch.setattr(os, "access", lambda path, mode: False)
    elif obstacle == "a space":
        monkeypatch.setenv(VARIABLE, f"{folder} of mine")
    else:
        monkeypatch.setenv("TF_XLA_FLAGS", "--tf_xla_persistent_cache_directory=/tmp")
    before = os.environ.get("TF_XLA_FLAGS")
    keep_programs(True)
    assert compiled_programs._folder is None and os.environ.get("TF_XLA_FLAGS") == before


def test_after_an_error_of_a_program_the_same_command_does_without_kept_ones(folder, monkeypatch):
    monkeypatch.setattr(tf.config, "list_physical_devices", list)
    keep_programs(True)
    kept_in = compiled_programs._folder
    unfinished = kept_in / "unfinished"
    with keeping_programs():
        assert unfinished.exists()  # as it is if the process is killed here
    with pytest.raises(tf.errors.ResourceExhaustedError), keeping_programs():
        raise tf.errors.ResourceExhaustedError(None, None, "memory")
    assert not unfinished.exists()
    said = rf"\(too short\); start the same command again.*{VARIABLE}=off"
    with pytest.raises(InputError, match=said), keeping_programs():
        raise tf.errors.DataLossError(None, None, "too short")
    monkeypatch.setattr(compiled_programs, "_folder", None)
    keep_programs(True)
    assert compiled_programs._folder is None
    with pytest.raises(InputError, match=r"training\.xla false"), keeping_programs():
        raise tf.errors.InternalError(None, None, "no such operation")
    unfinished.unlink()
    keep_programs(True)
    assert compiled_programs._folder == kept_in
