"""Processes beside that of the tests: workers of `TF_CONFIG`, Python without some modules, readers of pipes."""

import contextlib
import json
import multiprocessing
import os
import runpy
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support import ROOT

PATIENCE_SECONDS = 900
"""Ends a test that would wait for ever, and no other: far beyond what the slowest machine takes."""


def free_ports(number: int) -> list[int]:
    """Ports that nobody listens on."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [listener.getsockname()[1] for listener in sockets]
    for listener in sockets:
        listener.close()
    return ports


def clusters(number: int) -> list[dict]:
    """The `TF_CONFIG` of each of as many workers."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(number)]
    return [{"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}} for index in range(number)]


FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["qkv.run.training", "pytest"])


class Forked(FORKS.Process):
    """Python as in a process of its own, forked from one that has imported TensorFlow, which takes 4 seconds."""

    def poll(self) -> int | None:
        return self.exitcode

    def wait(self, timeout: float | None = None) -> int | None:
        self.join(timeout)
        return self.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)


def start(arguments: Sequence[str | Path], folder: Path, cluster: dict | None = None, cwd: Path = ROOT) -> Forked:
    """Starts Python in a process of its own, whose output goes to `output` in that folder."""
    temporary = folder / "temporary"
    temporary.mkdir(parents=True, exist_ok=True)
    variables = {"TMPDIR": str(temporary), "CUDA_VISIBLE_DEVICES": "-1", "TF_CONFIG": json.dumps(cluster or {})}
    process = Forked(target=_become, args=([*map(str, arguments)], variables, folder / "output", cwd))
    process.start()
    return process


def _become(arguments: list[str], variables: dict[str, str], output: Path, cwd: Path) -> None:
    import tensorflow as tf

    with output.open("ab") as stream:
        for number in (1, 2):
            os.dup2(stream.fileno(), number)
    os.environ.update(variables)
    os.chdir(cwd)
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})  # graphs run once or twice
    if arguments[0] == "-c":
        code, sys.argv = arguments[1], ["-c", *arguments[2:]]
        exec(code, {"__name__": "__main__"})
    else:
        sys.argv = arguments
        runpy.run_path(arguments[0], run_name="__main__")


def finish(processes: Sequence[Forked], folders: Sequence[Path], status: int = 0) -> None:
    """Waits for processes, which must end with that status."""
    try:
        for process, folder in zip(processes, folders, strict=True):
            assert process.wait(PATIENCE_SECONDS) == status, (folder / "output").read_text()[-4000:]
    finally:
        for process in processes:
            process.kill()


# Libraries need Python's own modules on this system, so these are missing for qkv alone. What is known of the
# package of a module is missing, too.
WITHOUT = """
import builtins, sys
from importlib.metadata import Distribution

usual, usually_found = builtins.__import__, Distribution.discover

def without(name, globals=None, locals=None, fromlist=(), level=0):
    library = name.partition(".")[0]
    if level == 0 and library in {names!r}:
        importer = (globals or {{}}).get("__name__", "")
        if library not in sys.stdlib_module_names or importer.partition(".")[0] == "qkv":
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
    return usual(name, globals, locals, fromlist, level)

def found(**given):
    return (one for one in usually_found(**given) if one.name.replace("-", "_") not in {names!r})

builtins.__import__ = without
Distribution.discover = found
"""


def run_without(modules: Sequence[str], folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs Python in a process of its own, without these modules; `folder` gets a file that sees to it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sitecustomize.py").write_text(WITHOUT.format(names=tuple(modules)), encoding="utf-8")
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT / "pipeline")]),
        "PYTHONIOENCODING": "utf-8",
    }
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, encoding="utf-8")


def tell_process(item):
    return os.getpid()


@contextlib.contextmanager
def read_pipe(path):
    """Makes a pipe with a name, and yields a list that holds what was written into it within the block."""
    if not hasattr(os, "mkfifo"):
        pytest.skip("this system has no pipes with names")
    os.mkfifo(path)
    read = []
    reader = threading.Thread(target=lambda: read.append(path.read_bytes()), daemon=True)
    reader.start()
    yield read
    assert stat.S_ISFIFO(path.lstat().st_mode)
    reader.join()
