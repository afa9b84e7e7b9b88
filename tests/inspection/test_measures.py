import math

import numpy as np
import pytest

from pipeline.inspection.measures import heads_table, measure


def measures_by_loops(weights, eos, others):
    """The definitions, one cell at a time, for one head."""
    T, S = weights.shape
    totals = dict.fromkeys(["entropy", "relative_entropy", "confidence", "diagonality", "agreement", "eos_share"], 0.0)
    for t in range(T):
        entropy = -sum(float(w) * math.log(float(w)) for w in weights[t] if w > 0)
        totals["entropy"] += entropy / T
        totals["relative_entropy"] += (entropy / math.log(S) if S > 1 else 0.0) / T
        totals["confidence"] += float(max(weights[t])) / T
        totals["eos_share"] += float(weights[t, eos]) / T if eos is not None else math.nan
        for s in range(S):
            here, there = (t / (T - 1) if T > 1 else 0.5), (s / (S - 1) if S > 1 else 0.5)
            totals["diagonality"] += float(weights[t, s]) * (1 - abs(here - there)) / T
            for other in others:
                totals["agreement"] += min(float(weights[t, s]), float(other[t, s])) / T / len(others)
    return totals


@pytest.mark.parametrize(("T", "S", "eos"), [(4, 7, 6), (7, 4, 0), (1, 5, 4), (5, 1, 0), (1, 1, None), (3, 2, None)])
def test_measures_equal_loops_for_every_layer_and_head(make_record, T, S, eos):
    weights = make_record(T, (0,) * S, (0,) * T).attention["cross"]
    measured = measure(weights, {"eos": None if eos is None else [eos]})
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
    measured = measure(np.array([[uniform, first, diagonal]], np.float32), {"eos": [S - 1], "odd": [1, 3], "none": []})
    np.testing.assert_allclose(measured["entropy"], [[math.log(S), 0, 0]], atol=1e-6)
    np.testing.assert_allclose(measured["relative_entropy"], [[1, 0, 0]], atol=1e-6)
    np.testing.assert_allclose(measured["confidence"], [[1 / S, 1, 1]], atol=1e-6)
    np.testing.assert_allclose(measured["eos_share"], [[1 / S, 0, 1 / T]], atol=1e-6)
    np.testing.assert_allclose(measured["odd_share"], [[2 / S, 0, 4 / T]], atol=1e-6)
    np.testing.assert_allclose(measured["none_share"], 0)
    # The first head shares 1 / S with uniform weights in every row, and with the diagonal its first two rows.
    np.testing.assert_allclose(measured["agreement"][0, 1], (1 / S + 2 / T) / 2, atol=1e-6)
    np.testing.assert_allclose(measured["diagonality"][0, 1], 0.5, atol=1e-6)
    assert measured["diagonality"][0, 2] > 0.9 > measured["diagonality"][0, 0]
    assert measure(np.eye(6, dtype=np.float32)[None, None])["diagonality"] == pytest.approx(1)


def test_a_row_with_nothing_to_attend_to_is_zero_everywhere():
    measured = measure(np.zeros((1, 2, 2, 3), np.float32), {"eos": [2]})
    assert all((value == 0).all() for value in measured.values())


def test_sharp_heads_that_look_elsewhere_are_not_averaged_before_the_entropy():
    heads = np.array([[np.eye(4)[[0, 0]], np.eye(4)[[3, 3]]]], np.float32)
    assert measure(heads)["entropy"].mean() == 0
    assert measure(heads.mean(axis=1, keepdims=True))["entropy"] == pytest.approx(math.log(2))


def test_wrong_axes_are_refused():
    for shape in [(2, 3, 4), (1, 1, 0, 3), (1, 1, 3, 0)]:
        with pytest.raises(ValueError, match="shape"):
            measure(np.zeros(shape, np.float32))


@pytest.mark.parametrize("site", ["cross", "encoder", "decoder"])
def test_the_table_weights_each_sentence_by_its_rows(make_record, site):
    records = [make_record(0, target_words=(0, None)), make_record(1, (0, 1, None), (*range(10), None))]
    table = heads_table(iter(records), site)
    assert table[["layer", "head"]].to_numpy().tolist() == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]
    assert set(table["site"]) == {site}
    for row in table.to_dict("records"):
        names = ["entropy", "relative_entropy", "confidence", "diagonality", "agreement", "eos_share"]
        totals, rows = dict.fromkeys(names, 0.0), 0
        for record in records:
            weights = record.attention[site][row["layer"], row["head"]]
            eos = None if site == "decoder" else len(record.source_tokens) - 1
            others = [record.attention[site][row["layer"], other] for other in range(3) if other != row["head"]]
            for name, value in measures_by_loops(weights, eos, others).items():
                totals[name] += value * len(weights)
            rows += len(weights)
        for name, total in totals.items():
            assert row[name] == pytest.approx(total / rows, abs=1e-6, nan_ok=True), name
    assert table["eos_share"].isna().all() == (site == "decoder")
    assert table["bos_share"].isna().all() == (site != "decoder")


@pytest.mark.parametrize(("site", "axis"), [("cross", "source_tokens"), ("decoder", "target_input_tokens")])
def test_punctuation_is_what_unicode_calls_so(make_record, site, axis):
    tokens = [
        "<s>" if axis != "source_tokens" else "\u2581a",
        "\u2581\u00bb",
        "b.",
        "...",
        "\u2581",
        "\u3002",
        "$",
        "</s>",
    ]
    changes = {axis: tokens, "source_words": (*range(7), None), "target_words": (*range(7), None)}
    record = make_record(0, **changes)
    table = heads_table([record], site)
    weights = record.attention[site][..., [1, 3, 5]].sum(axis=-1).mean(axis=-1)
    np.testing.assert_allclose(table["punctuation_share"], weights.ravel(), atol=1e-6)
    if site == "decoder":
        np.testing.assert_allclose(table["bos_share"], record.attention[site][..., 0].mean(axis=-1).ravel(), atol=1e-6)


def test_one_head_agrees_with_nobody():
    assert np.isnan(measure(np.ones((2, 1, 3, 1), np.float32))["agreement"]).all()


def test_a_source_without_eos_has_no_eos_share(make_record):
    assert heads_table([make_record(0, source_words=(0, 1, 2))])["eos_share"].isna().all()


def test_no_records_give_an_empty_table():
    table = heads_table([])
    assert len(table) == 0
    assert "diagonality" in table
