"""When validations are due."""

import pytest

from qkv.training.validation import is_due


@pytest.mark.parametrize("total", [10, 11, 99, 100, 2107])
def test_ten_validations_are_spread_over_a_known_total(total):
    due = [update for update in range(1, total + 1) if is_due(update, None, total)]
    assert len(due) == 10 and due[-1] == total


def test_a_training_of_few_updates_is_validated_after_each():
    assert [is_due(update, None, 4) for update in range(1, 5)] == [True] * 4


def test_a_number_of_updates_between_validations_comes_first_and_an_unknown_total_has_none():
    assert [update for update in range(1, 10) if is_due(update, 4, 9)] == [4, 8]
    assert not any(is_due(update, None, None) for update in range(1, 100))
