"""One-hot, uniform and last: weights known before anything is computed, and the gradient that stands in."""

import numpy as np
import pytest
import tensorflow as tf

from qkv.attention.masks import causal_mask, padding_mask
from qkv.attention.mechanisms.fixed_weights import Last, OneHot, Uniform
from qkv.attention.mechanisms.softmax import Softmax
from qkv.attention.multi_head import MultiHeadAttention
from qkv.attention.self_attention import SelfAttention
from tests.support import oracles
from tests.support.layer_contract import assert_close

B, H, T, S, K, V = 2, 2, 3, 5, 4, 6


@pytest.fixture
def mask():
    return np.random.default_rng(1).random((B, H, T, S)) < 0.5


def one_hot(query, key, mask):
    """1 for the first of the allowed keys with the highest score."""
    weights = np.zeros(mask.shape)
    scores = oracles.scores("scaled_dot", query, key)
    for row in np.ndindex(mask.shape[:-1]):
        best = None
        for s in range(S):
            if mask[row][s] and (best is None or scores[row][s] > scores[row][best]):
                best = s
        if best is not None:
            weights[row][best] = 1
    return weights


def uniform(query, key, mask):
    """1 / n for each of the n allowed keys."""
    weights = np.zeros(mask.shape)
    for row in np.ndindex(mask.shape):
        if mask[row]:
            weights[row] = 1 / sum(mask[row[:-1]])
    return weights


def last(query, key, mask):
    """1 for the allowed key that no allowed key follows."""
    weights = np.zeros(mask.shape)
    for row in np.ndindex(mask.shape):
        weights[row] = mask[row] and not any(mask[row[:-1]][row[-1] + 1 :])
    return weights


DEFINITIONS = [(OneHot, one_hot), (Uniform, uniform), (Last, last)]


@pytest.mark.parametrize(("mechanism", "definition"), DEFINITIONS)
def test_weights_equal_the_definition_and_the_context_is_the_values_they_weigh(inputs, mask, mechanism, definition):
    mask[1, 0, 2] = False  # nothing to attend to
    for given in (mask, mask[:, :1, :1], None):
        context, weights = mechanism()(*inputs, mask=given)
        everywhere = np.broadcast_to(True if given is None else given, (B, H, T, S))
        np.testing.assert_allclose(weights, definition(*inputs[:2], everywhere), rtol=1e-6)
        np.testing.assert_allclose(context, weights.numpy() @ inputs[2], atol=1e-6)


@pytest.mark.parametrize(("mechanism", "definition"), DEFINITIONS)
def test_half_precision_changes_no_weight_but_by_a_tie(inputs, mask, mechanism, definition):
    inputs = [tf.cast(tf.cast(x, "bfloat16"), "float32").numpy() for x in inputs]
    inputs[0] *= [1, 0, 0, 0]  # one product, so that half precision rounds it and ranks it all the same
    context, weights = mechanism(score="dot", dtype="mixed_bfloat16")(*inputs, mask=mask)
    assert (context.dtype, weights.dtype) == (tf.bfloat16, tf.float32)
    np.testing.assert_allclose(weights, definition(*inputs[:2], mask), rtol=1e-6)
    np.testing.assert_allclose(tf.cast(context, "float32"), weights.numpy() @ inputs[2], rtol=0.02, atol=0.02)


@pytest.mark.parametrize("compiled", [None, False, True])
def test_of_equal_scores_the_first_allowed_one_wins(compiled):
    layer = OneHot(score="dot")
    query, key = np.ones((1, 1, 1, 1), "float32"), np.float32([1, 2, 2, 2, 0]).reshape(1, 1, 5, 1)
    mask = np.array([1, 0, 1, 1, 1], bool).reshape(1, 1, 1, 5)
    call = layer if compiled is None else tf.function(layer, jit_compile=compiled)
    np.testing.assert_array_equal(call(query, key, key)[1][0, 0, 0], [0, 1, 0, 0, 0])
    np.testing.assert_array_equal(call(query, key, key, mask=mask)[1][0, 0, 0], [0, 0, 1, 0, 0])


