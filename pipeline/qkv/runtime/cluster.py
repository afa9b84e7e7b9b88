"""The workers of `TF_CONFIG`, and how they meet before TensorFlow connects them, which would wait without end.

The chief listens at its address of `TF_CONFIG`, each other worker connects and says who it is, and the chief answers
when all are there. After that TensorFlow takes the same addresses.
"""

import contextlib
import errno
import json
import logging
import os
import select
import socket
import time
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, Field

from ..errors import InputError, LostWorkerError

JOBS = ("chief", "worker")  # that train


@dataclass(frozen=True)
class Cluster:
    """The workers that train together, the chief first.

    Args:
        addresses: `HOST:PORT` of each.
        names: of each, as `TF_CONFIG` has them: `worker 0`.
        index: the place of this process among them.
    """

    addresses: tuple[str, ...]
    names: tuple[str, ...]
    index: int

    def __len__(self) -> int:
        return len(self.addresses)

    @property
    def is_chief(self) -> bool:
        """True for the process that prepares, validates and writes the run."""
        return self.index == 0

    def describe(self, index: int) -> str:
        """Returns the name and the address of a worker, for messages."""
        return f"{self.names[index]} ({self.addresses[index]})"

    def address(self, index: int) -> tuple[str, int]:
        """Returns host and port of a worker."""
        host, _, port = self.addresses[index].rpartition(":")
        return host.strip("[]"), int(port)


class _Task(BaseModel):
    type: str = ""
    index: int = 0


class _TFConfig(BaseModel):
    """`TF_CONFIG`, as TensorFlow documents it."""

    cluster: dict[str, list[Annotated[str, Field(pattern=r":[0-9]{1,5}$")]]] = {}
    task: _Task = _Task()


def read_cluster() -> Cluster | None:
    """Returns the machines that train together, by `TF_CONFIG`; None where it names less than two.

    Raises:
        InputError: it is not as TensorFlow documents it.
    """
    text = os.environ.get("TF_CONFIG") or "{}"
    try:
        found = _TFConfig.model_validate_json(text, strict=True)
        addresses = {(job, i): address for job in JOBS for i, address in enumerate(found.cluster.get(job, []))}
        own = list(addresses).index((found.task.type, found.task.index)) if found.cluster else 0
        cluster = Cluster(tuple(addresses.values()), tuple(f"{job} {index}" for job, index in addresses), own)
        if not all(0 < cluster.address(index)[1] < 1 << 16 for index in range(len(cluster))):
            raise ValueError("no port")
    except ValueError:
        raise InputError(
            'TF_CONFIG: expected {"cluster": {"worker": ["HOST:PORT", ...]}, "task": {"type": "worker", "index": 0}}, '
            f"found {text[:80]!r}; unset it to train on this machine alone"
        ) from None
    return cluster if len(cluster) > 1 else None


WAIT_MINUTES = 10.0  # how long a worker waits for the others to start
_SAID_AFTER = 5.0  # seconds until it is said who is waited for
_SAID_AGAIN_AFTER = 60.0
_RETRY_SECONDS = 0.5
_LONGEST_LINE, _LINE_SECONDS = 1 << 16, 5.0  # of what another says, and until all of it is there
_NOT_OURS = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)

log = logging.getLogger(__name__)


def meet(cluster: Cluster, mistake: str | None = None, minutes: float | None = None) -> None:
    """Waits until all workers have started.

    Args:
        cluster: all workers, and which of them this process is.
        mistake: what is wrong with this worker's settings, which then ends all others too.
        minutes: how long to wait; by default `WAIT_MINUTES`.

    Raises:
        InputError: the settings of another worker are wrong, or it was given another `TF_CONFIG`.
        LostWorkerError: a worker has not started in time, or another program has this worker's port.
    """
    wait = Wait(WAIT_MINUTES if minutes is None else minutes)
    hello = {"worker": cluster.index, "addresses": cluster.addresses, "mistake": mistake}
    if cluster.is_chief:
        answer = _gather(cluster, hello, wait)
    else:
        _own_port(cluster, wait).close()  # held by an earlier process that is still ending, or by another program
        answer = _ask_chief(cluster, hello, wait)
    if answer and mistake is None:
        raise InputError(answer)


