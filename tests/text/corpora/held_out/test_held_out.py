"""Sets that are held out share no sentence with the rest, and depend on nothing but the text."""

import random
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.errors import InputError
from qkv.text.corpora.corpus import Corpus
from qkv.text.corpora.held_out import LARGEST_COMPONENT, hold_out
from tests.support.oracles import walk

SENTENCES = st.integers(0, 40).map(str) | st.just("")


def corpus_of(pairs):
    sources, targets = zip(*pairs, strict=True)
    return Corpus(list(sources), list(targets), range(1, len(pairs) + 1), "text")


def sets_of(pairs, **sizes):
    """The pairs of each part."""
    return {name: [pairs[row] for row in rows] for name, rows in hold_out(corpus_of(pairs), sizes).items()}


def random_pairs(number, seed, translations=1.4):
    """Sentences of which some have several translations on either side."""
    draw = random.Random(seed)
    return [tuple(f"{side}{draw.randrange(int(number / translations))}" for side in "st") for _ in range(number)]


@given(st.lists(st.tuples(SENTENCES, SENTENCES), min_size=4, max_size=60), st.integers(1, 5), st.integers(1, 5))
def test_no_component_is_in_two_parts_and_large_ones_are_trained_on(pairs, validation, test):
    try:
        parts = hold_out(corpus_of(pairs), {"validation": validation, "test": test})
    except InputError:
        return
    components = walk(*zip(*pairs, strict=True))
    of_part = {name: {components[row] for row in rows} for name, rows in parts.items()}
    assert not of_part["validation"] & of_part["test"]
    assert not (of_part["validation"] | of_part["test"]) & of_part["train"]
    held = of_part["validation"] | of_part["test"]
    for component in set(components):
        rows = [row for row in range(len(pairs)) if components[row] == component]
        if len({pairs[row] for row in rows}) > LARGEST_COMPONENT or any("" in pairs[row] for row in rows):
            assert component not in held
    for name, size in (("validation", validation), ("test", test)):
        sources = [pairs[row][0] for row in parts[name]]
        assert len(sources) == len(set(sources)) == size
    for rows in parts.values():
        assert rows.tolist() == sorted(rows)


def test_the_order_of_the_pairs_plays_no_part():
    pairs = random_pairs(400, seed=1)
    parts = sets_of(pairs, validation=20, test=30)
    shuffled = random.Random(2).sample(pairs, len(pairs))
    assert {name: sorted(part) for name, part in sets_of(shuffled, validation=20, test=30).items()} == {
        name: sorted(part) for name, part in parts.items()
    }
    assert [len(parts[name]) for name in ("validation", "test")] == [20, 30]


def test_the_size_of_one_set_does_not_move_the_other():
    pairs = random_pairs(400, seed=3)
    both = sets_of(pairs, validation=20, test=30)
    assert sets_of(pairs, validation=20)["validation"] == both["validation"]
    assert sets_of(pairs, validation=5, test=30)["test"] == both["test"]
    smaller = sets_of(pairs, validation=5, test=30)["validation"]
    assert set(smaller) < set(both["validation"])


def test_pairs_that_are_added_move_few_others():
    pairs = random_pairs(1000, seed=4)
    more = [*pairs, *((f"{source}x", f"{target}x") for source, target in random_pairs(200, seed=5))]
    before, after = (sets_of(text, validation=50, test=50) for text in (pairs, more))
    for name in ("validation", "test"):
        assert len(set(before[name]) - set(after[name])) < 20
        assert not set(before[name]) & set(after["train"]) - {pair for pair in before[name] if pair not in after[name]}


def test_sets_are_drawn_from_the_whole_text():
    """Components of several pairs are as likely to be held out as those of one."""
    single = [(f"s{number}", f"t{number}") for number in range(2000)]
    triple = [(f"S{number}{letter}", f"T{number}") for number in range(2000) for letter in "abc"]
    parts = sets_of(single + triple, validation=800, test=800)
    for name in ("validation", "test"):
        targets = {target for _, target in parts[name]}
        assert 0.4 < sum(target.startswith("T") for target in targets) / len(targets) < 0.6
        assert 0.4 < sum(int(target[1:]) < 1000 for target in targets) / len(targets) < 0.6


def test_repeated_pairs_and_further_translations_are_in_no_part():
    pairs = [(letter, letter.upper()) for letter in string.ascii_letters[:26]]
    repeated = [pair for pair in pairs for _ in range(LARGEST_COMPONENT + 1)] + [(one, one * 2) for one, _ in pairs]
    parts = sets_of(repeated, test=10)
    assert len(set(parts["test"])) == 10
    sources = {source for source, _ in parts["test"]}
    assert parts["train"] == [pair for pair in repeated if pair[0] not in sources]


def test_white_space_makes_no_other_sentence():
    spaced = [(f"a  {number}", f"Ça va {number}\u202f?") for number in range(20)]
    plain = [(f"a {number} ", f"Ça va {number} ?") for number in range(20)]
    parts = sets_of(spaced + plain, test=5)
    numbers = {source.split()[1] for source, _ in parts["test"]}
    assert len(numbers) == 5
    assert not numbers & {source.split()[1] for source, _ in parts["train"]}


def test_the_split_of_a_text_is_the_same_for_ever():
    """A run that is trained anew years later has the same sets."""
    pairs = [(f"sentence {number}", f"Satz {number}") for number in range(100)]
    parts = hold_out(corpus_of(pairs), {"validation": 3, "test": 3})
    assert [parts[name].tolist() for name in ("validation", "test")] == [[17, 30, 52], [57, 60, 68]]


@pytest.mark.parametrize(
    ("sizes", "told"),
    [
        ({"validation": 0}, r"data.validation.share: the share of the 20 pairs of text is less than one pair"),
        ({"validation": 7, "test": 4}, r"data.validation and data.test would hold out 11 of 20 pairs; expected at"),
        ({"validation": 3, "test": 3}, r"of 20 pairs only 2 can be held out as data.validation, expected 3"),
    ],
)
def test_sets_that_the_text_cannot_give_are_refused(sizes, told):
    linked = [("yes", f"oui {number}") for number in range(15)]
    with pytest.raises(InputError, match=told):
        hold_out(corpus_of(linked + [(f"{number}", f"{number}") for number in range(5)]), sizes)
