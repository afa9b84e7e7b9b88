"""Trainings by several processes of this machine, each a worker of `TF_CONFIG`."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.patience import PATIENCE_SECONDS
from tests.tiny_runs import ROOT


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


def start(
    arguments: Sequence[str | Path], folder: Path, cluster: dict | None = None, cwd: Path = ROOT
) -> subprocess.Popen:
    """Starts Python in a process of its own, whose output goes to `output` in that folder."""
    temporary = folder / "temporary"
    temporary.mkdir(parents=True, exist_ok=True)
    variables = os.environ | {"TMPDIR": str(temporary), "CUDA_VISIBLE_DEVICES": "-1"}
    variables.pop("TF_CONFIG", None)
    if cluster:
        variables["TF_CONFIG"] = json.dumps(cluster)
    with (folder / "output").open("a") as output:
        return subprocess.Popen(
            [sys.executable, *arguments], cwd=cwd, env=variables, stdout=output, stderr=subprocess.STDOUT
        )


def finish(processes: Sequence[subprocess.Popen], folders: Sequence[Path], status: int = 0) -> None:
    """Waits for processes, which must end with that status."""
    try:
        for process, folder in zip(processes, folders, strict=True):
            assert process.wait(PATIENCE_SECONDS) == status, (folder / "output").read_text()[-4000:]
    finally:
        for process in processes:
            process.kill()
