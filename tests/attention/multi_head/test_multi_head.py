"""The three multi-head layers: the paper's formula, Keras' layer with the same weights, and each other."""

import keras
import numpy as np
import pytest

from qkv.attention.cross_attention import CrossAttention
from qkv.attention.multi_head import MultiHeadAttention
from qkv.attention.scores import SCORE_CLASSES
from qkv.attention.self_attention import SelfAttention
from tests.support import oracles
from tests.support.layer_contract import assert_close, stir


@pytest.fixture
def mask():
    return np.random.default_rng(1).random((2, 2, 3, 5)) < 0.6


def call(layer, query, key, value, **arguments):
    return layer(query, key=key, value=value, **arguments)


def ready(layer, *inputs):
    call(layer, *inputs) if len(inputs) == 3 else layer(*inputs)
    return stir(layer)


def matrices(layer):
    sides = ("query", "key", "value", "output")
    return {side: [w.numpy() for w in getattr(layer, f"{side}_projection").weights] for side in sides}


@pytest.mark.parametrize("score", SCORE_CLASSES)
def test_context_and_weights_equal_the_formula(inputs, mask, score):
    layer = ready(MultiHeadAttention(2, 4, value_dim=3, output_dim=5, score=score), *inputs)
    context, weights = call(layer, *inputs, attention_mask=mask)
    learnt = {variable.name: variable.numpy() for variable in layer.score.variables}
    expected_context, expected_weights = oracles.multi_head_attention(
        *inputs, 2, score=score, learnt=learnt, mask=mask, projections=matrices(layer)
    )
    np.testing.assert_allclose(weights, expected_weights, atol=2e-5)
    np.testing.assert_allclose(context, expected_context, atol=1e-4)


def test_without_projection_the_inputs_themselves_are_cut_into_heads(mask):
    generator = np.random.default_rng(0)
    query, key, value = (generator.normal(size=(2, n, width)) for n, width in ((3, 8), (5, 8), (5, 6)))
    layer = MultiHeadAttention(2, 4, value_dim=3, projection=False)
    context, weights = call(layer, query, key, value, attention_mask=mask)
    expected_context, expected_weights = oracles.multi_head_attention(query, key, value, 2, mask=mask)
    np.testing.assert_allclose(weights, expected_weights, atol=1e-5)
    np.testing.assert_allclose(context, expected_context, atol=1e-5)
    assert layer.count_params() == 0


def test_context_and_weights_equal_those_computed_by_hand():
    layer = MultiHeadAttention(1, 2, score="dot", projection=False)
    key = np.float32([[[np.log(3), 5], [0, 7]]])
    context, weights = call(layer, np.float32([[[1, 0]]]), key, np.float32([[[4, 0], [8, 4]]]))
    np.testing.assert_allclose(weights, [[[[0.75, 0.25]]]], rtol=1e-6)
    np.testing.assert_allclose(context, [[[5, 1]]], rtol=1e-6)


@pytest.mark.parametrize("use_bias", [True, False])
def test_keras_multi_head_attention_agrees_with_the_same_weights(inputs, mask, use_bias):
    layer = ready(MultiHeadAttention(2, 4, value_dim=3, output_dim=5, use_bias=use_bias), *inputs)
    query, key, value = inputs
    peer = keras.layers.MultiHeadAttention(2, 4, value_dim=3, output_shape=5, use_bias=use_bias)
    peer.build(query.shape, value.shape, key.shape)
    ours = matrices(layer)
    for side, dense in (("query", peer.query_dense), ("key", peer.key_dense), ("value", peer.value_dense)):
        dense.set_weights([w.reshape(s.shape) for w, s in zip(ours[side], dense.weights, strict=True)])
    peer.output_dense.set_weights(
        [w.reshape(s.shape) for w, s in zip(ours["output"], peer.output_dense.weights, strict=True)]
    )
    mask = mask | (np.arange(5) == 0)  # a row without keys is another thing in Keras
    expected_context, expected_weights = peer(query, value, key, attention_mask=mask, return_attention_scores=True)
    context, weights = call(layer, query, key, value, attention_mask=mask)
    np.testing.assert_allclose(weights, expected_weights, atol=1e-5)
    np.testing.assert_allclose(context, expected_context, atol=1e-5)


