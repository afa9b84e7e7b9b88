import math

import numpy as np
import pytest

from pipeline.inspection.measures import heads_table, measure


def measures_by_loops(weights, eos):
    """The definitions, one cell at a time, for one head."""
    T, S = weights.shape
    totals = dict.fromkeys(["entropy", "relative_entropy", "confidence", "eos_share", "diagonality"], 0.0)
    for t in range(T):
        entropy = -sum(float(w) * math.log(float(w)) for w in weights[t] if w > 0)
        totals["entropy"] += entropy / T
        totals["relative_entropy"] += (entropy / math.log(S) if S > 1 else 0.0) / T
        totals["confidence"] += float(max(weights[t])) / T
        totals["eos_share"] += float(weights[t, eos]) / T if eos is not None else math.nan
        for s in range(S):
            here, there = (t / (T - 1) if T > 1 else 0.5), (s / (S - 1) if S > 1 else 0.5)
            totals["diagonality"] += float(weights[t, s]) * (1 - abs(here - there)) / T
    return totals


@pytest.mark.parametrize(("T", "S", "eos"), [(4, 7, 6), (7, 4, 0), (1, 5, 4), (5, 1, 0), (1, 1, None), (3, 2, None)])
def test_measures_equal_loops_for_every_layer_and_head(make_record, T, S, eos):
    weights = make_record(T, (0,) * S, (0,) * T).attention["cross"]
    measured = measure(weights, eos)
    for layer, head in np.ndindex(2, 3):
        expected = measures_by_loops(weights[layer, head], eos)
        assert measured.keys() == expected.keys()
        for name, value in expected.items():
            assert measured[name].shape == (2, 3)
            assert measured[name][layer, head] == pytest.approx(value, abs=1e-6, nan_ok=True), name


def test_uniform_one_hot_and_diagonal_heads_have_the_known_values():
    T, S = 9, 5
    uniform = np.full((T, S), 1 / S)
    first = np.eye(S)[[0] * T]
    diagonal = np.eye(S)[[t // 2 for t in range(T)]]
    measured = measure(np.array([[uniform, first, diagonal]], np.float32), S - 1)
    np.testing.assert_allclose(measured["entropy"], [[math.log(S), 0, 0]], atol=1e-6)
    np.testing.assert_allclose(measured["relative_entropy"], [[1, 0, 0]], atol=1e-6)
    np.testing.assert_allclose(measured["confidence"], [[1 / S, 1, 1]], atol=1e-6)
    np.testing.assert_allclose(measured["eos_share"], [[1 / S, 0, 1 / T]], atol=1e-6)
    np.testing.assert_allclose(measured["diagonality"][0, 1], 0.5, atol=1e-6)
    assert measured["diagonality"][0, 2] > 0.9 > measured["diagonality"][0, 0]
    assert measure(np.eye(6, dtype=np.float32)[None, None], None)["diagonality"] == pytest.approx(1)


def test_a_row_with_nothing_to_attend_to_is_zero_everywhere():
    measured = measure(np.zeros((1, 1, 2, 3), np.float32), 2)
    assert all(value == 0 for value in measured.values())


def test_sharp_heads_that_look_elsewhere_are_not_averaged_before_the_entropy():
    heads = np.array([[np.eye(4)[[0, 0]], np.eye(4)[[3, 3]]]], np.float32)
    assert measure(heads, None)["entropy"].mean() == 0
    assert measure(heads.mean(axis=1, keepdims=True), None)["entropy"] == pytest.approx(math.log(2))


def test_wrong_axes_are_refused():
    for shape in [(2, 3, 4), (1, 1, 0, 3), (1, 1, 3, 0)]:
        with pytest.raises(ValueError, match="shape"):
            measure(np.zeros(shape, np.float32), None)


@pytest.mark.parametrize("site", ["cross", "encoder", "decoder"])
def test_the_table_weights_each_sentence_by_its_rows(make_record, site):
    records = [make_record(0, target_words=(0, None)), make_record(1, (0, 1, None), (*range(10), None))]
    table = heads_table(iter(records), site)
    assert table[["layer", "head"]].to_numpy().tolist() == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]
    assert set(table["site"]) == {site}
    for row in table.to_dict("records"):
        totals, rows = dict.fromkeys(["entropy", "confidence", "eos_share", "diagonality", "relative_entropy"], 0.0), 0
        for record in records:
            weights = record.attention[site][row["layer"], row["head"]]
            eos = None if site == "decoder" else len(record.source_tokens) - 1
            for name, value in measures_by_loops(weights, eos).items():
                totals[name] += value * len(weights)
            rows += len(weights)
        for name, total in totals.items():
            assert row[name] == pytest.approx(total / rows, abs=1e-6, nan_ok=True), name
    assert table["eos_share"].isna().all() == (site == "decoder")


def test_a_source_without_eos_has_no_eos_share(make_record):
    assert heads_table([make_record(0, source_words=(0, 1, 2))])["eos_share"].isna().all()


def test_no_records_give_an_empty_table():
    table = heads_table([])
    assert len(table) == 0
    assert "diagonality" in table
