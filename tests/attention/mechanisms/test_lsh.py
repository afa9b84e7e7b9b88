"""LSH attention: the paper's softmax over what the hash finds, and what it promises about cost, future and padding."""

from itertools import pairwise

import numpy as np
import pytest
import tensorflow as tf

from qkv.attention.additive import AdditiveAttention
from qkv.attention.cross_attention import CrossAttention
from qkv.attention.masks import causal_mask, padding_mask
from qkv.attention.mechanisms.lsh import LSH
from qkv.attention.multi_head import MultiHeadAttention
from qkv.attention.scores import ScaledDot
from qkv.attention.self_attention import SelfAttention
from tests.support import oracles
from tests.support.devices import largest_array_behind

B, H, S, K, V = 2, 2, 13, 4, 3
EVERYTHING = np.ones((1, 1, S, S), bool)


def draw(length=S, seed=0):
    generator = np.random.default_rng(seed)
    return [generator.normal(size=(B, H, length, size)).astype("float32") for size in (K, V)]


@pytest.fixture
def inputs():
    return draw()


def attend(layer, x, value, **settings):
    context, weights = layer(x, x, value, **settings)
    return context.numpy(), weights.numpy()


def full_attention(x, mask=EVERYTHING):
    """Softmax attention of vectors to themselves at unit length, to themselves at the same place only if alone."""
    keys = x / np.linalg.norm(x, axis=-1, keepdims=True)
    mask = np.broadcast_to(mask, (B, H, S, S))
    others = mask & ~np.eye(S, dtype=bool)
    alone = mask & ~others.any(-1, keepdims=True)
    return oracles.softmax(oracles.scores("scaled_dot", x, keys), others | alone)


@pytest.mark.parametrize(("buckets", "chunk_length", "rounds"), [(4, 2, 3), (6, 1, 2), (2, 20, 2), (1, 3, 1)])
def test_weights_equal_the_softmax_over_what_the_hash_finds(inputs, buckets, chunk_length, rounds):
    x, value = inputs
    layer = LSH(buckets, chunk_length, rounds, seed=1)
    generator = np.random.default_rng(2)
    masks = [
        None,
        causal_mask(S, S).numpy(),
        padding_mask(np.arange(S)[None] < np.array([[S], [8]])).numpy(),
        generator.random((B, H, S, S)) < 0.5,
        generator.random((B, 1, S, S)) < 0.5,
        generator.random((1, H, 1, S)) < 0.5,
        generator.random((B, H, S, 1)) < 0.5,
    ]
    for mask in masks:
        context, weights = attend(layer, x, value, mask=mask)
        expected = oracles.lsh_weights(x, layer.rotations.numpy(), buckets, chunk_length, mask)
        np.testing.assert_allclose(weights, expected, atol=1e-6)
        np.testing.assert_allclose(context, weights @ value, atol=1e-5)


def test_one_bucket_in_one_chunk_is_softmax_attention_among_others(inputs):
    for mask in (EVERYTHING, causal_mask(S, S).numpy()):
        weights = attend(LSH(buckets=1, chunk_length=S, rounds=1), *inputs, mask=mask)[1]
        np.testing.assert_allclose(weights, full_attention(inputs[0], mask), atol=1e-6)


