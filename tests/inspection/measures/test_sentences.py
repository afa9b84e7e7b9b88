"""A row of numbers for every sentence: means over heads, what was hardly attended to, what was least likely."""

import math

import numpy as np
import pytest

from qkv.inspection.head_tables import heads_table
from qkv.inspection.measures import MEASURES, coverage, measure_site, sentence_row
from tests.support.records import EMPTY_SIDES


def row_of(record):
    return sentence_row(record, measure_site(record))


def test_a_sentences_measures_are_means_over_its_heads(make_record):
    record = make_record(3)
    row, table = row_of(record), heads_table([record])
    for name in MEASURES:
        assert row[name] == pytest.approx(table[name].mean(), nan_ok=True), name
    assert (row["id"], row["mode"], row["truncated"]) == (3, "forced", False)
    assert (row["source_tokens"], row["target_tokens"]) == (5, 4)
    assert row["mean_log_probability"] == pytest.approx(np.mean(record.token_log_probabilities))
    least = int(np.argmin(record.token_log_probabilities))
    assert row["least_log_probability"] == record.token_log_probabilities[least]
    assert row["least_likely_token"] == record.target_output_tokens[least]


def test_words_without_spaces_are_spelt_by_their_tokens(make_record):
    tokens = ["▁", "我", "▁喜欢", "</s>"]
    record = make_record(0, (0, 0, 2, None), source_tokens=tokens, source="我喜欢", source_unit="characters")
    assert record.spell_source_words() == {0: "我", 2: "喜欢"}
    assert make_record(0, source="a  b c").spell_source_words() == {0: "a", 1: "b", 2: "c"}


def planted(make_record, columns, **changes):
    """A record whose rows put all their weight on the given source tokens, in every layer and head."""
    weights = np.zeros((2, 3, len(columns), 6), np.float32)
    weights[:, :, range(len(columns)), columns] = 1
    words = {"source_words": (0, 1, 1, 2, 3, None), "target_words": (*range(len(columns) - 1), None)}
    return make_record(0, **words, source="one two three four", attention={"cross": weights}, **changes)


def test_coverage_is_one_where_every_token_gets_its_share(make_record):
    np.testing.assert_allclose(coverage(planted(make_record, [0, 1, 2, 3, 4, 5])), 1)
    np.testing.assert_allclose(coverage(planted(make_record, [0, 0, 5, 1])), [3, 1.5, 0, 0, 0, 1.5])


def test_words_are_listed_when_all_their_tokens_are_under_or_over_attended(make_record):
    row = row_of(planted(make_record, [0, 0, 0, 1]))
    assert (row["under_attended"], row["over_attended"], row["least_coverage"]) == ("three four", "one", 0)
    assert row_of(planted(make_record, [0, 1, 2, 3, 4, 5]))["under_attended"] == ""


def test_a_sentence_without_cross_attention_has_a_row_of_missing_measures(make_record):
    row = row_of(make_record(0, attention={"cross": np.zeros((0, 0, 4, 5), np.float32)}))
    assert all(math.isnan(row[name]) for name in (*MEASURES, "least_coverage"))
    assert row["under_attended"] == row["over_attended"] == ""
    assert row["mean_log_probability"] < 0


@pytest.mark.parametrize(("source_words", "target_words"), EMPTY_SIDES)
def test_a_sentence_with_an_empty_side_has_no_measures(make_record, source_words, target_words):
    row = row_of(make_record(0, source_words, target_words, source="one two"))
    assert all(math.isnan(row[name]) for name in [*MEASURES, "least_coverage"])
    assert (row["under_attended"], row["over_attended"]) == ("", "")
    assert math.isfinite(row["mean_log_probability"])
