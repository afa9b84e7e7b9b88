"""Reads the workers of a training from `TF_CONFIG`, and waits with a time limit until all of them have started.

TensorFlow itself would wait for ever. The chief listens at its address in `TF_CONFIG`. Each other worker connects to it
and sends its index. The chief answers once all workers have connected. Then TensorFlow uses the same addresses.
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

JOBS = ("chief", "worker")
"""The jobs in `TF_CONFIG` whose tasks are workers of the training, the chief first."""


@dataclass(frozen=True)
class Cluster:
    """The workers of a training, of which the first one is the chief. Its length is the number of workers.

    Args:
        addresses: `HOST:PORT` of each worker.
        names: the job and the task number of each worker in `TF_CONFIG`, such as `worker 0`.
        index: the index of this process among the workers, from 0.
    """

    addresses: tuple[str, ...]
    names: tuple[str, ...]
    index: int

    def __len__(self) -> int:
        return len(self.addresses)

    @property
    def is_chief(self) -> bool:
        """True if this process is the chief, which prepares the text, validates and writes the run."""
        return self.index == 0

    def describe(self, index: int) -> str:
        """Returns the name and address of a worker by its index, for messages: `worker 0 (HOST:PORT)`."""
        return f"{self.names[index]} ({self.addresses[index]})"

    def address(self, index: int) -> tuple[str, int]:
        """Returns the host and the port of a worker by its index. An IPv6 address is without brackets.

        Raises:
            ValueError: the port is not a number.
        """
        host, _, port = self.addresses[index].rpartition(":")
        return host.strip("[]"), int(port)


class _Task(BaseModel):
    """The part `task` of `TF_CONFIG`: the job of this process (`type`), and its number among the tasks of the job."""

    type: str = ""
    index: int = 0


class _TFConfig(BaseModel):
    """The keys of `TF_CONFIG` that qkv reads; TensorFlow's documentation describes them."""

    cluster: dict[str, list[Annotated[str, Field(pattern=r":[0-9]{1,5}$")]]] = {}
    task: _Task = _Task()


def read_cluster() -> Cluster | None:
    """Returns the workers in the environment variable `TF_CONFIG`; None if it is not set or has fewer than two.

    Raises:
        InputError: `TF_CONFIG` does not have the form that TensorFlow documents, or does not list this process.
    """
    text = os.environ.get("TF_CONFIG") or "{}"
    try:
        config = _TFConfig.model_validate_json(text, strict=True)
        tasks = [(job, number) for job in JOBS for number in range(len(config.cluster.get(job, [])))]
        addresses = tuple(config.cluster[job][number] for job, number in tasks)
        names = tuple(f"{job} {number}" for job, number in tasks)
        index = tasks.index((config.task.type, config.task.index)) if config.cluster else 0
        cluster = Cluster(addresses, names, index)
        if not all(0 < cluster.address(worker)[1] < 1 << 16 for worker in range(len(cluster))):
            raise ValueError("no port")
    except ValueError:
        raise InputError(
            'TF_CONFIG: expected {"cluster": {"worker": ["HOST:PORT", ...]}, "task": {"type": "worker", "index": 0}}, '
            f"found {text[:80]!r}; unset it to train on this machine alone"
        ) from None
    return cluster if len(cluster) > 1 else None


WAIT_MINUTES = 10.0
"""The time for which a worker waits for the other workers to start."""

_FIRST_NOTICE_SECONDS = 5.0
_NOTICE_SECONDS = 60.0
_RETRY_SECONDS = 0.5
_LONGEST_LINE = 1 << 16  # bytes of a message
_LINE_SECONDS = 5.0  # within which a whole message must arrive
_NO_SUCH_ADDRESS = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)

log = logging.getLogger(__name__)


def meet(cluster: Cluster, mistake: str | None = None, minutes: float | None = None) -> None:
    """Waits until all workers have started. Call it on every worker.

    Each worker sends a *greeting* to the chief: a dict with its index (`worker`), the `addresses` of the workers in its
    `TF_CONFIG`, and its `mistake`. The chief answers all of them with the first mistake, or None.

    Args:
        cluster: the workers.
        mistake: a message about a mistake in the settings of this worker, which the other workers then raise; None if
            there is no mistake.
        minutes: the time to wait; None for `WAIT_MINUTES`.

    Raises:
        InputError: another worker has reported a mistake, or has a different `TF_CONFIG`.
        LostWorkerError: a worker has not started in time, or another program uses the port of this worker.
    """
    deadline = Deadline(WAIT_MINUTES if minutes is None else minutes)
    greeting = {"worker": cluster.index, "addresses": cluster.addresses, "mistake": mistake}
    if cluster.is_chief:
        answer = _gather(cluster, greeting, deadline)
    else:
        # Waits while an earlier process that is still ending, or another program, uses the port.
        _open_port(cluster, deadline).close()
        answer = _ask_chief(cluster, greeting, deadline)
    if answer and mistake is None:
        raise InputError(answer)