def test_without_a_key_the_value_is_the_key_as_in_keras(inputs):
    query, _, value = inputs
    layer = ready(MultiHeadAttention(2, 4), query, value, value)
    for expected, computed in zip(layer(query, key=value, value=value), layer(query, value=value), strict=True):
        np.testing.assert_array_equal(computed, expected)
    fresh = MultiHeadAttention(2, 4)
    symbolic = fresh(keras.Input(query.shape[1:]), value=keras.Input(value.shape[1:]))
    assert [tensor.shape[1:] for tensor in symbolic] == [tensor.shape[1:] for tensor in fresh(query, value=value)]


@pytest.mark.parametrize("score", SCORE_CLASSES)
def test_self_attention_is_multi_head_attention_of_a_sequence_to_itself(inputs, score):
    x = inputs[0]
    layer = ready(SelfAttention(2, 4, value_dim=3, score=score), x)
    peer = MultiHeadAttention(2, 4, value_dim=3, score=score)
    call(peer, x, x, x)
    kernel, bias = (w.numpy() for w in layer.qkv_projection.weights)
    for projection, part in (
        (peer.query_projection, slice(0, 8)),
        (peer.key_projection, slice(8, 16)),
        (peer.value_projection, slice(16, 22)),
    ):
        projection.set_weights([kernel[:, part], bias[part]])
    peer.output_projection.set_weights(layer.output_projection.get_weights())
    peer.score.set_weights(layer.score.get_weights())
    mask = np.tril(np.ones((1, 1, 3, 3), bool))
    assert_close(layer(x, attention_mask=mask), call(peer, x, x, x, attention_mask=mask))


@pytest.mark.parametrize("batch", [(), (2,)])
def test_cross_attention_puts_positions_on_the_keys_and_not_on_the_values(inputs, mask, batch):
    x, memory, _ = inputs
    positions = np.random.default_rng(2).normal(size=(*batch, 5, 6)).astype("float32")
    layer = ready(CrossAttention(2, 4), x, memory)
    peer = MultiHeadAttention(2, 4)
    call(peer, x, memory, memory)
    for side in ("query", "key", "value", "output"):
        getattr(peer, f"{side}_projection").set_weights(getattr(layer, f"{side}_projection").get_weights())
    found = layer(x, memory, attention_mask=mask, memory_positions=positions)
    assert_close(found, call(peer, x, memory + positions, memory, attention_mask=mask), 1e-6)
    assert_close(layer(x, memory, attention_mask=mask), call(peer, x, memory, memory, attention_mask=mask), 1e-6)
    assert np.abs(layer(x, memory, attention_mask=mask)[1] - found[1]).max() > 0.01


def test_memory_projected_once_serves_one_query_after_another(inputs):
    query, key, value = inputs
    layer = ready(MultiHeadAttention(2, 4, value_dim=3), *inputs)
    context, weights = call(layer, *inputs)
    keys, values = layer.project_memory(key, value)
    for t in range(3):
        step_context, step_weights = layer.attend(layer.project_query(query[:, t : t + 1]), keys, values)
        np.testing.assert_allclose(step_context[:, 0], context[:, t], atol=1e-6)
        np.testing.assert_allclose(step_weights[:, :, 0], weights[:, :, t], atol=1e-6)


