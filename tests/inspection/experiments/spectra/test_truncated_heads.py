"""Heads whose `W_Q W_K^T` is replaced by its best approximation of a rank, in layers and in whole models."""

import keras
import numpy as np
import pytest

from qkv.attention import CrossAttention, SelfAttention
from qkv.inspection.experiments.spectra import compares_by_product, query_key_kernels, rank_projections, truncate_heads
from tests.support.layer_contract import stir
from tests.support.tiny_models import SOURCE, TARGET, TWO_LAYERS, make_transformer

generator = np.random.default_rng(0)
TARGETS, SOURCES = (generator.normal(size=(2, length, 10)).astype("float32") for length in (3, 6))


def cross(heads=2, **settings):
    layer = CrossAttention(num_heads=heads, key_dim=4, **settings)
    layer(TARGETS, SOURCES)
    return stir(layer)


def self_attention(heads=2, **settings):
    layer = SelfAttention(num_heads=heads, key_dim=4, **settings)
    layer(SOURCES)
    return stir(layer)


def attend(layer):
    inputs = (SOURCES,) if isinstance(layer, SelfAttention) else (TARGETS, SOURCES)
    return [np.array(part) for part in layer(*inputs)]


def weights_by_whole_matrices(layer, rank):
    """The weights without biases, from a decomposition of the whole of each head's `W_Q W_K^T`."""
    queries, keys = (SOURCES, SOURCES) if isinstance(layer, SelfAttention) else (TARGETS, SOURCES)
    query_kernel, key_kernel = query_key_kernels(layer)
    rows = []
    for head in range(2):
        columns = slice(4 * head, 4 * head + 4)
        left, values, right = np.linalg.svd((query_kernel[:, columns] @ key_kernel[:, columns].T).astype(float))
        best = (left[:, :rank] * values[:rank]) @ right[:rank]
        exponentials = np.exp(queries @ best @ np.swapaxes(keys, 1, 2) / np.sqrt(4))
        rows.append(exponentials / exponentials.sum(-1, keepdims=True))
    return np.stack(rows, axis=1)


@pytest.mark.parametrize("make", [cross, self_attention])
@pytest.mark.parametrize("rank", [0, 1, 2, 3, 4])
def test_scores_are_those_of_the_best_approximation_of_the_rank(make, rank):
    layer = make(use_bias=False)
    expected = weights_by_whole_matrices(layer, rank)
    truncate_heads([layer], rank)
    np.testing.assert_allclose(attend(layer)[1], expected, atol=1e-5)


@pytest.mark.parametrize("make", [cross, self_attention])
def test_queries_and_keys_with_their_biases_are_projected_and_values_stay(make):
    layer = make()
    denses = [layer.qkv_projection] if make is self_attention else [layer.query_projection, layer.key_projection]
    kernel = np.concatenate([np.array(dense.kernel) for dense in denses], axis=1)
    bias = np.concatenate([np.array(dense.bias) for dense in denses])
    truncate_heads([layer], 2)
    new_kernel = np.concatenate([np.array(dense.kernel) for dense in denses], axis=1)
    new_bias = np.concatenate([np.array(dense.bias) for dense in denses])
    for head in range(2):
        columns = [slice(8 * side + 4 * head, 8 * side + 4 * head + 4) for side in (0, 1)]
        for place, projection in zip(columns, rank_projections(*(kernel[:, c] for c in columns), 2), strict=True):
            np.testing.assert_allclose(new_kernel[:, place], kernel[:, place] @ projection, atol=1e-5)
            np.testing.assert_allclose(new_bias[place], bias[place] @ projection, atol=1e-5)
    np.testing.assert_array_equal(new_kernel[:, 16:], kernel[:, 16:])
    np.testing.assert_array_equal(new_bias[16:], bias[16:])