class Deadline:
    """A time limit for waiting, with log messages while waiting. It starts when the object is made.

    Args:
        minutes: the time limit.
        notice_seconds: the time between two log messages. The first message comes after 5 seconds.
    """

    def __init__(self, minutes: float, notice_seconds: float = _NOTICE_SECONDS) -> None:
        self.minutes = minutes
        self.notice_seconds = notice_seconds
        self.until = time.monotonic() + 60 * minutes
        self.last_notice = time.monotonic() + _FIRST_NOTICE_SECONDS - notice_seconds

    def check(self, waiting_for: str) -> None:
        """Raises an error if the time is over, and logs a message if one is due. Call it every few seconds.

        Args:
            waiting_for: what is waited for, for the message: a noun phrase such as `worker 1 (HOST:PORT) to start`.

        Raises:
            LostWorkerError: the time is over.
        """
        if time.monotonic() >= self.until:
            raise LostWorkerError(f"waited {self.minutes:g} minutes for {waiting_for}")
        if time.monotonic() >= self.last_notice + self.notice_seconds:
            self.last_notice = time.monotonic()
            minutes_left = (self.until - self.last_notice) / 60
            log.info("waiting for %s; giving up in %.1f minutes", waiting_for, minutes_left)


def _open_port(cluster: Cluster, deadline: Deadline) -> socket.socket:
    """Returns a socket that listens at the address of this worker. Waits until its port is free.

    Raises a `LostWorkerError` if the port is not free in time.
    """
    host, port = cluster.address(cluster.index)
    while True:
        try:
            family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            try:
                return socket.create_server(address, family=family, backlog=128)
            except OSError as error:
                if error.errno not in _NO_SUCH_ADDRESS:
                    raise
                return socket.create_server(("", port), backlog=128)  # a name that leads here through a router
        except OSError as error:
            deadline.check(f"port {port} of this machine ({error.strerror})")
            time.sleep(_RETRY_SECONDS)


def _gather(cluster: Cluster, chief_greeting: dict[str, Any], deadline: Deadline) -> str | None:
    """Waits, on the chief, for the greetings of all workers, and answers them.

    Args:
        cluster: the workers.
        chief_greeting: the greeting of the chief itself, see `meet`.
        deadline: the time limit.

    Returns:
        The message about the first mistake that a worker reports; None if there is no mistake. All workers get it.

    Raises:
        LostWorkerError: a worker has not connected in time.
    """
    greetings = {0: chief_greeting}
    connections: dict[int, socket.socket] = {}
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(_open_port(cluster, deadline))
        sockets = [listener]
        while len(greetings) < len(cluster):
            missing = [cluster.describe(index) for index in range(len(cluster)) if index not in greetings]
            deadline.check(f"{' and '.join(missing)} to start")
            for connection in select.select(sockets, [], [], _RETRY_SECONDS)[0]:
                if connection is listener:
                    sockets.append(stack.enter_context(listener.accept()[0]))
                    continue
                greeting = _read_line(connection)
                index = greeting.get("worker")
                if type(index) is int and 0 < index < len(cluster):  # a worker may have been started again
                    greetings[index] = greeting
                    connections[index] = connection
                else:  # closed, or another program
                    sockets.remove(connection)
                    closed = [number for number, known in connections.items() if known is connection]
                    for number in closed:
                        del connections[number], greetings[number]
        answer = _find_mistake(cluster, greetings)
        for connection in connections.values():
            with contextlib.suppress(OSError):
                connection.sendall(json.dumps({"answer": answer}).encode() + b"\n")
                connection.recv(1)  # waits until the worker has closed the connection, so that the port is free
        return answer


def _find_mistake(cluster: Cluster, greetings: dict[int, dict[str, Any]]) -> str | None:
    """Finds the first worker that reports a mistake or has another `TF_CONFIG` than the chief.

    `greetings` has the greeting of each worker by its index, see `meet`. Returns a message; None if there is no such
    worker.
    """
    for index, greeting in sorted(greetings.items()):
        if mistake := greeting.get("mistake"):
            return f"{cluster.describe(index)}: {mistake}"
        if (addresses := list(greeting.get("addresses", []))) != list(cluster.addresses):
            return (
                f"TF_CONFIG: {cluster.describe(index)} has the workers {', '.join(map(str, addresses))}, expected "
                f"{', '.join(cluster.addresses)} as {cluster.describe(0)} has; give all workers the same"
            )
    return None


def _ask_chief(cluster: Cluster, greeting: dict[str, Any], deadline: Deadline) -> str | None:
    """Sends the greeting of a worker to the chief, and waits for the answer.

    Returns the message about the first mistake of a worker; None if there is no mistake.

    Raises a `LostWorkerError` if no answer arrives in time.
    """
    while True:
        with contextlib.suppress(OSError), socket.create_connection(cluster.address(0), timeout=5) as connection:
            connection.sendall(json.dumps(greeting).encode() + b"\n")
            while not select.select([connection], [], [], 1)[0]:
                deadline.check(f"{cluster.describe(0)} and the other workers to start")
            answer = _read_line(connection)  # empty if the program at the other end is not waiting for workers
            if "answer" in answer:
                return answer["answer"]
        deadline.check(f"{cluster.describe(0)} to start")
        time.sleep(_RETRY_SECONDS)


def _read_line(connection: socket.socket) -> dict[str, Any]:
    """Reads a line of a connection, a JSON object, and returns it as a dict.

    Returns an empty dict if the line is not a JSON object, is too long, or does not arrive within `_LINE_SECONDS`.
    """
    data = b""
    until = time.monotonic() + _LINE_SECONDS
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
