"""What taking tokens away costs: against a loop over scorers, shares and tokens, and the controls."""

import numpy as np
import pandas as pd
import pytest

from qkv.decoding.forced import make_forced_graph
from qkv.inspection.experiments.faithfulness import Scorer
from qkv.inspection.experiments.removal import ScoredSentence, measure_sentences
from qkv.text.batch import forced_batch
from qkv.text.tokens.special_tokens import EOS, PAD
from tests.support.tiny_models import make_transformer, shared_transformer

PAIRS = [([5, 9, 4], [7, 10, 6, 8, EOS]), ([11, 12, 13, 14, 15, 4], [9, 5, EOS]), ([], [4, EOS]), ([8], [EOS])]


def scored(model):
    """The pairs with the model's own weights and an order by chance; EOS is not measured."""
    read = make_forced_graph(model, ("cross",))
    for number, (source, target) in enumerate(PAIRS):
        weights = read(*forced_batch([(source, target)]).ids).attention["cross"].numpy()[0]
        noise = np.random.default_rng(number).exponential(size=(len(target), len(source)))
        scores = {Scorer("weights", 0, 1): weights[0, 1, :, :-1], Scorer("random"): noise}
        yield ScoredSentence(number, source, target, scores, noise, np.array(target) != EOS)


@pytest.fixture(scope="module")
def sentences():
    return list(scored(shared_transformer(decoder_layers=2)))


@pytest.fixture(scope="module")
def table(sentences):
    return measure_sentences(shared_transformer(decoder_layers=2), sentences, shares=(0, 0.2, 0.5, 1))


def test_drops_are_those_of_one_pass_after_the_other(table, sentences):
    read = make_forced_graph(shared_transformer(decoder_layers=2))
    assert set(table["id"]) == {0, 1}  # a sentence needs a source, and a token to measure
    for sentence in sentences[:2]:
        source, target = PAIRS[sentence.id]

        def predict(kept, t, source=source, target=target):
            batch = forced_batch([(np.where(kept, source, PAD).tolist(), target)])
            return np.exp(read(*batch.ids).log_probabilities.numpy()[0, t])

        for scorer, scores in sentence.scores.items():
            for share, count in ((0.2, {3: 1, 6: 2}), (0.5, {3: 2, 6: 3})):
                drops, number = np.zeros(2), count[len(source)]
                for t in range(len(target) - 1):
                    best = np.isin(np.arange(len(source)), np.argsort(-scores[t])[:number])
                    drops += predict(np.ones_like(best), t) - np.array([predict(kept, t) for kept in (~best, best)])
                row = table[(table["id"] == sentence.id) & (table["share"] == share)]
                row = row[row["scorer"] == scorer.scorer].iloc[0]
                np.testing.assert_allclose(row[["comprehensiveness", "sufficiency"]].astype(float), drops, atol=1e-6)
                assert row["tokens"] == len(target) - 1
                assert row["taken"] == pytest.approx(number / len(source) * (len(target) - 1))
    assert (table["comprehensiveness"].abs() > 1e-4).any()


def test_taking_nothing_away_costs_nothing_bit_for_bit(table):
    nothing, everything = (table[(table["removal"] == "hard") & (table["share"] == share)] for share in (0, 1))
    assert (nothing["comprehensiveness"] == 0).all() and (nothing["taken"] == 0).all()
    assert (everything["sufficiency"] == 0).all()


def test_taking_everything_away_costs_the_same_whatever_the_order(table):
    everything = table[table["share"] == 1].groupby("id")["comprehensiveness"]
    assert (everything.nunique() == 1).all() and (everything.first() != 0).all()
    left = table[(table["share"] == 0) & (table["removal"] == "hard")].groupby("id")["sufficiency"].first()
    np.testing.assert_array_equal(left, everything.first())


def test_uniform_attention_is_as_faithful_as_chance():
    model = make_transformer(decoder_layers=2, cross={"mechanism": "uniform"})
    table = measure_sentences(model, scored(model))
    hard = table[table["removal"] == "hard"].set_index(["id", "share", "scorer"])["comprehensiveness"].unstack()
    assert (hard["random"] == hard["weights"]).all() and (hard["random"] != 0).all()


def test_batches_and_threads_change_nothing(table, sentences):
    again = measure_sentences(
        shared_transformer(decoder_layers=2), sentences, shares=(0, 0.2, 0.5, 1), batch_tokens=9, threads=2
    )
    pd.testing.assert_frame_equal(again, table, check_exact=False, atol=1e-6)


def test_soft_removal_takes_a_token_s_worth_of_units(table):
    soft = table[table["removal"] == "soft"]
    assert soft["share"].isna().all() and len(soft) == 4
    expected = [(len(target) - 1) / len(source) for source, target in PAIRS[:2] for _ in range(2)]
    np.testing.assert_allclose(soft["taken"], expected)
    assert (soft["comprehensiveness"] != soft["sufficiency"]).all()