def test_the_two_projections_undo_each_other_as_long_as_no_direction_is_left_out():
    """So a bias meets what it met before: `q P (k R)^T = q k^T`, whatever q and k. One direction too few misses it."""
    query, key = generator.normal(size=(10, 4)), generator.normal(size=(7, 4))
    key[:, 3] = key[:, 2] + 1e-6 * key[:, 3]  # all but of rank 3
    P, R = rank_projections(query, key, 3)
    np.testing.assert_allclose(query @ P @ R.T @ key.T, query @ key.T, atol=1e-4)
    assert np.abs(P[:, 3]).max() == np.abs(R[:, 3]).max() == 0


def test_a_head_of_lower_rank_than_asked_for_has_finite_weights():
    query, key = generator.normal(size=(10, 4)), np.zeros((7, 4))
    for projection in rank_projections(query, key, 2):
        np.testing.assert_array_equal(projection, 0)


@pytest.mark.parametrize("positions_on", ["input", "queries_and_keys"])
def test_a_model_of_full_rank_is_unchanged_one_of_rank_0_is_uniform_and_restoring_restores(positions_on):
    model = make_transformer(**TWO_LAYERS, positions_on=positions_on)

    def outputs():
        found = model.decode(TARGET, model.encode(SOURCE))
        return np.array(found.logits), np.array(found.cross[1])

    layers = [block.self_attention for block in (*model.encoder_blocks, *model.decoder_blocks)]
    layers += [block.cross_attention for block in model.decoder_blocks]
    logits, weights = outputs()
    truncate_heads(layers, 4)
    np.testing.assert_allclose(outputs()[0], logits, atol=1e-5)
    restore = truncate_heads(layers, 0)
    flat = np.broadcast_to((SOURCE > 0) / (SOURCE > 0).sum(1, keepdims=True), (2, 5, 3, 7)).transpose(2, 0, 1, 3)
    np.testing.assert_allclose(outputs()[1], flat, atol=1e-6)
    restore()
    np.testing.assert_array_equal(outputs()[1], weights)


@pytest.mark.parametrize("settings", [{"score": "cosine"}, {"projection": False, "value_dim": 5}])
def test_heads_that_do_not_compare_by_a_product_are_refused(settings):
    layer = CrossAttention(num_heads=2, **({"key_dim": 5} | settings))
    layer(TARGETS, SOURCES)
    assert not compares_by_product(layer)
    with pytest.raises(ValueError, match="products of queries and keys"):
        truncate_heads([layer], 1)
    # LSH has one matrix for queries and keys.
    assert not compares_by_product(SelfAttention(num_heads=2, key_dim=4, mechanism="lsh"))


@pytest.mark.parametrize("make", [cross, self_attention])
@pytest.mark.parametrize("shared", [1, 2])
def test_shared_keys_are_repeated_for_each_head_and_such_heads_are_not_truncated(make, shared):
    layer = make(key_value_heads=shared, value_dim=3, use_bias=False, heads=4)
    queries, keys = (SOURCES, SOURCES) if make is self_attention else (TARGETS, SOURCES)
    query_kernel, key_kernel = query_key_kernels(layer)
    assert key_kernel.shape == query_kernel.shape == (10, 16)
    for head in range(4):
        columns = slice(4 * head, 4 * head + 4)
        scores = (queries @ query_kernel[:, columns]) @ np.swapaxes(keys @ key_kernel[:, columns], 1, 2) / 2
        expected = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
        np.testing.assert_allclose(attend(layer)[1][:, head], expected, atol=1e-5)
    with pytest.raises(ValueError, match="separate keys for each head, found shared"):
        truncate_heads([layer], 2)


@pytest.mark.parametrize("rank", [-1, 5])
def test_a_rank_that_no_head_can_have_is_refused_and_nothing_is_changed(rank):
    layer = cross()
    before = [np.array(weight) for weight in layer.weights]
    with pytest.raises(ValueError, match=f"expected 0 to 4.*found {rank}"):
        truncate_heads([layer], rank)
    for old, new in zip(before, layer.weights, strict=True):
        np.testing.assert_array_equal(old, keras.ops.convert_to_numpy(new))
