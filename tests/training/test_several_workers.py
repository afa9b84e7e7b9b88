"""Several workers, on several machines or several devices of one, train the model that one alone would."""

import json
import re
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from qkv.config.run import dump
from qkv.files.run_directory import EVENT_FILES
from qkv.run import train
from tests.support.minutes import ALL_CASES, by_hand
from tests.support.processes import clusters, finish, start
from tests.support.run_contents import contents_but_names, differing
from tests.support.tiny_runs import small_config, write_small_corpus

pytestmark = [pytest.mark.minutes, pytest.mark.slow]

CHANGES = {
    "model.dropout": 0.0,
    "batches.batch_tokens": 64,  # some batches are of one sentence, which leaves nothing for the second worker
    "training.max_updates": 18,  # so that there are two kills before the end
    "training.validate_every_updates": 3,
    "training.keep_checkpoints": 9,
    "training.log_every_updates": 5,
    "training.epsilon": 1e-4,  # or Adam makes steps out of the rounding errors of a key's bias, whose gradient is 0
    "training.max_minutes": 60,  # the workers agree on time too
}
ALONE = {"alone": CHANGES, "accumulated alone": CHANGES | {"batches.accumulated": 3}}

TWO_DEVICES = """
import sys
from pathlib import Path
import tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
from qkv.run import training
from qkv.run import train
from qkv.config import load_run_config
from qkv.training import build
from tests.support.minutes import by_hand
build.slices_per_update = lambda: 1  # as on GPUs, the only devices of which one process takes several
training.make_strategy = lambda: tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
sys.exit(max(train(load_run_config(Path(path))) for path in sys.argv[1:]))
"""


def settings_of(name, folder, changes):
    return small_config(folder / "corpus", folder / "runs", name, changes)


def config_of(name, folder, changes=CHANGES):
    path = folder / f"{name}.yaml"
    path.write_text(dump(settings_of(name, folder, changes)), encoding="utf-8")
    return str(path)


def weights_of(run: Path):
    with np.load(run / "checkpoints" / "update-00000018.npz") as archive:
        return {name: archive[name] for name in archive.files if name.startswith("model/")}


def start_two(folder, name, changes=CHANGES):
    """Starts a run of two workers, or goes on with it, and returns them and the folders of what they print."""
    folders, config = [folder / f"{name}-{index}" for index in range(2)], config_of(name, folder, changes)
    tasks = zip(folders, clusters(2), strict=True)
    return [start(["train.py", "--config", config], own, task) for own, task in tasks], folders


@pytest.fixture(scope="module")
def one_process(tmp_path_factory):
    """The folder of the corpus and of the runs."""
    folder = tmp_path_factory.mktemp("workers")
    write_small_corpus(folder / "corpus")
    return folder


@pytest.fixture(scope="module")
def workers(one_process):
    """The folders of two workers that have trained a run of that name."""
    processes, folders = start_two(one_process, "workers")
    finish(processes, folders)
    return folders


def assert_as_alone(folder, name, alone="alone"):
    """Compares a run with that of one process on one device, which is trained when it is first needed."""
    if not (folder / "runs" / alone).exists():
        assert train(settings_of(alone, folder, ALONE[alone])) == 0
    alone, together = weights_of(folder / "runs" / alone), weights_of(folder / "runs" / name)
    assert list(alone) == list(together)
    for key, value in alone.items():
        np.testing.assert_allclose(together[key], value, atol=1e-5, err_msg=key)


def test_two_worker_processes_reach_the_weights_of_one_and_only_the_chief_writes(one_process, workers):
    assert_as_alone(one_process, "workers")
    runs = one_process / "runs"
    folders_of_runs = [list((runs / name).iterdir()) for name in ("alone", "workers")]
    files = [sorted("events" if path.match(EVENT_FILES) else path.name for path in paths) for paths in folders_of_runs]
    assert files[0] == files[1]
    assert "results:" in (workers[0] / "output").read_text()
    assert "results:" not in (workers[1] / "output").read_text()
    assert [path for folder in workers for path in (folder / "temporary").iterdir()] == []


@by_hand
def test_two_workers_follow_the_total_that_the_chief_has_measured(one_process):
    changes = {key: value for key, value in CHANGES.items() if "_updates" not in key}
    clocked = {"training.max_updates": None, "training.schedule": "clock", "training.max_minutes": 0.1}
    clocked |= {"training.validate_every_updates": None, "training.log_every_updates": 5}
    processes, folders = start_two(one_process, "clocked", changes | clocked)
    finish(processes, folders)
    run = one_process / "runs" / "clocked"
    last = max((run / "checkpoints").glob("update-*.npz"))
    with np.load(last) as archive:
        progress = json.loads(str(archive["progress"]))
    assert progress["update"] == progress["total_updates"] > 25  # after which it is first estimated
    assert f"trained for {progress['update']} updates" in (folders[0] / "output").read_text()


def test_two_devices_reach_the_weights_of_one_with_accumulated_batches_too(one_process):
    folder = one_process / "devices"
    names = {"devices": "alone", "accumulated on devices": "accumulated alone"}
    configs = [config_of(name, one_process, ALONE[alone]) for name, alone in names.items()]
    finish([start(["-c", TWO_DEVICES, *configs], folder)], [folder])
    for name, alone in names.items():
        assert_as_alone(one_process, name, alone)
    ours, without = (weights_of(one_process / "runs" / name) for name in ALONE)
    assert any(np.abs(ours[key] - without[key]).max() > 1e-3 for key in ours)


SLOW = {"training.max_updates": 5000, "training.validate_every_updates": 5000, "training.log_every_updates": 1}


def wait_until(holds, processes):
    while not holds() and all(process.poll() is None for process in processes):
        time.sleep(0.02)


def test_after_a_kill_the_other_worker_ends_and_the_same_command_ends_as_without_it(one_process, workers):
    """One run loses its chief, and by `make all-cases` the other worker once it has gone on."""
    runs = one_process / "runs"
    for victim in (0, 1) if ALL_CASES else (0,):
        before = set(runs.glob("killed/checkpoints/update-*"))
        processes, folders = start_two(one_process, "killed")
        wait_until(lambda known=before: set(runs.glob("killed/checkpoints/update-*")) - known, processes)
        processes[victim].kill()
        processes[victim].wait()
        finish([processes[1 - victim]], [folders[1 - victim]], status=75)
        said = (folders[1 - victim] / "output").read_text()
        assert f"error: worker {victim} (127.0.0.1:" in said or "error: another worker" in said
        assert f"\n  python train.py --config {one_process / 'killed'}.yaml\n" in said and "Traceback" not in said
    finish(*start_two(one_process, "killed"))
    assert differing(contents_but_names(runs / "killed"), contents_but_names(runs / "workers")) == []


def test_a_signal_to_one_worker_stops_both_at_one_update_with_a_checkpoint(one_process):
    """To the one that is not the chief: the votes of both are added up, whoever's they are."""
    processes, folders = start_two(one_process, "stopped", CHANGES | SLOW)
    output = folders[0] / "output"  # which the process makes when it starts
    wait_until(lambda: output.exists() and "update      3" in output.read_text(), processes)
    processes[1].send_signal(signal.SIGTERM)
    finish(processes, folders, status=130)
    update = re.search(r"interrupted after (\d+) updates", (folders[0] / "output").read_text())[1]
    (saved,) = (one_process / "runs" / "stopped").glob("checkpoints/passing-*.npz")
    assert saved.stem == f"passing-{int(update):08d}"