class Wait:
    """Says who is waited for, again and again after so many seconds, and gives up in time."""

    def __init__(self, minutes: float, again: float = _SAID_AGAIN_AFTER) -> None:
        self.minutes, self.again = minutes, again
        self.until = time.monotonic() + 60 * minutes
        self.said = time.monotonic() + _SAID_AFTER - again

    def go_on(self, for_whom: str) -> None:
        """Called at least every few seconds while waiting."""
        if time.monotonic() >= self.until:
            raise LostWorkerError(f"waited {self.minutes:g} minutes for {for_whom}")
        if time.monotonic() >= self.said + self.again:
            self.said = time.monotonic()
            log.info("waiting for %s; giving up in %.1f minutes", for_whom, (self.until - self.said) / 60)


def _own_port(cluster: Cluster, wait: Wait) -> socket.socket:
    host, port = cluster.address(cluster.index)
    while True:
        try:
            family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            try:
                return socket.create_server(address, family=family, backlog=128)
            except OSError as error:
                if error.errno not in _NOT_OURS:
                    raise
                return socket.create_server(("", port), backlog=128)  # a name that leads here through a router
        except OSError as error:
            wait.go_on(f"port {port} of this machine ({error.strerror})")
            time.sleep(_RETRY_SECONDS)


def _gather(cluster: Cluster, hello: dict[str, Any], wait: Wait) -> str | None:
    """The chief's part. Returns what is wrong with a worker."""
    greetings = {0: hello}
    connections: dict[int, socket.socket] = {}
    with contextlib.ExitStack() as opened:
        listener = opened.enter_context(_own_port(cluster, wait))
        heard = [listener]
        while len(greetings) < len(cluster):
            missing = [cluster.describe(index) for index in range(len(cluster)) if index not in greetings]
            wait.go_on(f"{' and '.join(missing)} to start")
            for connection in select.select(heard, [], [], _RETRY_SECONDS)[0]:
                if connection is listener:
                    heard.append(opened.enter_context(listener.accept()[0]))
                    continue
                greeting = _read_line(connection)
                index = greeting.get("worker")
                if type(index) is int and 0 < index < len(cluster):  # of two, the newer one has replaced the older
                    greetings[index], connections[index] = greeting, connection
                else:
                    heard.remove(connection)
                    gone = [number for number, known in connections.items() if known is connection]
                    for number in gone:
                        del connections[number], greetings[number]
        answer = _find_mistake(cluster, greetings)
        for connection in connections.values():
            with contextlib.suppress(OSError):
                connection.sendall(json.dumps({"answer": answer}).encode() + b"\n")
                connection.recv(1)  # until the other end is closed, so that the port is free
        return answer


def _find_mistake(cluster: Cluster, greetings: dict[int, dict[str, Any]]) -> str | None:
    for index, greeting in sorted(greetings.items()):
        if mistake := greeting.get("mistake"):
            return f"{cluster.describe(index)}: {mistake}"
        if (addresses := list(greeting.get("addresses", []))) != list(cluster.addresses):
            return (
                f"TF_CONFIG: {cluster.describe(index)} has the workers {', '.join(map(str, addresses))}, expected "
                f"{', '.join(cluster.addresses)} as {cluster.describe(0)} has; give all workers the same"
            )
    return None


def _ask_chief(cluster: Cluster, hello: dict[str, Any], wait: Wait) -> str | None:
    """Another worker's part. Returns what is wrong with a worker."""
    while True:
        with contextlib.suppress(OSError), socket.create_connection(cluster.address(0), timeout=5) as connection:
            connection.sendall(json.dumps(hello).encode() + b"\n")
            while not select.select([connection], [], [], 1)[0]:
                wait.go_on(f"{cluster.describe(0)} and the other workers to start")
            answer = _read_line(connection)  # nothing, if the other end is not waiting for workers
            if "answer" in answer:
                return answer["answer"]
        wait.go_on(f"{cluster.describe(0)} to start")
        time.sleep(_RETRY_SECONDS)


def _read_line(connection: socket.socket) -> dict[str, Any]:
    """Returns the object that a line holds; an empty one for anything else."""
    data, until = b"", time.monotonic() + _LINE_SECONDS
    try:
        while not data.endswith(b"\n") and len(data) < _LONGEST_LINE:
            connection.settimeout(max(0.0, until - time.monotonic()))
            part = connection.recv(4096)
            if not part:
                break
            data += part
        value = json.loads(data)
    except (OSError, ValueError, RecursionError):
        return {}
    finally:
        connection.settimeout(_LINE_SECONDS)
    return value if isinstance(value, dict) else {}
