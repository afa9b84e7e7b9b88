"""The workers of a training tell each other what is no tensor: whether text is prepared, which files they read, what
the chief has measured.

Values go through the key-value store of TensorFlow's coordination service, which the chief holds.
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
from .cluster import Cluster, Wait, meet, read_cluster

HEARTBEAT_SECONDS = 30  # a worker that is not heard of for so long counts as dead
CONNECT_SECONDS = 120  # how long workers that have just been found to be there take to connect, at most
CHIEF_MINUTES = 720.0
"""How long the others wait for what the chief does alone: preparing text, a validation, saving the model."""
_MISTAKE = "qkv/mistake"
_PART_MINUTES = 1.0
_POLL_SECONDS = 2.0
_SAID_AGAIN_AFTER = 300.0

_ERRORS_OF_OTHERS = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.FailedPreconditionError,
)


class Workers:
    """All workers of a training, connected.

    Args:
        cluster: the workers, and which of them this process is.

    Attributes:
        is_chief: whether this one prepares, validates and writes the run.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.is_chief = cluster, cluster.is_chief
        self._told = 0

    def tell(self, key: str, value: Any) -> None:
        """Tells all others a value, which JSON can hold, under a key of this worker that was not used before."""
        context.context().set_config_key_value(_key(self.cluster.index, key), json.dumps(value))

    def hear(self, index: int, key: str, for_what: str, minutes: float = CHIEF_MINUTES) -> Any:
        """Waits for what a worker tells, and returns it.

        Args:
            index: the place of that worker among all.
            key: the key that it uses.
            for_what: what it does until then, for messages.
            minutes: how long to wait.

        Raises:
            LostWorkerError: it does not come.
        """
        wait = Wait(minutes, _SAID_AGAIN_AFTER)
        while True:
            with suppress(tf.errors.DeadlineExceededError):
                text = context.context().get_config_key_value(_key(index, key), int(1000 * _POLL_SECONDS))
                return json.loads(text)
            if key != "part" and (mistake := self.mistake()):
                raise InputError(mistake)
            wait.go_on(f"{self.cluster.describe(index)} {for_what}")

    def of_chief(self, value: Any, for_what: str) -> Any:
        """Returns the chief's value, whatever the others'. All workers must ask for the same in the same order."""
        self._told += 1
        key = f"chief/{self._told}"
        if not self.is_chief:
            return self.hear(0, key, for_what)
        self.tell(key, value)
        return value

    def exchange(self, key: str, value: Any, for_what: str) -> list[Any]:
        """Returns the values of all workers."""
        self.tell(key, value)
        return [self.hear(index, key, for_what) for index in range(len(self.cluster))]

    def part(self, mistake: str | None = None) -> None:
        """Ends the work together: the chief waits until each has heard all. A mistake here ends the others too."""
        with suppress(*_ERRORS_OF_OTHERS, tf.errors.AlreadyExistsError):
            if mistake is not None:
                own = self.cluster.describe(self.cluster.index)
                context.context().set_config_key_value(_MISTAKE, f"{own}: {mistake}")
        with suppress(InputError, LostWorkerError, *_ERRORS_OF_OTHERS):  # another has ended, and says so itself
            self.tell("part", None)
            for index in range(1, len(self.cluster) if self.is_chief else 0):
                self.hear(index, "part", "to end", _PART_MINUTES)

    def mistake(self) -> str | None:
        """Returns what is wrong on a worker, if one has said so."""
        try:
            return context.context().get_config_key_value(_MISTAKE, 1)
        except tf.errors.OpError:
            return None


def _key(index: int, key: str) -> str:
    return f"qkv/{index}/{key}"


def join_workers() -> Workers | None:
    """Waits for the other workers of `TF_CONFIG` and prepares TensorFlow to connect with them; None without others.

    Call it before anything else that uses TensorFlow, and `make_strategy`, which connects, right after it.

    Raises:
        InputError: as `meet`.
        LostWorkerError: as `meet`.
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
    """Turns TensorFlow's errors for a lost worker into one sentence.

    The block ends together with the other workers' blocks, unless one of them is lost.

    Raises:
        LostWorkerError: another worker has ended, or does not answer.
    """
    if workers is None:
        yield
        return
    try:
        yield
    except _ERRORS_OF_OTHERS as error:
        if mistake := workers.mistake():
            raise InputError(mistake) from error
        raise LostWorkerError(_explain(str(error), workers.cluster)) from error
    except InputError as error:
        workers.part(str(error))
        raise
    workers.part()


def _explain(message: str, cluster: Cluster) -> str:
    named = [f"{job} {task}" for job, task in re.findall(r"/job:(\w+)(?:/replica:\d+)?/task:(\d+)", message)]
    lost = [name for name in named if name in cluster.names and name != cluster.names[cluster.index]]
    if not lost:
        return "another worker has ended or does not answer"
    return f"{cluster.describe(cluster.names.index(lost[-1]))} has ended or does not answer"
