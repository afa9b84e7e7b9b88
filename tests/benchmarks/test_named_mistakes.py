"""`mutation/named.csv` changes code that is still there."""

import csv
from pathlib import Path

import pytest

from tests.support import ROOT

NAMED = Path(__file__).with_name("mutation") / "named.csv"


def rows():
    with NAMED.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


@pytest.mark.parametrize("row", rows(), ids=lambda row: row["mistake"])
def test_a_named_mistake_can_be_made_in_one_place(row):
    code = (ROOT / row["module"]).read_text(encoding="utf-8")
    assert code.count(row["before"]) == 1
    compile(code.replace(row["before"], row["after"]), row["module"], "exec")
    assert all((ROOT / name).is_file() for name in row["tests"].split())
