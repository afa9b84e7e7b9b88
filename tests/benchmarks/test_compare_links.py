import re
import subprocess
import sys

import pytest

from tests.benchmarks.compare_links import terms_of

GOLD = ["0-0 1-1 2?1", "0-0 1-2 2-1", "0p0 1-0"]
FIRST = ["0-0 1-1", "0-0 1-1 2-2", "1-0"]
SECOND = ["0-0:0.90 1-1:0.80 2-1:0.40", "0-0:0.95 1-2:0.70 2-1:0.50", ""]


@pytest.fixture
def files(tmp_path):
    paths = []
    for name, lines in (("gold", GOLD), ("first", FIRST), ("second", SECOND)):
        path = tmp_path / name
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        paths.append(path)
    return paths


def test_each_sentence_counts_as_in_the_definition(files):
    gold, first, second = files
    above, below = terms_of(first, gold)  # |A| + |S| - |A and S| - |A and P|, and |A| + |S| (Och and Ney 2003)
    assert above.tolist() == [[0], [4], [0]] and below.tolist() == [[4], [6], [2]]
    above, below = terms_of(second, gold)
    assert above.tolist() == [[0], [0], [1]] and below.tolist() == [[5], [6], [1]]


def test_files_of_other_lengths_are_refused(files):
    gold, first, _ = files
    first.write_text("0-0\n", encoding="utf-8")
    with pytest.raises(ValueError, match="zip"):
        terms_of(first, gold)


def test_the_command_prints_both_rates_and_their_difference(files):
    for path in files:  # so many sentences that the interval is on one side of zero
        path.write_text(20 * path.read_text(encoding="utf-8"), encoding="utf-8")
    command = [sys.executable, "-m", "tests.benchmarks.compare_links", *map(str, files)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines[0] == f"{files[1]}: 33.3 %; {files[2]}: 8.3 %"
    pattern = r"difference -25\.0, 95 % interval ([+-]\d+\.\d) to ([+-]\d+\.\d), p = ([01]\.\d{3})"
    found = re.fullmatch(pattern, lines[1])
    assert float(found[1]) < -25 < float(found[2]) < 0 and 0 < float(found[3]) < 0.05
