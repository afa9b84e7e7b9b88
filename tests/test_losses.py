"""The loss for `compile` of Keras, against sums over the tokens by hand and the loss of training."""

import doctest

import keras
import numpy as np
import pytest
import tensorflow as tf

from qkv import losses
from qkv.losses import TokenCrossEntropy, cross_entropies
from qkv.metrics import Perplexity
from qkv.training.loss import fused_cross_entropy
from tests.support.token_losses import LOGITS, LOSSES, REAL, TARGETS


def test_examples_print_what_stands_below_them():
    results = doctest.testmod(losses)
    assert (results.failed, results.attempted > 0) == (0, True)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_the_mean_of_what_training_sums(smoothing):
    states, table = LOGITS.reshape(-1, 5), np.eye(5, dtype="float32")
    expected = fused_cross_entropy(states, table, TARGETS.ravel(), REAL.ravel().astype("float32"), smoothing)
    loss = TokenCrossEntropy(smoothing)
    np.testing.assert_allclose(loss(TARGETS, LOGITS), expected / REAL.sum(), rtol=1e-5)
    again = keras.losses.deserialize(keras.losses.serialize(loss))
    np.testing.assert_allclose(again(TARGETS, LOGITS), loss(TARGETS, LOGITS))


def test_the_loss_of_a_batch_without_a_token_is_zero():
    assert float(TokenCrossEntropy()(np.zeros((2, 4)), LOGITS)) == 0


WEIGHTS = {
    "none": None,
    "of sentences": np.array([2.0, 0.5], "float32"),
    "of sentences, as a column": np.array([[2.0], [0.5]], "float32"),
    "of tokens": np.array([[1.0, 2.0, 0.5, 4.0], [3.0, 1.0, 1.0, 0.0]], "float32"),
}


def reduced(reduction, weights=None, losses=LOSSES, real=REAL):
    """A reduction of the losses of the real tokens, by hand."""
    weights = (1.0 if weights is None else weights.reshape(len(losses), -1)) * real
    if reduction in (None, "none"):
        return losses * weights
    total = (losses * weights).sum()
    if reduction == "sum":
        return total
    return total / (weights if reduction == "mean_with_sample_weight" else real).sum()


@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS)
@pytest.mark.parametrize("reduction", ["sum", "sum_over_batch_size", "mean", "mean_with_sample_weight", "none", None])
def test_every_reduction_is_of_tokens_and_their_weights(reduction, weights):
    loss = TokenCrossEntropy(reduction=reduction)
    np.testing.assert_allclose(loss(TARGETS, LOGITS, weights), reduced(reduction, weights), rtol=1e-5)
    if weights is not None:  # as many sentences as tokens: no weight of a sentence may become one of a column
        square = np.s_[:, : len(TARGETS)]
        weights = weights[square] if weights.shape == TARGETS.shape else weights
        expected = reduced(reduction, weights, LOSSES[square], REAL[square])
        np.testing.assert_allclose(loss(TARGETS[square], LOGITS[square], weights), expected, rtol=1e-5)


@pytest.fixture(scope="module")
def outputs():
    """A model with two outputs, the logits that it is given, fitted without a change of its weights."""
    same = keras.layers.Dense(5, use_bias=False, kernel_initializer="identity")
    inputs = {name: keras.Input((None, 5), name=name) for name in ("long", "short")}
    model = keras.Model(inputs, {name: same(logits) for name, logits in inputs.items()})
    model.compile(keras.optimizers.SGD(0.0), TokenCrossEntropy(), run_eagerly=True)
    return model


SHORT = np.s_[:, :3]
INPUTS = {"long": LOGITS, "short": LOGITS[SHORT]}
OUTPUTS = {"long": TARGETS, "short": TARGETS[SHORT]}


