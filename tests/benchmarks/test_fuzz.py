"""Files changed at random are read or refused; tests/benchmarks/fuzz.py does this for ten minutes."""

import re
import subprocess
import sys

import pytest

from tests.benchmarks.fuzzed_files import KINDS
from tests.support import ROOT
from tests.support.minutes import by_hand

pytestmark = [
    pytest.mark.minutes,
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="forks after TensorFlow"),
]

SECONDS = 0.15


@by_hand
def test_a_few_changed_files_of_each_kind_are_read_or_refused():
    options = ["--seed", "3", "--minutes", str(SECONDS * len(KINDS) / 60)]
    command = [sys.executable, "-m", "tests.benchmarks.fuzz", *options]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    read = re.findall(r"^(\w+): ([\d,]+) files, .* 0 findings$", answer.stdout, re.MULTILINE)
    assert [kind for kind, files in read if files != "0"] == [*KINDS]
