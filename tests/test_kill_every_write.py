"""A training that is killed at any of its writes ends as one that was left alone; `make long` tries every write."""

import subprocess
import sys

import pytest

from tests.tiny_runs import ROOT

pytestmark = [
    pytest.mark.minutes,
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="forks after TensorFlow"),
]


def test_a_training_killed_at_some_of_its_writes_ends_the_same():
    command = [sys.executable, "-m", "tests.benchmarks.kill_every_write", "--what", "training", "--every", "25"]
    answer = subprocess.run([*command, "--kills", "1"], cwd=ROOT, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "1 killed; 0 of all end otherwise" in answer.stdout
