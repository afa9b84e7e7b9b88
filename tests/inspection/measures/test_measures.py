"""Every measure against its definition, and against the values known for uniform, one-hot and diagonal heads."""

import math

import numpy as np
import pytest

from qkv.inspection.measures import MEASURES, is_punctuation
from tests.support.oracles import measures_by_loops
from tests.support.records import measure


@pytest.mark.parametrize(("T", "S", "eos"), [(4, 7, 6), (7, 4, 0), (1, 5, 4), (5, 1, 0), (1, 1, None), (3, 2, None)])
def test_measures_equal_loops_for_every_layer_and_head(make_record, T, S, eos):
    weights = make_record(T, (0,) * S, (0,) * T).attention["cross"]
    measured = measure(weights, {"eos": None if eos is None else [eos]})
    assert list(measured) == list(MEASURES)
    # No such keys, and no sink.
    assert all(np.isnan(measured.pop(f"{name}_share")).all() for name in ("bos", "punctuation", "sink"))
    for layer, head in np.ndindex(2, 3):
        others = [weights[layer, other] for other in range(3) if other != head]
        expected = measures_by_loops(weights[layer, head], eos, others)
        assert measured.keys() == expected.keys()
        for name, value in expected.items():
            assert measured[name].shape == (2, 3)
            assert measured[name][layer, head] == pytest.approx(value, abs=1e-6, nan_ok=True), name


def test_uniform_one_hot_and_diagonal_heads_have_the_known_values():
    T, S = 9, 5
    uniform = np.full((T, S), 1 / S)
    first = np.eye(S)[[0] * T]
    diagonal = np.eye(S)[[t // 2 for t in range(T)]]
    heads = np.array([[uniform, first, diagonal]], np.float32)
    measured = measure(heads, {"eos": [S - 1], "bos": [1, 3], "punctuation": []})
    np.testing.assert_allclose(measured["entropy"], [[math.log(S), 0, 0]], atol=1e-6)
    np.testing.assert_allclose(measured["relative_entropy"], [[1, 0, 0]], atol=1e-6)
    np.testing.assert_allclose(measured["confidence"], [[1 / S, 1, 1]], atol=1e-6)
    np.testing.assert_allclose(measured["eos_share"], [[1 / S, 0, 1 / T]], atol=1e-6)
    np.testing.assert_allclose(measured["bos_share"], [[2 / S, 0, 4 / T]], atol=1e-6)
    np.testing.assert_allclose(measured["punctuation_share"], 0)
    # The first head shares 1 / S with uniform weights in every row, and with the diagonal its first two rows.
    np.testing.assert_allclose(measured["agreement"][0, 1], (1 / S + 2 / T) / 2, atol=1e-6)
    np.testing.assert_allclose(measured["diagonality"][0, 1], 0.5, atol=1e-6)
    assert measured["diagonality"][0, 2] > 0.9 > measured["diagonality"][0, 0]
    assert measure(np.eye(6, dtype=np.float32)[None, None])["diagonality"] == pytest.approx(1)


def test_a_row_with_nothing_to_attend_to_is_zero_everywhere():
    sinks = np.zeros((1, 2, 2), np.float32)
    measured = measure(np.zeros((1, 2, 2, 3), np.float32), {"eos": [2], "bos": [0], "punctuation": [1]}, sinks)
    assert all((value == 0).all() for value in measured.values())


def test_sharp_heads_that_look_elsewhere_are_not_averaged_before_the_entropy():
    heads = np.array([[np.eye(4)[[0, 0]], np.eye(4)[[3, 3]]]], np.float32)
    assert measure(heads)["entropy"].mean() == 0
    assert measure(heads.mean(axis=1, keepdims=True))["entropy"] == pytest.approx(math.log(2))


def test_the_agreement_of_a_single_head_is_not_a_number():
    assert np.isnan(measure(np.ones((2, 1, 3, 1), np.float32))["agreement"]).all()


@pytest.mark.parametrize("token", ["▁.", "Ġ.", "##.", ".</w>", ".@@", ",", "▁...", "##"])
def test_punctuation_is_known_in_every_spelling(token):
    assert is_punctuation(token)


@pytest.mark.parametrize("token", ["▁", "▁a.", "Ġa", "Ġ", "##a", "a</w>", "</s>", "<s>"])
def test_words_and_special_tokens_are_no_punctuation(token):
    assert not is_punctuation(token)


def test_the_share_of_a_sink_is_that_of_the_mean_row():
    weights, sinks = np.full((1, 2, 4, 5), 0.1, np.float32), np.array([[[0.5] * 4, [0.2, 0.3, 0.4, 0.7]]], np.float32)
    np.testing.assert_allclose(measure(weights, {}, sinks)["sink_share"], [[0.5, 0.4]], atol=1e-6)
