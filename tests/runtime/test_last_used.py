"""A memory of limited size forgets what was not used for the longest time."""

from qkv.runtime.last_used import LastUsed


def test_the_values_that_were_used_last_are_kept_and_others_made_again():
    made = []
    memory = LastUsed(2)
    for key in "aabacab":
        assert memory.get(key, lambda key=key: made.append(key) or key) == key
    assert made == ["a", "b", "c", "b"]  # b was not used for the longest time when c came
