"""The table of every layer and head: means over the rows of all sentences, with the keys that each site has."""

import numpy as np
import pandas as pd
import pytest

from qkv.inspection.head_tables import HeadsMeter, heads_table
from qkv.inspection.measures import MEASURES, measure_site
from qkv.statistics.resampling import ratio_interval
from tests.support.oracles import measures_by_loops
from tests.support.records import EMPTY_SIDES


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
def test_punctuation_is_counted_as_unicode_defines_it(make_record, site, axis):
    first = "\u2581a" if axis == "source_tokens" else "<s>"
    tokens = [first, "\u2581\u00bb", "b.", "...", "\u2581", "\u3002", "$", "</s>"]
    changes = {axis: tokens, "source_words": (*range(7), None), "target_words": (*range(7), None)}
    record = make_record(0, **changes)
    table = heads_table([record], site)
    weights = record.attention[site][..., [1, 3, 5]].sum(axis=-1).mean(axis=-1)
    np.testing.assert_allclose(table["punctuation_share"], weights.ravel(), atol=1e-6)
    if site == "decoder":
        np.testing.assert_allclose(table["bos_share"], record.attention[site][..., 0].mean(axis=-1).ravel(), atol=1e-6)


def test_a_source_without_eos_has_no_eos_share(make_record):
    assert heads_table([make_record(0, source_words=(0, 1, 2))])["eos_share"].isna().all()


@pytest.mark.parametrize(("source_words", "target_words"), EMPTY_SIDES)
def test_a_sentence_with_an_empty_side_counts_nothing(make_record, source_words, target_words):
    empty, meter = make_record(1, source_words, target_words), HeadsMeter()
    records = [make_record(0), empty, make_record(2)]
    for record in records:
        meter.add(record, measure_site(record))
    pd.testing.assert_frame_equal(meter.table(), heads_table(records[::2]))
    kept = meter.sentences()
    assert kept.groupby("id")["rows"].max().tolist() == [4, 0, 4]
    assert kept[kept["id"] == 1][[*MEASURES]].isna().all(axis=None)
    assert meter.table_with_intervals()[["entropy_low", "entropy_high"]].notna().all(axis=None)
    assert heads_table([empty])[[*MEASURES]].isna().all(axis=None)


def test_no_records_give_an_empty_table():
    table = heads_table([])
    assert len(table) == 0 == len(HeadsMeter().sentences()) == len(HeadsMeter().table_with_intervals())
    assert "diagonality" in table and "diagonality" in HeadsMeter().sentences()


def test_each_sentence_has_a_row_for_each_layer_and_head_and_intervals_are_over_sentences(make_record):
    records = [make_record(3, target_words=(0, None)), make_record(5, (0, 1, None), (*range(10), None)), make_record(6)]
    meter = HeadsMeter()
    for record in records:
        meter.add(record, measure_site(record))
    sentences, table = meter.sentences(), meter.table_with_intervals()
    assert sentences["id"].tolist() == [3] * 6 + [5] * 6 + [6] * 6
    for record, (_, rows) in zip(records, sentences.groupby("id"), strict=True):
        assert rows[["layer", "head"]].to_numpy().tolist() == table[["layer", "head"]].to_numpy().tolist()
        assert set(rows["rows"]) == {len(record.target_output_tokens)}
        for name, values in measure_site(record).items():
            np.testing.assert_array_equal(rows[name], values.ravel())
    for (layer, head), rows in sentences.groupby(["layer", "head"]):
        row = table[(table["layer"] == layer) & (table["head"] == head)].iloc[0]
        for name in MEASURES:
            low, high = ratio_interval(*(x.to_numpy(float)[:, None] for x in (rows[name] * rows["rows"], rows["rows"])))
            np.testing.assert_allclose([row[f"{name}_low"], row[f"{name}_high"]], [low[0], high[0]])
            assert np.isnan(row[name]) or row[f"{name}_low"] <= row[name] <= row[f"{name}_high"]
