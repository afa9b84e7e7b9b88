"""Exchanges values other than tensors between the workers of a training, such as digests of files and metrics.

Values go through the key-value store of TensorFlow's coordination service, which runs on the chief.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import tensorflow as tf
from tensorflow.compiler.xla.tsl.protobuf.coordination_config_pb2 import CoordinatedJob
from tensorflow.python.eager import context

from ..errors import InputError, LostWorkerError
from .cluster import Cluster, Deadline, meet, read_cluster

HEARTBEAT_SECONDS = 30
"""A worker that sends no heartbeat for this time counts as lost."""

CONNECT_SECONDS = 120
"""The time in which workers that have met must connect."""

CHIEF_MINUTES = 720.0
"""The time for which workers wait for work that only the chief does: preparing text, validating, saving the model."""

_MISTAKE_KEY = "qkv/mistake"
_LEAVE_KEY = "part"
_LEAVE_MINUTES = 1.0
_POLL_SECONDS = 2.0
_NOTICE_SECONDS = 300.0

_LOST_WORKER_ERRORS = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.FailedPreconditionError,
)


class Workers:
    """The connected workers of a training, which exchange values.

    Args:
        cluster: the names and addresses of the workers.

    Attributes:
        is_chief: True if this process is the chief, which prepares the text, validates and writes the run.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.is_chief = cluster.is_chief
        self._broadcasts = 0

    def send(self, key: str, value: Any) -> None:
        """Sends a value of this worker to all workers. They get it with `receive`.

        Args:
            key: a name for the value that this worker has not used before.
            value: a value that JSON can represent.
        """
        context.context().set_config_key_value(_key(self.cluster.index, key), json.dumps(value))

    def receive(self, index: int, key: str, for_what: str, minutes: float = CHIEF_MINUTES) -> Any:
        """Waits for a value that a worker has sent with `send`, and returns it.

        Args:
            index: the index of the sending worker.
            key: the name of the value.
            for_what: the work that the sending worker does until then, for messages, such as `to validate`.
            minutes: the time to wait.

        Raises:
            LostWorkerError: the value does not arrive in time.
            InputError: a worker has reported a mistake.
        """
        deadline = Deadline(minutes, _NOTICE_SECONDS)
        while True:
            with suppress(tf.errors.DeadlineExceededError):
                text = context.context().get_config_key_value(_key(index, key), int(1000 * _POLL_SECONDS))
                return json.loads(text)
            if key != _LEAVE_KEY and (mistake := self.mistake()):
                raise InputError(mistake)
            deadline.check(f"{self.cluster.describe(index)} {for_what}")

    def broadcast_from_chief(self, value: Any, for_what: str) -> Any:
        """Broadcasts a value of the chief: every worker returns it. The arguments of the other workers are ignored.

        All workers must make the same calls in the same order.

        Args:
            value: on the chief, a value that JSON can represent.
            for_what: the work that the chief does until then, for messages, such as `to validate`.

        Raises:
            LostWorkerError: the value does not arrive in time.
            InputError: a worker has reported a mistake.
        """
        self._broadcasts += 1
        key = f"chief/{self._broadcasts}"
        if not self.is_chief:
            return self.receive(0, key, for_what)
        self.send(key, value)
        return value

    def exchange(self, key: str, value: Any, for_what: str) -> list[Any]:
        """Sends a value of this worker, and returns the values that all workers have sent under this key.

        Args:
            key: a name for the values that this worker has not used before.
            value: the value of this worker, which JSON can represent.
            for_what: the work that the workers do until then, for messages.

        Returns:
            The values of all workers, in the order of the workers.

        Raises:
            LostWorkerError: a value does not arrive in time.
            InputError: a worker has reported a mistake.
        """
        self.send(key, value)
        return [self.receive(index, key, for_what) for index in range(len(self.cluster))]

    def leave(self, mistake: str | None = None) -> None:
        """Ends the exchange of values. Call it on every worker when its work has ended.

        The chief waits up to a minute for each other worker to call it, since the values are stored on the chief.

        Args:
            mistake: a message about a mistake on this worker, which the other workers then raise; None if there is no
                mistake.
        """
        with suppress(*_LOST_WORKER_ERRORS, tf.errors.AlreadyExistsError):
            if mistake is not None:
                name = self.cluster.describe(self.cluster.index)
                context.context().set_config_key_value(_MISTAKE_KEY, f"{name}: {mistake}")
        with suppress(InputError, LostWorkerError, *_LOST_WORKER_ERRORS):  # a worker that was lost reports it itself
            self.send(_LEAVE_KEY, None)
            for index in range(1, len(self.cluster) if self.is_chief else 0):
                self.receive(index, _LEAVE_KEY, "to end", _LEAVE_MINUTES)

    def mistake(self) -> str | None:
        """Returns the message about a mistake that a worker has reported; None if no worker has reported one."""
        try:
            return context.context().get_config_key_value(_MISTAKE_KEY, 1)
        except tf.errors.OpError:
            return None


def _key(index: int, key: str) -> str:
    """Returns the key in TensorFlow's store under which worker `index` stores its value `key`."""
    return f"qkv/{index}/{key}"


def join_workers() -> Workers | None:
    """Waits for the workers in `TF_CONFIG`, and prepares TensorFlow to connect to them.

    Call it before anything else that uses TensorFlow. Call `runtime.devices.make_strategy`, which connects, right after
    it.

    Returns:
        The workers; None if `TF_CONFIG` has fewer than two.

    Raises:
        InputError: `TF_CONFIG` is wrong, or differs between the workers, or another worker has reported a mistake.
        LostWorkerError: a worker has not started in time.
    """
    cluster = read_cluster()
    if cluster is None:
        return None
    meet(cluster)
    jobs = Counter(name.split()[0] for name in cluster.names)
    context.context().configure_coordination_service(
        service_type="standalone",
        service_leader=f"/job:{cluster.names[0].split()[0]}/replica:0/task:0",
        cluster_register_timeout_in_ms=1000 * CONNECT_SECONDS,
        heartbeat_timeout_in_ms=1000 * HEARTBEAT_SECONDS,
        coordinated_jobs=[CoordinatedJob(name=job, num_tasks=number) for job, number in jobs.items()],
    )
    return Workers(cluster)


@contextmanager
def noticing_lost_workers(workers: Workers | None) -> Iterator[None]:
    """Replaces TensorFlow's errors about a lost worker within the block by a `LostWorkerError`.

    At the end of the block it calls `Workers.leave`, so that all workers end together. If the block raised an
    `InputError`, the other workers raise its message too. If a worker is lost, `leave` is not called.

    Args:
        workers: the workers; None for a single process, for which nothing is done.

    Raises:
        LostWorkerError: another worker has ended or does not answer.
        InputError: the block raised it, or another worker has reported a mistake.
    """
    if workers is None:
        yield
        return
    try:
        yield
    except _LOST_WORKER_ERRORS as error:
        if mistake := workers.mistake():
            raise InputError(mistake) from error
        raise LostWorkerError(_explain(str(error), workers.cluster)) from error
    except InputError as error:
        workers.leave(str(error))
        raise
    workers.leave()


def _explain(message: str, cluster: Cluster) -> str:
    """Returns a clause that says which worker is lost, from an error message of TensorFlow."""
    names = [f"{job} {task}" for job, task in re.findall(r"/job:(\w+)(?:/replica:\d+)?/task:(\d+)", message)]
    lost = [name for name in names if name in cluster.names and name != cluster.names[cluster.index]]
    if not lost:
        return "another worker has ended or does not answer"
    return f"{cluster.describe(cluster.names.index(lost[-1]))} has ended or does not answer"
