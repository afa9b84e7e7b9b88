"""Effects of changed heads: means over tokens, intervals over sentences, and p-values that Holm corrects."""

import numpy as np
import pytest

from qkv.inspection.experiments.head_effects import HeadEffects, exchanges_for
from qkv.statistics.resampling import ratio_interval

PLACES = [(0, 0, "zeroed"), (0, 1, "zeroed"), (1, 0, "mean")]
TOKENS = np.random.default_rng(1).integers(2, 9, size=40)


def make_effects():
    """The first change costs as much as any, the second nothing, the third sometimes something."""
    random = np.random.default_rng(2)
    losses = np.stack([random.random(40) + 1, random.normal(size=40) * 0.1, random.random(40) * 0.5], axis=1)
    return HeadEffects(PLACES, np.stack([losses, np.round(losses)], axis=-1) * TOKENS[:, None, None], TOKENS)


def test_means_are_over_tokens_and_intervals_over_sentences():
    effects = make_effects()
    table = effects.table()
    assert table["loss_change"].is_monotonic_decreasing and (table["tokens"] == TOKENS.sum()).all()
    assert table.columns[:6].tolist() == ["layer", "head", "change", "loss_change", "argmax_changed", "tokens"]
    for row in table.to_dict("records"):
        place = PLACES.index((row["layer"], row["head"], row["change"]))
        for i, name in enumerate(("loss_change", "argmax_changed")):
            sums = effects.sums[:, place, i]
            assert row[name] == pytest.approx(sums.sum() / TOKENS.sum())
            low, high = ratio_interval(sums[:, None], TOKENS[:, None] * 1.0)
            np.testing.assert_allclose([row[f"{name}_low"], row[f"{name}_high"]], [low[0], high[0]])
    p = table.set_index(["layer", "head"])["p"]
    assert p[0, 0] < 0.01 and p[1, 0] < 0.01 < 0.1 < p[0, 1]
    assert (p >= 3 / (exchanges_for(3) + 1) - 1e-12).sum() >= 2  # of three tests, the smallest is multiplied by three


def test_each_sentence_has_a_row_for_each_change():
    table = make_effects().sentences()
    assert table["id"].tolist() == np.repeat(np.arange(40), 3).tolist()
    assert table[["layer", "head", "change"]].to_numpy()[:3].tolist() == [list(place) for place in PLACES]
    sums = (table["loss_change"] * table["tokens"]).to_numpy().reshape(40, 3)
    np.testing.assert_allclose(sums, make_effects().sums[..., 0])


def test_many_tests_get_as_many_exchanges_as_holm_needs():
    assert exchanges_for(3) == 1000 and exchanges_for(30) == 6000 and exchanges_for(10_000) == 20_000


def test_other_sentences_among_which_they_are_put_count_nothing():
    effects = make_effects()
    among = effects.in_larger_set(42, [*range(1, 21), *range(22, 42)])
    means = ["layer", "head", "change", "loss_change", "argmax_changed", "tokens"]
    assert among.table()[means].equals(effects.table()[means])
    kept = among.sentences()
    none = kept[kept["id"].isin([0, 21])]
    assert (none["tokens"] == 0).all() and none[["loss_change", "argmax_changed"]].isna().all(axis=None)
    rest = kept.drop(none.index).drop(columns="id").reset_index(drop=True)
    assert rest.equals(effects.sentences().drop(columns="id"))
    assert among.table()["p"].notna().all()
