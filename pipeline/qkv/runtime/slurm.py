"""Writes the `TF_CONFIG` of a task of Slurm, which sets only `SLURM_*`: `python -m qkv.runtime.slurm`."""

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping

from ..errors import InputError
from .streams import prepare_streams

PORTS = range(20_000, 30_000)  # those from which each step takes its own, by its number
_MOST_NODES = 100_000


def tf_config(variables: Mapping[str, str]) -> str:
    """Returns the `TF_CONFIG` of a task: one worker a task, in the order of their ranks.

    Args:
        variables: of the environment, as `srun` sets them.

    Raises:
        InputError: some are missing or wrong, or the tasks are not distributed node by node.
    """
    nodes = list(expand_nodes(_read(variables, "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST")))
    counts = list(_expand_counts(_read(variables, "SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE")))
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


def expand_nodes(text: str) -> Iterator[str]:
    """Yields the names in a list of nodes as Slurm writes it, such as `gpu[01-03,7],login`; raises an `InputError` for
    anything else."""
    if not re.fullmatch(r"[^,\[\]]+(\[[0-9,-]+\])?(,[^,\[\]]+(\[[0-9,-]+\])?)*", text):
        raise _not_nodes(text)
    for name, ranges in re.findall(r"([^,\[\]]+)(?:\[([0-9,-]+)\])?", text):
        if not ranges:
            yield name
        for piece in ranges.split(",") if ranges else ():
            found = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", piece)
            if not found or int(found[2] or found[1]) - int(found[1]) > _MOST_NODES:
                raise _not_nodes(text)
            for number in range(int(found[1]), int(found[2] or found[1]) + 1):
                yield f"{name}{number:0{len(found[1])}d}"


def _not_nodes(text: str) -> InputError:
    return InputError(f"SLURM_STEP_NODELIST: expected nodes such as gpu[01-03,7],login, found {text[:80]!r}")


def _expand_counts(text: str) -> Iterator[int]:
    """Yields the numbers in `2(x3),1`."""
    for part in text.split(","):
        found = re.fullmatch(r"(\d{1,6})(?:\(x(\d{1,6})\))?", part)
        if not found or int(found[1]) < 1:
            raise InputError(
                f"SLURM_STEP_TASKS_PER_NODE: expected numbers of tasks such as 2(x3),1, found {text[:80]!r}"
            )
        yield from [int(found[1])] * int(found[2] or 1)


def _read(variables: Mapping[str, str], *names: str) -> str:
    for name in names:
        if variables.get(name):
            return variables[name]
    raise InputError(f"{names[0]} is not set: expected a task of Slurm; start this with srun")


def _number(variables: Mapping[str, str], name: str, otherwise: str = "") -> int:
    text = variables.get(name) or otherwise or _read(variables, name)
    if not re.fullmatch(r"\d{1,15}", text):
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
