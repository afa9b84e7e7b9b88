"""Writes the `TF_CONFIG` of a task of Slurm, which sets only `SLURM_*`: `python -m qkv.runtime.slurm`."""

import json
import os
import re
import sys
from collections.abc import Mapping

from ..errors import InputError
from .import_tensorflow import importing_tensorflow
from .streams import prepare_streams

PORTS = range(20_000, 30_000)  # those from which each step takes its own, by its number


def tf_config(variables: Mapping[str, str]) -> str:
    """Returns the `TF_CONFIG` of a task by the variables of `srun`: one worker a task, in the order of their ranks.

    Raises:
        InputError: some are missing or wrong, or the tasks are not distributed node by node.
    """
    with importing_tensorflow():
        from tensorflow.python.distribute.cluster_resolver import slurm_cluster_resolver as slurm
    listed = _read(variables, "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST")
    counted = _read(variables, "SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE")
    try:
        nodes, counts = slurm.expand_hostlist(listed), slurm.expand_tasks_per_node(counted)
    except ValueError as error:
        raise InputError(f"SLURM_STEP_NODELIST, SLURM_STEP_TASKS_PER_NODE: {error}") from None
    rank, node = (_number(variables, name) for name in ("SLURM_PROCID", "SLURM_NODEID"))
    if len(counts) != len(nodes):
        raise InputError(f"SLURM_STEP_TASKS_PER_NODE: expected the tasks of {len(nodes)} nodes, found {len(counts)}")
    places = [(place, local) for place, count in enumerate(counts) for local in range(count)]
    if not (rank < len(places) and places[rank][0] == node):
        raise InputError(
            f"SLURM_PROCID: expected task {rank} on node {places[rank][0] if rank < len(places) else '?'}, found it on "
            f"node {node}; tasks must be distributed node by node: srun --distribution=block"
        )
    step = 100 * _number(variables, "SLURM_JOB_ID") + _number(variables, "SLURM_STEP_ID", "0")
    first = PORTS.start + step * max(counts) % (len(PORTS) - max(counts))
    addresses = [f"{nodes[place]}:{first + local}" for place, local in places]
    return json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}})


def _read(variables: Mapping[str, str], *names: str) -> str:
    for name in names:
        if variables.get(name):
            return variables[name]
    raise InputError(f"{names[0]} is not set: expected a task of Slurm; start this with srun")


def _number(variables: Mapping[str, str], name: str, otherwise: str = "") -> int:
    text = variables.get(name) or otherwise or _read(variables, name)
    if not re.fullmatch("[0-9]{1,15}", text):
        raise InputError(f"{name}: expected a number, found {text[:40]!r}")
    return int(text)


def main() -> int:
    """Prints the `TF_CONFIG` of this task. Returns the exit status."""
    prepare_streams()
    try:
        sys.stdout.write(tf_config(os.environ) + "\n")
    except InputError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
