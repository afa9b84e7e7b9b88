"""The recipes of docs/use/machines.md: what they start on which machine, and what they do when it ends."""

import json
import os
import re
import subprocess
import sys

import pytest
import yaml

from qkv.runtime.cluster import read_cluster
from tests.support import ROOT
from tests.support.documents import MACHINES

PAGE = MACHINES.read_text(encoding="utf-8")

# Notes what is started with which TF_CONFIG, and ends with the next of the statuses that the test has written; the
# helper for Slurm is the real one, started once for each task: it imports TensorFlow for three seconds.
PYTHON = f"""#!/bin/bash
if [ "$1" = -m ]; then
  printed=$HELPED/$SLURM_PROCID
  [ -s $printed ] || {sys.executable} "$@" > $printed || exit
  cat $printed; exit
fi
index=$(echo "$TF_CONFIG" | tr -d '\\n' | sed 's/.*"index": \\([0-9]*\\).*/\\1/')
echo "$TF_CONFIG" | tr -d '\\n' >> started-$index; echo >> started-$index
echo "$@" >> arguments
status=$(head -1 statuses-$index 2>/dev/null)
sed -i 1d statuses-$index 2>/dev/null
exit ${{status:-0}}
"""
# As srun: a process for each task, and the highest of their statuses.
SRUN = """#!/bin/bash
[ "$1" = --kill-on-bad-exit=1 ] && shift
for rank in 0 1; do
  SLURM_PROCID=$rank SLURM_NODEID=$rank "$@" & tasks="$tasks $!"
done
for task in $tasks; do wait $task; ended=$?; [ $ended -gt ${highest:-0} ] && highest=$ended; done
exit ${highest:-0}
"""
SCONTROL = '#!/bin/bash\necho "$@" >> scontrol\n'
SLURM = {"SLURM_JOB_ID": "12", "SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": "n[1-2]", "SLURM_TASKS_PER_NODE": "1(x2)"}


def block(language, word):
    return next(text for text in re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL) if word in text)


@pytest.fixture(scope="module")
def helped(tmp_path_factory):
    """The folder of what the helper for Slurm has printed for each task."""
    return tmp_path_factory.mktemp("helped")


@pytest.fixture
def folder(tmp_path, helped, monkeypatch):
    monkeypatch.setenv("HELPED", str(helped))
    for name, text in (("python", PYTHON), ("srun", SRUN), ("scontrol", SCONTROL)):
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    return tmp_path


def run(script, folder, statuses=(), shell="bash", **variables):
    """Runs a script; `statuses` are those with which the training of each worker ends, one start after the other."""
    for index, ends in enumerate(statuses):
        (folder / f"statuses-{index}").write_text("".join(f"{status}\n" for status in ends))
    environment = os.environ | {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)} | variables
    environment.pop("TF_CONFIG", None)
    return subprocess.run([shell, "-c", script], cwd=folder, env=environment, capture_output=True).returncode


def starts(folder, index):
    """The `TF_CONFIG` of each start of a worker."""
    return [json.loads(line) for line in (folder / f"started-{index}").read_text().splitlines()]


def assert_one_cluster(folder, workers, addresses, monkeypatch):
    for index in range(workers):
        for config in starts(folder, index):
            monkeypatch.setenv("TF_CONFIG", json.dumps(config))
            cluster = read_cluster()
            assert cluster.index == index and re.fullmatch(addresses, " ".join(cluster.addresses))
    (command,) = set((folder / "arguments").read_text().splitlines())
    assert command.startswith("train.py --config configs/demo.yaml --run.name together")


@pytest.mark.parametrize(
    ("statuses", "number", "status"),
    [(((), ()), 1, 0), (((75, 137, 0), (137, 75, 0)), 3, 0), (((2,), (2,)), 1, 2), (((75, 130), (130,)), None, 130)],
)
def test_the_shell_starts_again_after_what_is_temporary(statuses, number, status, folder, monkeypatch):
    assert run(block("sh", "worker()"), folder, statuses) == status
    assert_one_cluster(folder, 2, r"127\.0\.0\.1:23451 127\.0\.0\.1:23452", monkeypatch)
    assert number is None or [len(starts(folder, index)) for index in (0, 1)] == [number] * 2


@pytest.mark.minutes
@pytest.mark.parametrize(
    ("statuses", "number", "status"),
    [(((), ()), 1, 0), (((75, 0), (137, 0)), 2, 0), (((2,), (2,)), 1, 2), (((75,) * 5, (75,) * 5), 5, 75)],
)
def test_slurm_starts_all_tasks_again_after_what_is_temporary(statuses, number, status, folder, monkeypatch):
    assert run(block("bash", "srun"), folder, statuses, **SLURM) == status
    assert_one_cluster(folder, 2, r"n1:2\d{4} n2:2\d{4}", monkeypatch)
    assert [len(starts(folder, index)) for index in (0, 1)] == [number] * 2
    assert not (folder / "scontrol").exists()


@pytest.mark.minutes
def test_slurm_queues_the_job_again_when_its_time_is_up(folder):
    assert run(block("bash", "srun"), folder, ((130,), (130,)), **SLURM) == 0
    assert (folder / "scontrol").read_text() == "requeue 12\n"


def test_every_pod_has_the_same_cluster_and_its_own_index(folder, monkeypatch):
    _, job = yaml.safe_load_all(block("yml", "Indexed"))
    (container,) = job["spec"]["template"]["spec"]["containers"]
    (script,) = container["args"]
    variables = {one["name"]: one["value"] for one in container["env"]}
    for index in range(2):
        assert run(script, folder, shell=container["command"][0], JOB_COMPLETION_INDEX=str(index), **variables) == 0
    assert_one_cluster(folder, 2, r"qkv-0\.qkv:2222 qkv-1\.qkv:2222", monkeypatch)


def test_the_manifest_holds_together():
    """What `kubectl` checks by its schema, and what it does not see: names that must be the same."""
    service, job = yaml.safe_load_all(block("yml", "Indexed"))
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert (service["apiVersion"], service["kind"]) == ("v1", "Service")
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "Job")
    assert service["spec"]["clusterIP"] == "None" and service["spec"]["publishNotReadyAddresses"] is True
    # Pods are QKV-INDEX.SUBDOMAIN, where a headless service of that name selects them by the label that jobs set.
    assert service["metadata"]["name"] == pod["subdomain"] and f".{pod['subdomain']}:" in container["args"][0]
    assert service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}
    assert f'"{job["metadata"]["name"]}-$index.' in container["args"][0].replace("\\", "")
    assert spec["completionMode"] == "Indexed" and spec["completions"] == spec["parallelism"]
    assert {"name": "WORKERS", "value": str(spec["completions"])} in container["env"]
    assert pod["restartPolicy"] == "Never"  # a policy for failed pods needs it
    rules = spec["podFailurePolicy"]["rules"]
    assert {rule["action"] for rule in rules} <= {"FailJob", "Ignore", "Count", "FailIndex"}
    codes = {code: rule["action"] for rule in rules for code in rule.get("onExitCodes", {}).get("values", [])}
    assert codes == {2: "FailJob", 75: "Ignore", 130: "Ignore", 142: "Ignore"}
    assert all(rule["onExitCodes"]["containerName"] == container["name"] for rule in rules if "onExitCodes" in rule)
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