def test_one_hot_tells_scores_apart_that_the_softmax_does_not():
    key = np.float32([0, 1e-9]).reshape(1, 1, 2, 1)
    query = np.ones((1, 1, 1, 1), "float32")
    assert len(set(Softmax()(query, key, key)[1][0, 0, 0].numpy())) == 1
    np.testing.assert_array_equal(OneHot()(query, key, key)[1][0, 0, 0], [0, 1])


def test_the_gradient_of_one_hot_by_queries_and_keys_is_that_of_the_softmax(inputs, mask):
    generator = np.random.default_rng(2)
    by_context, by_weights = generator.normal(size=(B, H, T, V)), generator.normal(size=(B, H, T, S))
    found = {}
    for mechanism in (OneHot, Softmax):
        points = [tf.convert_to_tensor(x) for x in inputs]
        with tf.GradientTape() as tape:
            tape.watch(points)
            context, weights = mechanism()(*points, mask=mask)
            total = tf.reduce_sum(context * by_context) + tf.reduce_sum(weights * by_weights)
        found[mechanism] = tape.gradient(total, points)
        by_values = np.einsum("bhts,bhtv->bhsv", weights, by_context)
        np.testing.assert_allclose(found[mechanism][2], by_values, atol=1e-5)
    for one, other in zip(found[OneHot][:2], found[Softmax][:2], strict=True):
        assert np.abs(one).max() > 0.01
        np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("mechanism", [Uniform, Last])
def test_fixed_weights_depend_on_neither_queries_nor_keys_and_have_no_score(inputs, mask, mechanism):
    layer = mechanism(score="additive")
    query, key, value = inputs
    assert_close(layer(query, key, value, mask=mask), layer(-query, key * 9, value, mask=mask), 0)
    assert layer.score is None
    assert not layer.weights
    assert mechanism.from_config(layer.get_config()).get_config() == layer.get_config()


def test_fixed_weights_accept_queries_and_keys_of_two_sizes():
    generator = np.random.default_rng(0)
    query, key = generator.normal(size=(1, 3, 2)).astype("float32"), generator.normal(size=(1, 5, 7)).astype("float32")
    layer = MultiHeadAttention(1, 2, value_dim=7, mechanism="uniform", projection=False)
    np.testing.assert_allclose(
        layer(query, key=key, value=key)[0], np.repeat(key.mean(1, keepdims=True), 3, 1), atol=1e-6
    )
    assert layer.score is None


def test_the_last_position_is_the_last_token_before_padding_and_under_a_causal_mask_the_position_itself(inputs):
    ids = np.array([[4, 5, 6, 0, 0], [4, 0, 0, 0, 0]])
    weights = Last()(*inputs, mask=padding_mask(ids))[1].numpy()
    assert (weights.argmax(-1) == np.array([2, 0])[:, None, None]).all()
    key, value = inputs[1:]
    np.testing.assert_array_equal(Last()(key, key, value, mask=causal_mask(S, S))[0], value)


@pytest.mark.parametrize("mechanism", [Uniform, Last])
def test_dropout_drops_whole_weights_and_scales_up_the_rest(mechanism):
    ones = np.ones((500, 1, 1, 1), "float32")
    context, weights = mechanism(dropout=0.5)(ones, ones, ones, training=True)
    assert set(np.unique(context)) == {0.0, 2.0}
    assert np.mean(context) == pytest.approx(1, abs=0.2)
    np.testing.assert_array_equal(weights, ones)


@pytest.mark.parametrize("mechanism", ["softmax", "one_hot"])
def test_without_projection_a_token_attends_most_to_itself_if_all_vectors_are_equally_long(mechanism):
    x = np.random.default_rng(0).normal(size=(2, 7, 4)).astype("float32")
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    context, weights = SelfAttention(1, 4, score="dot", mechanism=mechanism, projection=False)(x)
    assert (weights.numpy().argmax(-1) == np.arange(7)).all()
    if mechanism == "one_hot":
        np.testing.assert_array_equal(context, x)
