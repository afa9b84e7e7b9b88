"""Files changed at random are read or refused; tests/benchmarks/fuzz.py does this for ten minutes."""

import pytest

from tests.benchmarks.fuzz import KINDS, fuzz

pytestmark = pytest.mark.minutes


@pytest.mark.parametrize("kind", KINDS)
def test_a_few_changed_files_of_each_kind_are_read_or_refused(kind):
    files, findings = fuzz(kind, seed=3, first=0, seconds=2)
    assert files > 0
    assert not findings, findings[0]
