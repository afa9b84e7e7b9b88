"""Additive attention is Bahdanau's, by a loop, by hand and by Keras' layer of that name."""

import keras
import numpy as np
import pytest

from qkv.attention.additive import AdditiveAttention
from tests.support import oracles
from tests.support.layer_contract import stir


def ready(inputs, **settings):
    layer = AdditiveAttention(units=4, **settings)
    layer(inputs[0], key=inputs[1], value=inputs[2])
    return stir(layer)


@pytest.mark.parametrize("use_bias", [False, True])
def test_context_and_weights_equal_the_formula(inputs, use_bias):
    layer = ready(inputs, use_bias=use_bias)
    mask = np.random.default_rng(1).random((2, 1, 3, 5)) < 0.6
    query, key, value = inputs
    context, weights = layer(query, key=key, value=value, attention_mask=mask)
    q, k = query @ layer.query_projection.kernel.numpy(), key @ layer.key_projection.kernel.numpy()
    learnt = {variable.name: variable.numpy() for variable in layer.score.variables}
    expected = oracles.softmax(oracles.scores("additive", q[:, None], k[:, None], learnt), mask)
    np.testing.assert_allclose(weights, expected, atol=1e-5)
    np.testing.assert_allclose(context, expected[:, 0] @ value, atol=1e-5)


def test_context_and_weights_equal_those_computed_by_hand():
    layer = AdditiveAttention(units=1)
    query, key, value = np.float32([[[1]]]), np.float32([[[-1], [1]]]), np.float32([[[10, 0], [0, 20]]])
    layer(query, key=key, value=value)
    layer.query_projection.set_weights([np.float32([[2]])])
    layer.key_projection.set_weights([np.float32([[2]])])
    layer.score.set_weights([np.float32([[1]])])
    # scores tanh(2 - 2) = 0 and tanh(2 + 2) = 0.9993293; 1 / (1 + e^0.9993293) = 0.2690735
    context, weights = layer(query, key=key, value=value)
    np.testing.assert_allclose(weights[0, 0, 0], [0.2690733, 0.7309267], atol=2e-6)
    np.testing.assert_allclose(context[0, 0], [2.690733, 14.618534], atol=4e-5)


def test_keras_additive_attention_agrees_on_projected_inputs(inputs):
    layer = ready(inputs)
    peer = keras.layers.AdditiveAttention()
    query, key, value = layer.query_projection(inputs[0]), layer.key_projection(inputs[1]), inputs[2]
    peer.build([query.shape, value.shape, key.shape])
    peer.scale = layer.score.v[0]
    expected_context, expected_weights = peer([query, value, key], return_attention_scores=True)
    context, weights = layer(inputs[0], key=inputs[1], value=value)
    np.testing.assert_allclose(weights[:, 0], expected_weights, atol=1e-6)
    np.testing.assert_allclose(context, expected_context, atol=1e-5)


def test_keys_projected_once_serve_one_query_after_another(inputs):
    query, key, value = inputs
    layer = ready(inputs)
    context, weights = layer(query, key=key, value=value)
    keys, values = layer.project_memory(key, value)
    for t in range(3):
        step_context, step_weights = layer.attend(layer.project_query(query[:, t : t + 1]), keys, values)
        np.testing.assert_allclose(step_context[:, 0], context[:, t], atol=1e-6)
        np.testing.assert_allclose(step_weights[:, :, 0], weights[:, :, t], atol=1e-6)


def test_all_arguments_are_in_the_config():
    arguments = {"projection": False, "bias_initializer": "ones", "kernel_initializer": "he_normal", "seed": 3}
    layer = AdditiveAttention(4, activity_regularizer=keras.regularizers.L2(0.1), **arguments)
    config = AdditiveAttention.from_config(layer.get_config()).get_config()
    assert config == layer.get_config()
    assert arguments.items() <= config.items()
    assert config["activity_regularizer"]["config"] == {"l2": 0.1}


def test_there_are_two_matrices_and_a_vector_and_no_bias_unless_asked_for(inputs):
    assert ready(inputs).count_params() == 8 * 4 + 6 * 4 + 4
    assert ready(inputs, use_bias=True).count_params() == 8 * 4 + 6 * 4 + 4 + 4


def test_the_spec_has_the_width_of_the_values_once_the_layer_is_built(inputs):
    layer = AdditiveAttention(units=4, use_bias=True)
    assert (layer.spec.value_dim, layer.spec.output_dim) == (None, None)
    context, _ = layer(inputs[0], key=inputs[1], value=inputs[2])
    width = inputs[2].shape[-1]
    assert (layer.spec.value_dim, layer.spec.output_dim, context.shape[-1]) == (width, width, width)
    assert (layer.value_dim, layer.output_dim) == (width, width)
    assert (layer.spec.num_heads, layer.spec.key_dim, layer.spec.value_projection) == (1, 4, False)
    assert layer.spec.score == {"class_name": "additive", "config": {"use_bias": True}}
