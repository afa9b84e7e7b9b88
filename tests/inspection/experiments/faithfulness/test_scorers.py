"""Which source tokens are said to matter: EOS is left out, and equal weights say nothing."""

import numpy as np
import pytest

from qkv.config.choices.inspection import SOURCE_SCORERS
from qkv.inspection.experiments.faithfulness import Scorer, as_shares, draw_noise, score_diagonal, score_sources


def test_every_head_layer_and_baseline_scores_all_source_tokens_but_eos(make_record):
    record = make_record(layers=2, heads=3)
    cross = record.attention["cross"]
    record.attention.update(norms=cross[:, ::-1], gradients=cross[:1, :1])
    targets, sources = len(record.target_output_tokens), len(record.source_tokens) - 1
    scores = score_sources(record, draw_noise(record, 0), np.ones((targets, sources)))
    assert {scorer.scorer for scorer in scores} == set(SOURCE_SCORERS) - {"logits"}, "which are no attention"
    assert len(scores) == 2 * 3 + 2 + 1 + len(SOURCE_SCORERS) - 2
    assert {score.shape for score in scores.values()} == {(targets, sources)}
    np.testing.assert_array_equal(scores[Scorer("weights", 1, 2)], cross[1, 2, :, :-1])
    np.testing.assert_allclose(scores[Scorer("weights", 1, "mean")], cross[1, :, :, :-1].mean(0))
    np.testing.assert_allclose(scores[Scorer("norms")], scores[Scorer("weights", "mean", "mean")], atol=1e-7)
    assert str(Scorer("weights", 1, 2)) == "weights, layer 1, head 2"
    assert [str(Scorer("weights", layer, "mean")) for layer in (0, "mean")] == [
        "weights, layer 0, all heads",
        "weights, all heads",
    ]


@pytest.mark.parametrize(
    ("layers", "heads", "places"),
    [
        (1, 2, ["layer 0, head 0", "layer 0, head 1", "layer 0, all heads"]),
        (2, 1, ["layer 0, head 0", "layer 1, head 0", "all heads"]),
    ],
)
def test_no_mean_stands_beside_its_like_and_other_sites_are_not_needed(make_record, layers, heads, places):
    record = make_record(layers=layers, heads=heads)
    found = [*map(str, score_sources(record, draw_noise(record, 0)))]
    assert found == [*(f"weights, {place}" for place in places), "diagonal", "random"]


def test_noise_is_of_the_sentence_and_the_seed(make_record):
    noise = [draw_noise(make_record(number), seed) for number, seed in ((0, 0), (0, 0), (1, 0), (0, 1))]
    np.testing.assert_array_equal(noise[0], noise[1])
    assert np.any(noise[0] != noise[2]) and np.any(noise[0] != noise[3])


def test_the_diagonal_is_nearest_to_the_place_of_the_token():
    assert score_diagonal(5, 4).argmax(axis=1).tolist()[:4] == [0, 1, 2, 3]
    assert score_diagonal(3, 4).argmax(axis=1).tolist()[:2] in ([0, 2], [1, 3], [0, 3], [1, 2])
    assert score_diagonal(5, 4)[1].tolist() == [0.5, 1, 0.5, 0.25]


def test_shares_are_parts_of_the_row_and_equal_where_there_is_nothing():
    np.testing.assert_allclose(as_shares(np.array([[1.0, 3, 0], [0, 0, 0]])), [[0.25, 0.75, 0], [1 / 3] * 3])
