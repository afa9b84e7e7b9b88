"""The `TF_CONFIG` of a task of Slurm."""

import json

import pytest

from qkv.errors import InputError
from qkv.runtime import slurm
from qkv.runtime.slurm import tf_config

TASK = {
    "SLURM_STEP_NODELIST": "n[09-10],big",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2),1",
    "SLURM_PROCID": "3",
    "SLURM_NODEID": "1",
    "SLURM_JOB_ID": "4711",
    "SLURM_STEP_ID": "2",
}


def test_all_tasks_have_one_cluster_in_the_order_of_their_ranks():
    tasks = [json.loads(tf_config(TASK | {"SLURM_PROCID": str(r), "SLURM_NODEID": str(r // 2)})) for r in range(5)]
    assert [task["task"] for task in tasks] == [{"type": "worker", "index": rank} for rank in range(5)]
    (addresses,) = {tuple(task["cluster"]["worker"]) for task in tasks}
    assert [address.split(":")[0] for address in addresses] == ["n09", "n09", "n10", "n10", "big"]
    assert len(set(addresses)) == 5 and all(20_000 <= int(address.split(":")[1]) < 30_000 for address in addresses)


def test_two_steps_of_a_node_have_other_ports():
    addresses = {
        address
        for step in range(3)
        for address in json.loads(tf_config(TASK | {"SLURM_STEP_ID": str(step)}))["cluster"]["worker"]
    }
    assert len(addresses) == 15


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"SLURM_STEP_NODELIST": ""}, "SLURM_STEP_NODELIST is not set: expected a task of Slurm; start this with srun"),
        ({"SLURM_STEP_NODELIST": "n[1"}, r'SLURM_STEP_NODELIST.*: Invalid hostlist format "n\[1"'),
        ({"SLURM_STEP_TASKS_PER_NODE": "2(x3)x"}, "SLURM_STEP_TASKS_PER_NODE: Invalid tasks-per-node list format"),
        ({"SLURM_STEP_TASKS_PER_NODE": "2"}, "expected the tasks of 3 nodes, found 1"),
        ({"SLURM_NODEID": "0"}, "expected task 3 on node 1, found it on node 0; .* srun --distribution=block"),
        ({"SLURM_PROCID": "5"}, r"expected task 5 on node \?"),
        ({"SLURM_PROCID": "x"}, "SLURM_PROCID: expected a number, found 'x'"),
        ({"SLURM_PROCID": "٣"}, "SLURM_PROCID: expected a number, found '٣'"),
        ({"SLURM_PROCID": "9" * 5000}, "SLURM_PROCID: expected a number, found '9{40}'"),
    ],
)
def test_a_task_that_is_none_is_refused(changes, message, monkeypatch, capsys):
    with pytest.raises(InputError, match=message):
        tf_config(TASK | changes)
    for name, value in (TASK | changes).items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("SLURM_JOB_NODELIST", raising=False)
    assert slurm.main() == 2
    assert capsys.readouterr().err.startswith("error: SLURM_")


def test_the_job_speaks_for_a_step_that_does_not_say(monkeypatch, capsys):
    step = {key.replace("SLURM_STEP_T", "SLURM_T").replace("SLURM_STEP_N", "SLURM_JOB_N"): v for key, v in TASK.items()}
    for name, value in step.items():
        monkeypatch.setenv(name, value)
    assert slurm.main() == 0
    assert capsys.readouterr().out == tf_config(TASK) + "\n"