def test_more_rounds_of_one_bucket_find_nothing_new_and_count_nothing_twice(inputs):
    once, often = (attend(LSH(buckets=1, chunk_length=4, rounds=rounds), *inputs) for rounds in (1, 5))
    for one, other in zip(once, often, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_the_distance_to_full_attention_shrinks_with_the_number_of_rounds(inputs):
    expected = full_attention(inputs[0])
    distances = []
    for rounds in (1, 3, 8):
        found = [attend(LSH(4, 4, rounds, seed=seed), *inputs)[1] for seed in range(3)]
        distances.append(np.mean([np.abs(weights - expected).sum(-1).mean() for weights in found]))
    assert all(later < 0.9 * earlier for earlier, later in pairwise(distances))
    assert distances[-1] < 0.4 * distances[0]


def test_under_a_causal_mask_the_past_does_not_depend_on_the_future(inputs):
    layer = LSH(4, 2, 3, seed=1)
    x, value = inputs
    mask = causal_mask(S, S)
    expected = attend(layer, x, value, mask=mask)
    for length in (1, 4, 9, 12):
        other, other_value = draw(seed=length)
        changed = np.concatenate([x[:, :, :length], other[:, :, length:]], 2)
        changed_value = np.concatenate([value[:, :, :length], other_value[:, :, length:]], 2)
        shorter = attend(layer, x[:, :, :length], value[:, :, :length], mask=mask[..., :length, :length])
        context, weights = attend(layer, changed, changed_value, mask=mask)
        for found in (context, shorter[0]):
            np.testing.assert_allclose(found[:, :, :length], expected[0][:, :, :length], atol=1e-6)
        for found in (weights, shorter[1]):
            np.testing.assert_allclose(found[:, :, :length, :length], expected[1][:, :, :length, :length], atol=1e-6)
        assert np.abs(context - expected[0])[:, :, length:].max() > 0.01


def test_the_number_of_scores_grows_linearly_with_the_length(monkeypatch):
    counted = []
    compare = ScaledDot.call

    def call(self, query, key):
        scores = compare(self, query, key)
        counted.append(int(np.prod(scores.shape)))
        return scores

    monkeypatch.setattr(ScaledDot, "call", call)
    numbers = []
    for length in (32, 64, 128):
        counted.clear()
        attend(LSH(buckets=4, chunk_length=8, rounds=2, seed=1), *draw(length))
        assert sum(counted) <= B * H * 2 * (length + 4 * 7) * 16
        numbers.append(sum(counted))
    growth = np.diff(numbers) / np.diff([32, 64, 128])
    np.testing.assert_array_equal(growth, growth[0])
    assert numbers[-1] < B * H * 128**2


@pytest.mark.minutes
def test_the_context_needs_no_array_of_queries_times_keys():
    length = 256
    shapes = [tf.TensorSpec((1, 1, length, 4))] * 3 + [tf.TensorSpec((1, 1, 1, length), bool)]
    context, weights = (largest_array_behind(i, LSH(4, 4, 2), *shapes) for i in (0, 1))
    assert weights >= length**2
    assert context < length**2 / 8


def test_inference_repeats_itself_and_training_hashes_anew(inputs):
    layer = LSH(4, 2, 1, seed=1)
    first = attend(layer, *inputs)[1]
    in_training = [attend(layer, *inputs, training=True)[1] for _ in range(4)]
    np.testing.assert_array_equal(attend(layer, *inputs)[1], first)
    for one, other in zip([first, *in_training], in_training, strict=False):
        assert np.abs(one - other).max() > 0.1
    again = LSH(4, 2, 1, seed=1)
    np.testing.assert_array_equal(attend(again, *inputs)[1], first)
    np.testing.assert_array_equal(attend(again, *inputs, training=True)[1], in_training[0])
    assert np.abs(attend(LSH(4, 2, 1, seed=2), *inputs)[1] - first).max() > 0.1


def test_dropout_acts_on_the_context_and_not_on_the_weights(inputs):
    layer = LSH(buckets=1, chunk_length=S, rounds=2, dropout=0.5)
    context, weights = attend(layer, *inputs)
    dropped, kept = attend(layer, *inputs, training=True)
    np.testing.assert_array_equal(kept, weights)
    assert np.abs(dropped - context).max() > 0.1


def test_queries_and_keys_are_one_projection():
    layer = SelfAttention(2, 4, value_dim=3, mechanism="lsh")
    layer.build((None, None, 6))
    assert layer.qkv_projection.kernel.shape == (6, 2 * 4 + 2 * 3)


def test_half_precision_finds_the_keys_that_full_precision_finds():
    rough = [tf.cast(tf.cast(x, "bfloat16"), "float32").numpy() for x in draw(200)]
    context, weights = LSH(4, 8, 3, seed=1, dtype="mixed_bfloat16")(rough[0], rough[0], rough[1])
    expected = attend(LSH(4, 8, 3, seed=1), *rough)
    assert (context.dtype, weights.dtype) == (tf.bfloat16, tf.float32)
    np.testing.assert_array_equal(weights.numpy() > 0, expected[1] > 0)
    np.testing.assert_allclose(weights, expected[1], atol=0.03)
    np.testing.assert_allclose(tf.cast(context, "float32"), expected[0], atol=0.05)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LSH(buckets=3), "buckets: .*even number, found 3"),
        (lambda: LSH(score="general"), "score: .*one of scaled_dot, dot, cosine, found 'general'"),
        (lambda: AdditiveAttention(4, mechanism="lsh"), "found 'additive'"),
        (lambda: MultiHeadAttention(2, 4, mechanism="lsh"), "self-attention only"),
        (lambda: CrossAttention(2, 4, mechanism="lsh"), "self-attention only"),
        (lambda: LSH()(*[np.ones((1, 1, n, 4)) for n in (3, 5, 5)]), "found 3 and 5"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_was_found(make, message):
    with pytest.raises(ValueError, match=message):
        make()
