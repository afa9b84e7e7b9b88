"""The likelihood is the plain mean over all real target tokens."""

import math

import numpy as np
import pytest

from qkv.decoding.forced import make_forced_graph
from qkv.errors import InputError
from qkv.metrics.likelihood import Likelihood, LikelihoodMeter
from qkv.text.tokens.special_tokens import BOS, EOS
from tests.support.text import sentences_of
from tests.support.tiny_models import make_transformer, shared_transformer

SOURCE, TARGET = sentences_of([5, 1, 9, 0, 3, 2], most=17), sentences_of([2, 7, 4, 3, 9, 0], seed=1, most=17)
MOST = 12  # positions of the tiny Transformer


def likelihood_by_hand(model, rows=range(6)):
    """One sentence after the other, without padding of its own: (sum of surprises, first choices, tokens)."""
    loss, right, tokens = 0.0, 0, 0
    for source, target in ((SOURCE[row], TARGET[row]) for row in rows):
        # Two tokens of padding more, which are cut off again: Keras warns of softmax over one key.
        logits = np.asarray(model(np.array([[*source, EOS, 0, 0]]), np.array([[BOS, *target, 0, 0]])), "float64")[0]
        for row, token in zip(logits, [*target, EOS], strict=False):
            loss -= row[token] - row.max() - math.log(np.exp(row - row.max()).sum())
            right += int(row.argmax() == token)
            tokens += 1
    return loss, right, tokens


@pytest.fixture(scope="module")
def graph():
    return make_forced_graph(shared_transformer())


@pytest.mark.parametrize(("batch_tokens", "threads"), [(1, 3), (40, 1)])
def test_likelihood_is_the_mean_over_real_tokens_whatever_the_batches(batch_tokens, threads, graph):
    model = shared_transformer()
    loss, right, tokens = likelihood_by_hand(model)
    assert tokens == 25 + 6
    batches = {"batch_tokens": batch_tokens, "threads": threads}
    found = LikelihoodMeter(graph, SOURCE, TARGET, max_positions=MOST, **batches).measure()
    assert found.loss == pytest.approx(loss / tokens, rel=1e-5)
    assert found.token_accuracy == pytest.approx(right / tokens)
    assert found.perplexity == pytest.approx(math.exp(loss / tokens), rel=1e-4)


def test_pairs_too_long_for_the_model_are_left_out_and_counted(graph):
    model = shared_transformer()
    loss, _, tokens = likelihood_by_hand(model, rows=[0, 1, 3, 5])
    meter = LikelihoodMeter(graph, SOURCE, TARGET, max_positions=8)  # 7 tokens and EOS fit, 9 do not
    assert meter.too_long == 2
    assert LikelihoodMeter(graph, SOURCE, TARGET, max_positions=6).too_long == 3
    assert meter.measure().loss == pytest.approx(loss / tokens, rel=1e-5)
    with pytest.raises(InputError, match=r"all 6 pairs .*max_positions \(1\)"):
        LikelihoodMeter(graph, SOURCE, sentences_of([1] * 6), max_positions=1)


def test_a_batch_has_as_many_positions_as_it_may_with_eos_and_bos():
    long, short = sentences_of([3, 3]), sentences_of([1, 1])
    for source, target in ((long, short), (short, long)):
        batches = [
            LikelihoodMeter(None, source, target, max_positions=MOST, batch_tokens=batch_tokens).batches
            for batch_tokens in (7, 8)
        ]
        assert [len(found) for found in batches] == [2, 1]  # two sentences of 3 tokens and one more


def test_likelihood_follows_the_model_as_it_changes():
    model = make_transformer(dropout=0.1)
    meter = LikelihoodMeter(make_forced_graph(model), SOURCE, TARGET, max_positions=MOST)
    before = meter.measure()
    assert meter.measure() == before  # no dropout
    model.set_weights([weight * 0.5 for weight in model.get_weights()])
    assert abs(meter.measure().loss - before.loss) > 1e-3


def test_a_hopeless_loss_has_a_finite_perplexity():
    assert Likelihood(5000.0, 0.0).perplexity == math.exp(700)
