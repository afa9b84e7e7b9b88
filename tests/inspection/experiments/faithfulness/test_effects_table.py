"""The table of scorers: means over tokens, intervals over sentences, differences to chance of the same samples."""

import numpy as np
import pandas as pd
import pytest

from qkv.inspection.experiments.faithfulness import faithfulness_table
from qkv.inspection.experiments.faithfulness_plot import faithfulness_figure
from qkv.inspection.heatmap import figure_as
from qkv.statistics.resampling import sentence_counts

SCORERS = [("weights", 0, 0), ("weights", 0, "mean"), ("random", "", "")]


@pytest.fixture(scope="module")
def sentences():
    generator = np.random.default_rng(0)
    rows = []
    for number in (3, 4, 7, 9):
        tokens = int(generator.integers(2, 9))
        for place, (scorer, layer, head) in enumerate(SCORERS):
            for removal, share in (("hard", 0.1), ("hard", 0.5), ("soft", np.nan)):
                sums = (generator.random(3) + [2 - place, place, 0]) * tokens
                names = ("comprehensiveness", "sufficiency", "taken")
                key = {"id": number, "scorer": scorer, "layer": layer, "head": head, "removal": removal, "share": share}
                rows.append(key | {"tokens": tokens} | dict(zip(names, sums, strict=True)))
    return pd.DataFrame(rows)


@pytest.fixture(scope="module")
def table(sentences):
    return faithfulness_table(sentences, 0.75, samples=200)


def test_every_scorer_has_a_row_for_the_mean_each_share_and_the_soft_removal(table):
    assert table["removal"].tolist() == ["mean"] * 3 + ["hard"] * 6 + ["soft"] * 3
    assert table["share"][3:9].tolist() == [0.1] * 3 + [0.5] * 3
    assert table["scorer"].tolist() == ["weights", "weights", "random"] * 4
    for start in range(0, 12, 3):
        assert table["comprehensiveness"][start : start + 3].is_monotonic_decreasing
    assert (table["token_share"] == 0.75).all() and (table["sentences"] == 4).all()


def test_values_are_means_over_tokens_and_intervals_of_drawn_sentences(sentences, table):
    counts = sentence_counts(4, samples=200).astype(int)
    for measure in ("comprehensiveness", "sufficiency"):
        drawn = {}
        for scorer, _, head in SCORERS:
            rows = sentences[(sentences["scorer"] == scorer) & (sentences["head"] == head)]
            hard = [rows[rows["share"] == share] for share in (0.1, 0.5)]
            sums = sum(part[measure].to_numpy() for part in hard) / 2
            tokens = hard[0]["tokens"].to_numpy()
            found = table[(table["scorer"] == scorer) & (table["head"] == head)].iloc[0]
            assert found[measure] == pytest.approx(sums.sum() / tokens.sum()) and found["tokens"] == tokens.sum()
            repeated = [np.repeat(np.arange(4), row) for row in counts]
            drawn[scorer, head] = np.array([sums[one].sum() / tokens[one].sum() for one in repeated])
            np.testing.assert_allclose(
                [found[f"{measure}_low"], found[f"{measure}_high"]], np.quantile(drawn[scorer, head], [0.025, 0.975])
            )
        first = table.iloc[0]
        assert first["scorer"] == "weights"
        over = drawn["weights", first["head"]] - drawn["random", ""]
        np.testing.assert_allclose(
            [first[f"{measure}_over_random_low"], first[f"{measure}_over_random_high"]],
            np.quantile(over, [0.025, 0.975]),
        )
    at_random = table[table["scorer"] == "random"]
    assert (at_random.filter(like="_over_random") == 0).all(axis=None)


def test_the_picture_has_a_dot_for_every_scorer_in_the_order_of_the_table(table):
    figure = faithfulness_figure(table, "demo: 4 sentences, $20_tokens")
    left, right = figure.axes
    assert [label.get_text() for label in left.get_yticklabels()] == [
        "weights, layer 0, head 0",
        "weights, layer 0, all heads",
        "random",
    ]
    for panel, measure in ((left, "comprehensiveness"), (right, "sufficiency")):
        dots = [line.get_xdata()[0] for line in panel.lines if line.get_marker() == "o"]
        np.testing.assert_allclose(dots, table[measure][:3])
    assert figure_as(figure, "png").startswith(b"\x89PNG")