def test_fit_evaluate_and_single_batches_weigh_the_targets_of_each_output(outputs):
    sentences, tokens = WEIGHTS["of sentences"], WEIGHTS["of tokens"][SHORT]
    parts = reduced("mean", sentences), reduced("mean", tokens, LOSSES[SHORT], REAL[SHORT])
    arguments = {"sample_weight": {"long": sentences, "short": tokens}}
    history = outputs.fit(INPUTS, OUTPUTS, batch_size=2, verbose=0, **arguments).history
    evaluated = outputs.evaluate(INPUTS, OUTPUTS, batch_size=2, verbose=0, **arguments)
    for found in (history["loss"][0], evaluated[0], outputs.train_on_batch(INPUTS, OUTPUTS, **arguments)[0]):
        np.testing.assert_allclose(found, sum(parts), rtol=1e-5)
    np.testing.assert_allclose(evaluated[1:], parts, rtol=1e-5)


def test_evaluate_takes_the_mean_of_batches_by_their_sentences_and_perplexity_that_of_tokens():
    logits = np.concatenate([LOGITS, LOGITS[:1, ::-1]])
    targets = np.concatenate([TARGETS, [[3, 3, 4, 3]]])
    model = keras.Sequential([keras.layers.Dense(5, use_bias=False, kernel_initializer="identity")])
    model.compile(keras.optimizers.SGD(0.0), TokenCrossEntropy(), metrics=[Perplexity()], run_eagerly=True)
    last = keras.ops.convert_to_numpy(cross_entropies(targets[2:], keras.ops.array(logits[2:])))
    loss, perplexity = model.evaluate(logits, targets, batch_size=2, verbose=0)
    np.testing.assert_allclose(loss, (2 * reduced("mean") + last.mean()) / 3, rtol=1e-5)
    tokens = [*LOSSES[REAL], *last[0]]
    np.testing.assert_allclose(perplexity, np.exp(np.mean(tokens)), rtol=1e-5)
    history = model.fit(logits, targets, batch_size=2, validation_split=0.3, verbose=0).history
    np.testing.assert_allclose([history["loss"][0], history["val_loss"][0]], [reduced("mean"), last.mean()], rtol=1e-5)


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_a_mask_that_logits_carry_hides_tokens_once_more(policy):
    ids = np.where(REAL, 2, 0)
    ids[0, 1] = 0
    embedding = keras.layers.Embedding(3, 4, mask_zero=True, dtype=policy)
    logits = keras.layers.Dense(5, dtype=policy)(embedding(ids))
    losses = keras.ops.convert_to_numpy(cross_entropies(TARGETS, keras.ops.cast(logits, "float32")))
    real = REAL & (ids != 0)
    for reduction, weights in (("mean", None), ("sum", None), (None, None), ("mean", WEIGHTS["of sentences"])):
        found = TokenCrossEntropy(reduction=reduction)(TARGETS, logits, weights)
        np.testing.assert_allclose(found, reduced(reduction, weights, losses, real), rtol=1e-5)
    metric = Perplexity()
    metric.update_state(TARGETS, logits)
    np.testing.assert_allclose(metric.result(), np.exp(losses[real].mean()), rtol=1e-5)


def test_a_logit_of_minus_infinity_that_is_no_target_changes_nothing():
    logits = LOGITS.copy()
    logits[..., 0] = -np.inf  # no model need predict padding
    expected = np.log(np.exp(logits).sum(-1)) - np.take_along_axis(logits, TARGETS[..., None], -1)[..., 0]
    logits = tf.constant(logits)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        loss = TokenCrossEntropy()(TARGETS, logits)
    np.testing.assert_allclose(loss, expected[REAL].mean(), rtol=1e-5)
    assert np.isfinite(tape.gradient(loss, logits)).all()


def test_half_precision_rounds_no_id():
    logits = np.zeros((1, 2, 600), "float32")
    logits[0, :, 513] = 9.0  # a number that half precision rounds to 512 or 514
    loss = TokenCrossEntropy(dtype="bfloat16")
    np.testing.assert_allclose(loss([[513, 0]], logits), np.log(1 + 599 * np.exp(-9.0)), rtol=1e-4)
