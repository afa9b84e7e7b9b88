"""Linformer is the paper's equation 7, is softmax attention when nothing is projected, and says what it cannot do."""

import math

import numpy as np
import pytest
import tensorflow as tf

from qkv.attention.masks import causal_mask, padding_mask
from qkv.attention.mechanisms.linformer import Linformer
from qkv.attention.mechanisms.softmax import Softmax
from qkv.attention.multi_head import MultiHeadAttention
from qkv.attention.self_attention import SelfAttention
from tests.support import oracles
from tests.support.devices import largest_array_behind
from tests.support.layer_contract import assert_close, stir

B, H, T, S, K, V, P = 2, 2, 3, 5, 4, 6, 3


def ready(inputs, projected_length=P, max_length=8, **settings):
    layer = Linformer(projected_length, max_length, **settings)
    layer(*inputs)
    return stir(layer)


def matrices(layer):
    return [np.broadcast_to(x.numpy(), (H, *x.shape[1:]))[..., :S] for x in (layer.key_mixing, layer.value_mixing)]


def test_context_and_weights_equal_the_formula(inputs):
    layer = ready(inputs)
    mask = np.random.default_rng(1).random((B, H, 1, S)) < 0.6
    for given in (None, mask, mask[:, :1], mask[:1]):
        context, weights = layer(*inputs, mask=given)
        expected = oracles.linformer_attention(*inputs, *matrices(layer), None if given is None else given[:, :, 0])
        np.testing.assert_allclose(context, expected[0], atol=1e-5)
        np.testing.assert_allclose(weights, expected[1], atol=1e-5)


def test_a_single_head_attends_by_the_formula_too():
    generator = np.random.default_rng(0)  # in sizes in which oneDNN on AVX-512 reads beyond a repeated second factor
    one = [generator.normal(size=(64, 1, rows, 64)).astype("float32") for rows in (20, 64, 64)]
    layer = ready(one, projected_length=64, max_length=64)
    context, weights = layer(*one)
    mixing = layer.key_mixing.numpy(), layer.value_mixing.numpy()
    expected = oracles.linformer_attention(*(x[::21] for x in one), *mixing)
    np.testing.assert_allclose(context[::21], expected[0], atol=1e-3)
    np.testing.assert_allclose(weights[::21], expected[1], atol=1e-3)


def test_as_many_identity_projections_as_keys_make_softmax_attention(inputs):
    layer = ready(inputs, projected_length=S, max_length=S)
    layer.set_weights([np.tile(np.eye(S, dtype="float32"), (H, 1, 1))] * 2)
    assert_close(layer(*inputs), Softmax()(*inputs), 1e-6)


def test_effective_weights_are_of_either_sign_and_sum_to_anything_and_still_make_the_context(inputs):
    context, weights = ready(inputs)(*inputs, mask=np.arange(S) < np.array([S, 3]).reshape(B, 1, 1, 1))
    np.testing.assert_allclose(context, weights.numpy() @ inputs[2], atol=1e-5)
    assert weights.numpy().min() < -0.1
    assert np.ptp(weights.numpy().sum(-1)) > 0.1
    assert (weights.numpy()[1, ..., 3:] == 0).all()


def test_matrices_are_one_for_each_head_and_side(inputs):
    assert ready(inputs).count_params() == 2 * H * P * 8


def test_initial_matrices_have_the_spread_of_one_heads_matrix_whatever_the_number_of_heads():
    spreads = []
    for heads in (1, 16):
        layer = Linformer(32, 64)
        layer.build((None, heads, None, 4), (None, heads, None, 4), (None, heads, None, 4))
        spreads += [float(np.std(matrix)) for matrix in layer.weights]
        assert not np.allclose(*layer.weights)
    assert spreads == pytest.approx([math.sqrt(2 / (32 + 64))] * 4, rel=0.1)  # Glorot and Bengio 2010, equation 16


def test_a_sentence_without_tokens_gets_zeros_and_finite_gradients(inputs):
    layer = ready(inputs)
    mask = padding_mask(np.array([[4, 5, 6, 7, 0], [0, 0, 0, 0, 0]]))
    points = [tf.convert_to_tensor(x) for x in inputs]
    with tf.GradientTape() as tape:
        tape.watch(points)
        context, weights = layer(*points, mask=mask)
        total = tf.reduce_sum(context**2) + tf.reduce_sum(weights**2)
    for found in (context.numpy(), weights.numpy()):
        assert (found[1] == 0).all()
        assert np.abs(found[0]).max() > 0.1
    for gradient in tape.gradient(total, points + [v.value for v in layer.weights]):
        assert np.isfinite(tf.convert_to_tensor(gradient)).all()


def test_values_at_masked_positions_change_nothing(inputs):
    layer = ready(inputs)
    query, key, value = inputs
    mask = np.arange(S) != 1
    expected = layer(query, key, value, mask=mask[None, None, None])
    key, value = (np.where(mask[:, None], x, np.nan) for x in (key, value))
    assert_close(layer(query, key, value, mask=mask[None, None, None]), expected, 0)


def test_large_inputs_give_finite_contexts(inputs):
    context, weights = ready(inputs)(*(x * 1e3 for x in inputs))
    assert np.isfinite(context).all()
    assert np.isfinite(weights).all()


@pytest.mark.parametrize("shape", [(1, 1, T, S), (B, H, T, S), (B, 1, T, 1)])
def test_a_mask_that_differs_between_queries_is_refused_and_the_way_out_named(inputs, shape):
    with pytest.raises(ValueError, match=r"all queries need.*found \(.*softmax, blockwise or lsh"):
        Linformer()(*inputs, mask=np.ones(shape, bool))


def test_a_causal_mask_is_refused_when_a_graph_of_unknown_lengths_is_made():
    layer = SelfAttention(2, 4, mechanism="linformer")
    layer.build((None, None, 6))
    call = tf.function(lambda x: layer(x, attention_mask=causal_mask(tf.shape(x)[1], tf.shape(x)[1])))
    with pytest.raises(ValueError, match="all queries need the same mask"):
        call.get_concrete_function(tf.TensorSpec((None, None, 6)))


def test_a_source_that_is_too_long_is_refused(inputs):
    with pytest.raises(ValueError, match="max_length = 4 at most, found 5"):
        Linformer(2, max_length=4)(*inputs)


def test_a_too_long_source_of_unknown_length_fails_in_a_named_operation():
    layer = MultiHeadAttention(
        2,
        4,
        mechanism={"class_name": "linformer", "config": {"projected_length": 2, "max_length": 4}},
        projection=False,
    )
    call = tf.function(lambda x: layer(x, key=x, value=x), input_signature=[tf.TensorSpec((None, None, 8))])
    assert call(np.ones((1, 4, 8), "float32"))[1].shape == (1, 2, 4, 4)
    with pytest.raises(tf.errors.InvalidArgumentError, match="source_is_longer_than_max_length"):
        call(np.ones((1, 5, 8), "float32"))


def test_the_context_needs_no_array_of_queries_times_keys():
    length = 256
    layer = Linformer(projected_length=8, max_length=length)
    sizes = [
        largest_array_behind(
            result, layer, *[tf.TensorSpec((1, 1, length, 4))] * 3, tf.TensorSpec((1, 1, 1, length), bool)
        )
        for result in (0, 1)
    ]
    assert sizes[0] == length * 8
    assert sizes[1] == length**2
