"""A training that is killed ends as one that was left alone; `make long` kills at every write and a hundred times."""

import subprocess
import sys

import pytest

from tests.support import ROOT
from tests.support.minutes import by_hand

pytestmark = [
    pytest.mark.minutes,
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="forks after TensorFlow"),
]


@by_hand
def test_a_training_killed_at_some_of_its_writes_ends_the_same():
    command = [sys.executable, "-m", "tests.benchmarks.kill_every_write", "--what", "training", "--every", "60"]
    answer = subprocess.run([*command, "--kills", "1"], cwd=ROOT, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "training: 1 states continued" in answer.stdout and "training: 1 killed; 0 of all" in answer.stdout
