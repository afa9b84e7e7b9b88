"""What attention may see, as properties that hold for any scores."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from qkv.attention.masks import causal_mask, masked_softmax, padding_mask, segment_mask, segment_offsets
from qkv.attention.mechanisms import MECHANISM_CLASSES
from tests.support.oracles import softmax


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


@given(seed=st.integers(0, 1000), scale=st.sampled_from([1e-3, 1.0, 1e3]))
def test_weights_equal_the_definition_for_any_mask(seed, scale):
    scores = numbers(2, 3, 2, 5, seed=seed) * scale
    mask = np.random.default_rng(seed).random(scores.shape) < 0.6
    np.testing.assert_allclose(masked_softmax(scores, mask), softmax(scores, mask), atol=1e-6)
    np.testing.assert_allclose(masked_softmax(scores), softmax(scores), atol=1e-6)


def test_weights_are_in_proportion_to_the_powers_of_the_scores():
    scores = np.log([[[[1.0, 2.0, 3.0]]]]).astype("float32")
    np.testing.assert_allclose(masked_softmax(scores)[0, 0, 0], [1 / 6, 2 / 6, 3 / 6], rtol=1e-6)
    mask = np.array([[[[True, True, False]]]])
    np.testing.assert_allclose(masked_softmax(scores, mask)[0, 0, 0], [1 / 3, 2 / 3, 0], rtol=1e-6)


def test_a_query_with_nothing_to_attend_to_gets_zeros_and_finite_gradients():
    scores = tf.constant(numbers(1, 1, 3, 5) * 1e4)
    mask = np.ones((1, 1, 3, 5), bool)
    mask[0, 0, 1] = False
    with tf.GradientTape() as tape:
        tape.watch(scores)
        weights = masked_softmax(scores, mask)
        total = tf.reduce_sum(weights * numbers(1, 1, 3, 5, seed=1))
    assert (weights.numpy()[0, 0, 1] == 0).all()
    np.testing.assert_allclose(weights.numpy()[0, 0, [0, 2]].sum(-1), 1, atol=1e-6)
    gradient = tape.gradient(total, scores).numpy()
    assert np.isfinite(gradient).all()
    assert (gradient[0, 0, 1] == 0).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_scores_give_float32_weights_without_residue_at_masked_keys(dtype):
    scores = tf.cast(numbers(1, 2, 3, 5) * 8, dtype)
    mask = np.arange(5)[None, None, None] < 3
    weights = masked_softmax(scores, mask)
    assert weights.dtype == tf.float32
    assert (weights.numpy()[..., 3:] == 0).all()
    np.testing.assert_allclose(weights, softmax(tf.cast(scores, "float64").numpy(), mask), atol=1e-6)


def test_a_mask_with_too_few_axes_is_refused_because_it_could_mean_two_things():
    scores = numbers(3, 2, 3, 5)
    with pytest.raises(ValueError, match=r"\(3, 5\)"):
        masked_softmax(scores, np.ones((3, 5), bool))


def test_padding_mask_hides_padding_and_shows_tokens():
    found = padding_mask(np.array([[7, 8, 0, 0, 0], [7, 8, 9, 6, 0]]))
    assert found.shape == (2, 1, 1, 5)
    np.testing.assert_array_equal(found[:, 0, 0], [[1, 1, 0, 0, 0], [1, 1, 1, 1, 0]])


def test_padding_mask_takes_another_padding_id():
    np.testing.assert_array_equal(padding_mask(np.array([[0, 9, 9]]), padding_id=9)[0, 0, 0], [1, 0, 0])


def test_causal_mask_shows_a_query_itself_and_what_came_before():
    found = causal_mask(3, 3)
    assert found.shape == (1, 1, 3, 3)
    np.testing.assert_array_equal(found[0, 0], [[1, 0, 0], [1, 1, 0], [1, 1, 1]])


def test_causal_mask_offset_is_the_position_of_the_first_query_among_the_keys():
    np.testing.assert_array_equal(causal_mask(2, 5, offset=2)[0, 0], [[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]])


def test_a_cached_step_sees_what_the_full_pass_sees_at_that_position():
    full = causal_mask(6, 6).numpy()
    step = tf.function(lambda position: causal_mask(1, 6, offset=position))
    for position in range(6):
        np.testing.assert_array_equal(causal_mask(1, 6, offset=position)[0, 0, 0], full[0, 0, position])
        np.testing.assert_array_equal(step(tf.constant(position))[0, 0, 0], full[0, 0, position])


QUERY_SEGMENTS = np.array([[1, 1, 2, 2, 2, 0], [1, 2, 3, 3, 0, 0]])
KEY_SEGMENTS = np.array([[1, 2, 2, 0], [1, 1, 2, 3]])


def test_segment_mask_shows_a_query_the_tokens_of_its_own_pair():
    found = segment_mask(QUERY_SEGMENTS, KEY_SEGMENTS)
    assert found.shape == (2, 1, 6, 4)
    expected = [
        [[query == key != 0 for key in keys] for query in queries]
        for queries, keys in zip(QUERY_SEGMENTS, KEY_SEGMENTS, strict=True)
    ]
    np.testing.assert_array_equal(found[:, 0], expected)


@given(lengths=st.lists(st.lists(st.integers(1, 4), max_size=4), min_size=1, max_size=3), padding=st.integers(0, 2))
def test_segment_offsets_make_positions_count_from_zero_in_each_pair_and_are_zero_at_padding(lengths, padding):
    longest = max(map(sum, lengths)) + padding
    segments, expected = np.zeros((2, len(lengths), longest), "int32")
    for row, pairs in enumerate(lengths):
        segments[row, : sum(pairs)] = np.repeat(np.arange(1, len(pairs) + 1), pairs)
        expected[row, : sum(pairs)] = np.concatenate([np.arange(0), *map(np.arange, pairs)])
    np.testing.assert_array_equal(np.arange(longest) + segment_offsets(segments), expected)


@pytest.mark.parametrize("name", MECHANISM_CLASSES)
def test_a_mechanism_that_takes_segments_computes_each_pair_as_if_it_were_alone(name):
    """And no other one does: LSH puts the tokens of all pairs into the same chunks, and Linformer refuses the mask."""
    mechanism = MECHANISM_CLASSES[name](**{"lsh": {"chunk_length": 2, "seed": 0}}.get(name, {}))
    segments = np.array([[1, 1, 1, 2, 2, 2, 2, 2, 0]])
    query, key, value = numbers(1, 2, 9, 4), numbers(1, 2, 9, 4, seed=1), numbers(1, 2, 9, 3, seed=2)
    key = query if mechanism.shares_query_and_key else key
    mechanism.build(query.shape, key.shape, value.shape)

    def compute():
        whole = mechanism(query, key, value, mask=segment_mask(segments, segments))
        for pair in (slice(0, 3), slice(3, 8)):
            alone = mechanism(*(x[:, :, pair] for x in (query, key, value)))
            np.testing.assert_allclose(whole[0][:, :, pair], alone[0], atol=1e-5)
            np.testing.assert_allclose(whole[1][:, :, pair, pair], alone[1], atol=1e-5)

    if mechanism.takes_segments:
        compute()
    else:
        with pytest.raises((AssertionError, ValueError), match=r"Not equal|all queries need the same mask"):
            compute()


def test_the_only_key_gets_all_the_weight_without_a_warning():
    np.testing.assert_array_equal(masked_softmax(np.full((1, 1, 3, 1), -7.0, "float32")), np.ones((1, 1, 3, 1)))
    np.testing.assert_array_equal(
        masked_softmax(np.zeros((1, 1, 2, 1), "float32"), np.array([[[[True], [False]]]]))[0, 0, :, 0], [1, 0]
    )


@pytest.mark.parametrize("keys", [1, 5])
def test_the_gradient_of_masked_softmax_equals_that_of_the_formula(keys):
    scores, upstream = tf.constant(numbers(2, 3, 4, keys)), numbers(2, 3, 4, keys, seed=1)
    mask = np.random.default_rng(2).random((2, 1, 4, keys)) < 0.7
    mask[0, 0, 0] = False

    def gradient_of(function):
        with tf.GradientTape() as tape:
            tape.watch(scores)
            weights = function(scores)
        return tape.gradient(weights, scores, upstream)

    def formula(scores):
        powers = tf.exp(scores) * tf.cast(mask, tf.float32)
        return tf.math.divide_no_nan(powers, tf.reduce_sum(powers, -1, keepdims=True))

    expected = gradient_of(formula)
    assert np.abs(expected).max() > 0.1 or keys == 1
    np.testing.assert_allclose(gradient_of(lambda x: masked_softmax(x, mask)), expected, atol=1e-6)
