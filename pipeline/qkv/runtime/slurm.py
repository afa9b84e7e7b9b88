"""Writes the `TF_CONFIG` of a task of Slurm, which sets only `SLURM_*`: `python -m qkv.runtime.slurm`."""

import json
import os
import re
import sys
from collections.abc import Mapping

from ..errors import InputError
from .import_tensorflow import importing_tensorflow
from .streams import prepare_streams

PORTS = range(20_000, 30_000)  # the ports of workers; different job steps use different ones


def tf_config(variables: Mapping[str, str]) -> str:
    """Returns the `TF_CONFIG` of a Slurm task. Each task of the job step is a worker, in the order of their ranks.

    Args:
        variables: the environment variables that `srun` sets for the task.

    Returns:
        The JSON text for the variable `TF_CONFIG`.

    Raises:
        InputError: a variable is missing or wrong, or the tasks are not distributed node by node.
    """
    with importing_tensorflow():
        from tensorflow.python.distribute.cluster_resolver import slurm_cluster_resolver as slurm
    node_list = _read(variables, "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST")
    tasks_per_node = _read(variables, "SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE")
    try:
        hosts = slurm.expand_hostlist(node_list)
        task_counts = slurm.expand_tasks_per_node(tasks_per_node)
    except ValueError as error:
        raise InputError(f"SLURM_STEP_NODELIST, SLURM_STEP_TASKS_PER_NODE: {error}") from None
    rank = _number(variables, "SLURM_PROCID")
    node = _number(variables, "SLURM_NODEID")
    if len(task_counts) != len(hosts):
        raise InputError(
            f"SLURM_STEP_TASKS_PER_NODE: expected the tasks of {len(hosts)} nodes, found {len(task_counts)}"
        )
    # For each rank, the index of its node, and of the task within the node.
    tasks = [(index, local) for index, count in enumerate(task_counts) for local in range(count)]
    if not (rank < len(tasks) and tasks[rank][0] == node):
        raise InputError(
            f"SLURM_PROCID: expected task {rank} on node {tasks[rank][0] if rank < len(tasks) else '?'}, found it on "
            f"node {node}; tasks must be distributed node by node: srun --distribution=block"
        )
    step = 100 * _number(variables, "SLURM_JOB_ID") + _number(variables, "SLURM_STEP_ID", "0")
    first_port = PORTS.start + step * max(task_counts) % (len(PORTS) - max(task_counts))
    addresses = [f"{hosts[index]}:{first_port + local}" for index, local in tasks]
    return json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}})


def _read(variables: Mapping[str, str], *names: str) -> str:
    """Returns the value of the first of these variables that is set; raises an `InputError` if none is set."""
    for name in names:
        if variables.get(name):
            return variables[name]
    raise InputError(f"{names[0]} is not set: expected a task of Slurm; start this with srun")


def _number(variables: Mapping[str, str], name: str, default: str = "") -> int:
    """Returns the value of a variable as a number. If the variable is not set, returns `default` as a number.

    Raises an `InputError` if the value is not a number, or if it is not set and `default` is empty.
    """
    text = variables.get(name) or default or _read(variables, name)
    if not re.fullmatch("[0-9]{1,15}", text):
        raise InputError(f"{name}: expected a number, found {text[:40]!r}")
    return int(text)


def main() -> int:
    """Prints the `TF_CONFIG` of this task. Returns the exit status: 0, or 2 after an error message."""
    prepare_streams()
    try:
        sys.stdout.write(tf_config(os.environ) + "\n")
    except InputError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
