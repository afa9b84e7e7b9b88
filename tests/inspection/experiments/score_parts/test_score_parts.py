"""Tables of the parts of scores."""

import numpy as np
import pytest

from qkv.inspection.experiments.score_parts import ScoreParts

QUERY_PARTS = ["token", "decoder.0.self.head.0", "decoder.0.self.head.1", "decoder.0.self.bias", "queries.bias"]
KEY_PARTS = ["token", "position", "keys.bias"]


@pytest.fixture
def parts():
    pairs = np.random.default_rng(0).normal(size=(5, 3, 4))
    pairs[:, 2] = pairs[:, 2, :1]  # a bias is the same for all keys
    return ScoreParts("decoder.0.cross", 0, 1, "a", "b", list("wxyz"), QUERY_PARTS, KEY_PARTS, pairs, np.full(4, 0.25))


def test_the_table_has_a_row_for_each_key_and_pair_and_adds_up_to_the_scores(parts):
    table = parts.table()
    assert len(table) == 5 * 3 * 4
    found = table.groupby("position")["score"].sum()
    np.testing.assert_allclose(found, parts.scores)
    row = table[(table["key"] == "y") & (table["query_part"] == "queries.bias") & (table["key_part"] == "position")]
    assert row["score"].item() == parts.pairs[4, 1, 2]
    assert row["difference"].item() == pytest.approx(parts.pairs[4, 1, 2] - parts.pairs[4, 1].mean())
    np.testing.assert_allclose(table.groupby(["query_part", "key_part"])["difference"].sum(), 0, atol=1e-12)


def test_shares_are_of_the_differences_between_keys_and_one_in_sum(parts):
    shares = parts.shares()
    assert shares.to_numpy().sum() == pytest.approx(1)
    np.testing.assert_allclose(shares["keys.bias"], 0, atol=1e-12)
    slope = np.polyfit(parts.scores, parts.pairs[1, 0], 1)[0]
    assert shares.loc["decoder.0.self.head.0", "token"] == pytest.approx(slope)


def test_heads_of_a_layer_and_biases_can_be_added_up(parts):
    merged = parts.merged()
    assert merged.query_parts == ["token", "decoder.0.self", "biases"]
    assert merged.key_parts == ["token", "position", "biases"]
    np.testing.assert_allclose(merged.pairs[1, 0], parts.pairs[1, 0] + parts.pairs[2, 0])
    np.testing.assert_allclose(merged.pairs[2, 2], parts.pairs[3, 2] + parts.pairs[4, 2])
    np.testing.assert_allclose(merged.scores, parts.scores)


def test_shares_are_unknown_where_all_scores_are_equal(parts):
    equal = ScoreParts(**{**vars(parts), "pairs": np.ones((5, 3, 4))})
    assert equal.shares().isna().all(axis=None)
