"""A training that is killed ends as one that was left alone; `make long` kills at every write and a hundred times."""

import subprocess
import sys

import pytest

from tests.benchmarks.kill import Killed, after_checkpoint
from tests.support import ROOT
from tests.support.run_contents import contents_but_names, differing

pytestmark = [pytest.mark.minutes, pytest.mark.slow]

FEW_UPDATES = {
    "training.max_updates": 4,
    "training.validate_every_updates": 1,
    "training.log_every_updates": 1,
    "tokenizer.bpe_dropout": 0.1,
    "inspection.probes": [],
}


def test_a_training_killed_in_a_process_of_its_own_and_resumed_by_another_ends_the_same(tmp_path):
    runs = Killed(tmp_path, FEW_UPDATES)
    straight = runs.finish("straight")
    assert runs.kill("broken", after_checkpoint(2)) in ("update-00000002", "update-00000003")
    assert not (runs.runs / "broken" / "model.keras").exists()
    end = contents_but_names(straight)
    shown = {".: metrics/loss", "validation: metrics/loss"}
    assert {"checkpoints/update-00000004.npz", "history.csv", "model.keras"} | shown <= set(end)
    assert differing(contents_but_names(runs.finish("broken")), end) == []


@pytest.mark.skipif(sys.platform != "linux", reason="forks after TensorFlow")
def test_a_training_killed_at_some_of_its_writes_ends_the_same():
    command = [sys.executable, "-m", "tests.benchmarks.kill_every_write", "--what", "training", "--every", "25"]
    answer = subprocess.run([*command, "--kills", "0"], cwd=ROOT, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "training: 2 states continued" in answer.stdout
