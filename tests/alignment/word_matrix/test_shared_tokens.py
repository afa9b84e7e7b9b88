"""Words that share a token are linked together."""

import numpy as np
import pytest

from qkv.alignment.readout import AlignmentReadout, extract_word_links
from qkv.alignment.word_matrix import group_words, spread_links
from qkv.text.corpora.word_links import GoldAlignment
from tests.support.records import score_heads


def test_words_with_a_token_each_are_groups_of_their_own():
    groups = group_words([0, 0, 1, 2, None], 4)
    assert groups.of_tokens == [0, 0, 1, 2, None] and groups.number == 4
    assert groups.of_words.tolist() == [0, 1, 2, 3]  # the last word has no token
    assert group_words([None], 0).of_words.tolist() == []


def test_a_word_without_a_token_of_its_own_is_grouped_with_the_next_and_with_none_if_it_was_cut_off():
    groups = group_words([1, 2, 2, 5, None], 8)
    assert groups.of_tokens == [0, 1, 1, 2, None] and groups.number == 4
    assert groups.of_words.tolist() == [0, 0, 1, 2, 2, 2, 3, 3]


def test_every_word_has_the_links_of_its_group():
    source, target = group_words([1, 2], 4), group_words([2], 4)
    links = np.zeros((2, 2, 3), bool)  # (2, target groups, source groups), the last groups without tokens
    links[0, 0, 0] = links[1, 0, 1] = True
    expected = np.zeros((2, 4, 4), bool)
    expected[0, :3, :2] = True
    expected[1, :3, 2] = True
    np.testing.assert_array_equal(spread_links(links, source, target), expected)


@pytest.fixture
def record(make_record):
    """Source tokens of 2, 1 and 3 characters; target tokens of 1 and 2."""
    record = make_record(0, (1, 2, 5, None), (0, 2, None), layers=1, heads=1)
    weights = np.array([[0.1, 0.1, 0.7, 0.1], [0.6, 0.2, 0.1, 0.1], [0.0, 0.0, 0.0, 1.0]], "float32")
    record.attention["cross"][0, 0] = weights
    return record


LINKS = {(3, 0), (4, 0), (5, 0), (0, 1), (1, 1), (0, 2), (1, 2)}


@pytest.mark.parametrize("extraction", ["target", "mutual", "over-0.4"])
def test_links_of_characters_are_those_of_their_tokens(record, extraction):
    assert AlignmentReadout(0, 0, "output", extraction).links(record) == LINKS
    found = extract_word_links(record, record.attention["cross"], "output", "target")[0, 0]
    assert {(int(i), int(j)) for j, i in np.argwhere(found)} == LINKS


def test_error_rates_count_characters(record):
    gold = GoldAlignment(frozenset(LINKS), frozenset(LINKS))
    table = score_heads([record], [gold], [(6, 3)])
    (row,) = table[(table["side"] == "output") & (table["linked"] == "target") & (table["head"] == 0)].to_dict(
        "records"
    )
    assert (row["aer"], row["precision"], row["recall"]) == (0, 1, 1)