def test_dropped_weights_are_scaled_up_so_that_the_mean_context_stays():
    layer = MultiHeadAttention(1, 1, projection=False, dropout=0.5)
    query, memory = np.zeros((4000, 1, 1), "float32"), np.ones((4000, 4, 1), "float32")
    context, _ = call(layer, query, memory, memory, training=True)
    assert set(np.round(np.ravel(context), 3)) == {0, 0.5, 1, 1.5, 2}
    assert np.mean(context) == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MultiHeadAttention(2, 4, score="euclid"), "score.*found 'euclid'"),
        (lambda: MultiHeadAttention(2, 4, output_dim=9, projection=False), "output_dim.* 8 .*found 9"),
        (lambda: SelfAttention(2, 4, value_dim=3, projection=False)(np.zeros((1, 3, 8))), "x: .* 6, found 8"),
        (lambda: SelfAttention(2, 4, projection=False)(np.zeros((1, 3, 6))), "x: .* 8, found 6"),
        (lambda: call(MultiHeadAttention(2, 4, projection=False), *np.zeros((3, 1, 3, 6))), "query: .* 8, found 6"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_with_what_was_found(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_values_without_projection_come_out_as_they_are(inputs, mask):
    query, key, _ = inputs
    value = np.random.default_rng(3).normal(size=(2, 5, 6)).astype("float32")
    layer = ready(MultiHeadAttention(2, 4, value_dim=3, value_projection=False), query, key, value)
    context, weights = call(layer, query, key, value, attention_mask=mask)
    by_head = np.einsum("bhts,bshv->bthv", weights, value.reshape(2, 5, 2, 3))
    np.testing.assert_allclose(context, by_head.reshape(2, 3, 6), atol=1e-5)
    assert {layer.path for layer in layer.weights} == {
        f"{layer.name}/{side}/{part}" for side in ("query", "key") for part in ("kernel", "bias")
    }


@pytest.mark.parametrize("projection", [True, False])
@pytest.mark.parametrize("value_projection", [True, False])
def test_self_attention_puts_positions_on_queries_and_keys_and_not_on_values(value_projection, projection):
    generator = np.random.default_rng(0)
    x, positions = generator.normal(size=(2, 3, 6)).astype("float32"), generator.normal(size=(3, 6)).astype("float32")
    sizes = {"key_dim": 4 if projection else 3, "value_dim": 3}
    layer = ready(SelfAttention(2, **sizes, projection=projection, value_projection=value_projection), x)
    query, key, _ = layer.project(x + positions)
    _, _, value = layer.project(x)
    assert_close(layer(x, positions=positions), layer.attend(query, key, value))


def test_cross_attention_puts_the_positions_of_x_on_the_queries(inputs):
    x, memory, _ = inputs
    positions = np.random.default_rng(2).normal(size=x.shape[1:]).astype("float32")
    layer = ready(CrossAttention(2, 4), x, memory)
    assert_close(layer(x, memory, positions=positions), layer(x + positions, memory), 1e-6)


@pytest.mark.parametrize("score", ["general", "concat"])
def test_scores_that_can_compare_queries_and_keys_of_two_sizes_without_projection(score):
    generator = np.random.default_rng(0)
    query, key = generator.normal(size=(2, 3, 4)).astype("float32"), generator.normal(size=(2, 5, 6)).astype("float32")
    layer = ready(MultiHeadAttention(1, 4, value_dim=6, score=score, projection=False), query, key, key)
    learnt = {variable.name: variable.numpy() for variable in layer.score.variables}
    expected_context, expected_weights = oracles.multi_head_attention(query, key, key, 1, score=score, learnt=learnt)
    context, weights = call(layer, query, key, key)
    np.testing.assert_allclose(weights, expected_weights, atol=1e-5)
    np.testing.assert_allclose(context, expected_context, atol=1e-5)


@pytest.mark.parametrize("value_projection", [True, False])
def test_value_norms_are_the_lengths_of_what_one_head_adds_for_one_key(inputs, value_projection):
    query, key, value = inputs
    value = value[..., :6]
    layer = ready(
        MultiHeadAttention(
            2, 4, value_dim=3, output_dim=5 if value_projection else 6, value_projection=value_projection
        ),
        query,
        key,
        value,
    )
    norms = layer.value_norms(value).numpy()
    assert norms.shape == (2, 2, 5)
    _, projected = layer.project_memory(key, value)
    nothing = layer.merge_heads(np.zeros((2, 2, 1, 3), "float32")).numpy()
    for head in range(2):
        for s in range(5):
            alone = np.zeros((2, 2, 1, 3), "float32")
            alone[:, head, 0] = projected[:, head, s]
            added = layer.merge_heads(alone).numpy() - nothing
            np.testing.assert_allclose(norms[:, head, s], np.linalg.norm(added[:, 0], axis=-1), atol=1e-5)


def test_value_norms_of_a_single_head_equal_the_norms_of_its_outputs():
    value = np.random.default_rng(0).normal(size=(64, 20, 64)).astype("float32")  # as in Linformer's test
    layer = ready(MultiHeadAttention(1, 64), value, value, value)
    _, projected = layer.project_memory(value, value)
    added = layer.merge_heads(projected).numpy() - layer.merge_heads(np.zeros((1, 1, 1, 64), "float32")).numpy()
    np.testing.assert_allclose(layer.value_norms(value)[:, 0], np.linalg.norm(added, axis=-1), rtol=1e-4)


@pytest.mark.parametrize("shape", [(5, 8), (1, 2, 5, 8)])
def test_inputs_of_other_than_three_axes_are_refused(shape):
    x = np.ones(shape, "float32")
    with pytest.raises(ValueError, match=r"expected 3 axes, \(batch, tokens, size\), found shape"):
        MultiHeadAttention(num_heads=2, key_dim=4)(x, key=x, value=x)
