"""Intervals hold the true value as often as they say, and p is uniform where nothing differs, of each kind of measure;
what is read back is what was written."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from qkv.errors import InputError
from qkv.evaluation.measure_comparison import read_head_measures, read_measures
from qkv.files.run_directory import EvaluationDirectory
from qkv.statistics.resampling import interval, sentence_counts
from tests.support.populations import (
    FAMILIES,
    SCORED_SETS,
    corpus_populations,
    cover,
    distance_from_uniform,
    draw_corpora,
    p_values,
)


@pytest.mark.parametrize("family", FAMILIES)
def test_intervals_hold_the_true_value_in_95_of_100_sets(family):
    assert 0.93 <= cover(family) <= 0.97


@pytest.mark.parametrize("family", FAMILIES)
def test_p_is_uniform_where_nothing_differs(family):
    assert distance_from_uniform(p_values(family)) < 0.0515


@pytest.mark.minutes
@pytest.mark.parametrize("name", ["BLEU", "chrF"])
def test_intervals_of_scores_hold_the_true_value_and_their_p_is_uniform(name):
    one, other = corpus_populations(name)
    true = one.metric._compute_score_from_stats(np.rint((one.counts + other.counts).sum(0))).score
    inside, p = 0, []
    for number in range(SCORED_SETS):
        first, second = draw_corpora(name, number)
        low, high = interval(first.of_samples(sentence_counts(len(first.counts), samples=200, seed=number)))
        inside += low <= true <= high
        p.append(second.p_against(first, samples=199))
    assert 0.92 <= inside / SCORED_SETS <= 0.98
    assert distance_from_uniform(np.array(p)) < 1.628 / np.sqrt(SCORED_SETS)


def system_of(folder):
    return SimpleNamespace(name="run", evaluation=folder, metrics={})


def test_what_is_kept_of_each_sentence_gives_what_is_said_of_all(tmp_path):
    random, lengths = np.random.default_rng(1), [2, 5, 9]
    rows = [
        {"id": i, "layer": layer, "head": head, "rows": lengths[i], "entropy": random.random(), "bos_share": np.nan}
        for i in range(3)
        for layer in range(2)
        for head in range(2)
    ]
    folder = EvaluationDirectory(tmp_path)
    pd.DataFrame(rows).to_csv(folder.sentence_heads, index=False)
    (name, heads), *others = read_head_measures(folder).items()
    assert name == "entropy" and not others  # a share that no sentence has is left out
    assert heads.heads == [(0, 0), (0, 1), (1, 0), (1, 1)]
    expected = [
        sum(row["entropy"] * row["rows"] for row in rows if (row["layer"], row["head"]) == place) / 16
        for place in heads.heads
    ]
    np.testing.assert_allclose(heads.above.sum(0) / heads.below.sum(0), expected)
    assert read_measures(system_of(folder), {})[name].value == pytest.approx(np.mean(expected))


def test_sentences_without_rows_count_nothing(tmp_path):
    folder = EvaluationDirectory(tmp_path)
    rows = [(0, 0, 0, 3, 0.5), (1, 0, 0, 0, np.nan), (2, 0, 0, 1, 0.9)]
    table = pd.DataFrame(rows, columns=["id", "layer", "head", "rows", "entropy"])
    table.to_csv(folder.sentence_heads, index=False)
    assert read_head_measures(folder)["entropy"].mean().value == pytest.approx((3 * 0.5 + 0.9) / 4)
    table[1:2].to_csv(folder.sentence_heads, index=False)
    assert read_head_measures(folder) == {}


def test_effects_of_changed_heads_are_read_by_their_change(tmp_path):
    rows = [
        {"id": i, "layer": 0, "head": head, "change": change, "tokens": i + 1, "loss_change": i + head}
        for change in ("zeroed", "mean")
        for head in (1, 0)
        for i in range(3)
    ]
    folder = EvaluationDirectory(tmp_path)
    pd.DataFrame(rows).to_csv(folder.perturbation_sentences, index=False)
    found = read_head_measures(folder)
    assert set(found) == {"loss_change zeroed", "loss_change mean"}
    assert found["loss_change mean"].heads == [(0, 0), (0, 1)]
    np.testing.assert_array_equal(found["loss_change mean"].above, [[0, 1], [2, 4], [6, 9]])
    pd.DataFrame(rows[:-1]).to_csv(folder.perturbation_sentences, index=False)
    with pytest.raises(InputError, match="a row for each sentence, layer and head"):
        read_head_measures(folder)
    folder.perturbation_sentences.write_text("id\n0\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"perturbation_sentences\.csv: not the table that evaluate\.py writes"):
        read_head_measures(folder)


def test_spectra_have_no_sentences_and_so_no_interval_over_them(tmp_path):
    folder = EvaluationDirectory(tmp_path)
    pd.DataFrame({"layer": [0, 0], "head": [0, 1], "effective_rank": [4.0, 6.0]}).to_csv(folder.spectra, index=False)
    rank = read_measures(system_of(folder), {})["effective_rank"]
    assert rank.value == 5 and rank.draw(100) is None and np.isnan(rank.p_against(rank, 100))
