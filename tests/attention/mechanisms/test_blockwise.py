"""Blockwise attention is softmax attention to the last digits, and holds no matrix of all pairs."""

import functools
import gc
import weakref
from functools import partial

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from qkv.attention.additive import AdditiveAttention
from qkv.attention.cross_attention import CrossAttention
from qkv.attention.masks import causal_mask
from qkv.attention.mechanisms import blockwise as tiles
from qkv.attention.mechanisms.blockwise import Blockwise
from qkv.attention.mechanisms.softmax import Softmax
from qkv.attention.multi_head import MultiHeadAttention
from qkv.attention.scores import SCORE_CLASSES, Additive, Concat, DotProduct
from qkv.attention.self_attention import SelfAttention
from tests.support.layer_contract import arrays, assert_close, stir

B, H, T, S, K, V = 2, 2, 5, 7, 4, 3
OWN_SCORES = {"additive": Additive(use_bias=True), "concat": Concat(units=3)}


def draw(*shapes, seed=0):
    generator = np.random.default_rng(seed)
    return [tf.constant(generator.normal(size=shape), tf.float32) for shape in shapes]


def inputs(batch=B, heads=H, rows=T, columns=S, size=K, width=V, seed=0):
    shapes = [(batch, heads, rows, size), (batch, heads, columns, size), (batch, heads, columns, width)]
    return draw(*shapes, seed=seed)


def random_mask(*shape, seed=1):
    return np.random.default_rng(seed).random(shape) < 0.6


def rows_without_keys():
    mask = random_mask(B, H, T, S)
    mask[:, :, 1] = False
    mask[1, 0] = False
    return mask


MASKS = {
    "none": None,
    "padding": np.arange(S) < np.array([4, S])[:, None, None, None],
    "causal": np.asarray(causal_mask(T, S, offset=S - T)),
    "random": random_mask(B, 1, T, S),
    "one row for all": random_mask(1, 1, 1, S),
    "each head": random_mask(1, H, T, S),
    "rows without keys": rows_without_keys(),
}


def make_two(score, block_size, arguments, **kwargs):
    """Softmax and blockwise attention with the same weights."""
    settings = {"score": OWN_SCORES.get(score, score)}
    expected, found = Softmax(**settings), Blockwise(block_size, **settings, **kwargs)
    for mechanism in (expected, found):
        mechanism(*arguments)
    found.set_weights(stir(expected).get_weights())
    return expected, found


def outputs_and_gradients(mechanism, query, key, value, mask=None):
    """Context, weights, and the gradients by inputs and by all that is learnt of a function of both."""
    sources = [query, key, value, *(variable.value for variable in mechanism.trainable_variables)]
    with tf.GradientTape() as tape:
        tape.watch(sources)
        outputs = mechanism(query, key, value, mask=mask)
        total = sum(tf.reduce_sum(tf.sin(x + 1) * tf.cast(tf.range(tf.shape(x)[-1]), x.dtype)) for x in outputs)
    return *outputs, *tape.gradient(total, sources, unconnected_gradients="zero")


@functools.cache
def graphs():
    """Softmax, and what `outputs_and_gradients` is of blockwise attention, as a graph for any batch and lengths."""
    expected, found = make_two("additive", 3, inputs())
    free = [tf.TensorSpec((None, H, None, size)) for size in (K, K, V)]
    signature = [*free, tf.TensorSpec((None, None, None, None), tf.bool)]
    return expected, tf.function(partial(outputs_and_gradients, found), input_signature=signature)


# Blocks that divide nothing with every score; of one position each, and of all, with one score of each of the two kinds
# of comparison.
@pytest.mark.parametrize(
    ("score", "block_size", "rows", "columns"),
    [(score, 3, T, S) for score in SCORE_CLASSES] + [("additive", 1, 2, 3), ("general", 64, T, S)],
)
def test_context_weights_and_gradients_equal_those_of_softmax(score, block_size, rows, columns):
    arguments = inputs(rows=rows, columns=columns)
    expected, found = make_two(score, block_size, arguments)
    for mask in (None, MASKS["rows without keys"][:, :, :rows, :columns]):
        assert_close(
            outputs_and_gradients(found, *arguments, mask), outputs_and_gradients(expected, *arguments, mask), 1e-5
        )


@pytest.mark.parametrize("mask", MASKS)
def test_blockwise_in_a_graph_of_unknown_lengths_equals_softmax_with_every_mask(mask):
    expected, graph = graphs()
    mask = np.ones((1, 1, 1, S), bool) if MASKS[mask] is None else MASKS[mask]
    assert_close(graph(*inputs(), mask), outputs_and_gradients(expected, *inputs(), mask), 1e-5)


@pytest.mark.minutes
def test_blockwise_compiled_by_xla_equals_softmax():
    expected, found = make_two("scaled_dot", 3, inputs())
    compiled = tf.function(partial(outputs_and_gradients, found), jit_compile=True)
    arguments = *inputs(), MASKS["rows without keys"]
    assert_close(compiled(*arguments), outputs_and_gradients(expected, *arguments), 1e-5)


@pytest.mark.parametrize("score", ["scaled_dot", "additive"])
def test_very_small_blocks_give_the_same_results(score, monkeypatch):
    arguments = *inputs(), MASKS["random"]
    expected, found = make_two(score, 4, arguments[:3])
    whole = outputs_and_gradients(expected, *arguments)
    monkeypatch.setattr(tiles, "NUMBERS_A_BLOCK", 100)  # fewer than block_size asks for, and no square
    assert_close(outputs_and_gradients(found, *arguments), whole, 1e-5)


@settings(max_examples=30)
@given(
    sizes=st.tuples(*[st.integers(1, n) for n in (3, 13, 13)]),
    axes=st.tuples(*[st.booleans()] * 3),
    seed=st.integers(0, 99),
)
def test_any_sizes_and_masks_give_what_softmax_gives(sizes, axes, seed):
    batch, rows, columns = sizes
    shape = [size if axis else 1 for axis, size in zip(axes, (batch, H, rows), strict=True)]
    arguments = *inputs(batch, rows=rows, columns=columns, seed=seed), random_mask(*shape, columns, seed=seed)
    expected, graph = graphs()
    assert_close(graph(*arguments), outputs_and_gradients(expected, *arguments), 2e-5)


def paired(layer, other, arguments, **kwargs):
    """Two layers' outputs, once both have the same weights."""
    layer(**arguments), other(**arguments)
    other.set_weights(stir(layer).get_weights())
    return layer(**arguments, **kwargs), other(**arguments, **kwargs)


@pytest.mark.parametrize(
    ("make", "lengths"),
    [
        (partial(MultiHeadAttention, 2, 4, value_dim=3), {"query": T, "key": S, "value": S}),
        (partial(SelfAttention, 2, 4, score="cosine"), {"x": S}),
        (partial(CrossAttention, 2, 4, score="general"), {"x": T, "memory": S}),
        (partial(AdditiveAttention, 4, use_bias=True), {"query": T, "key": S, "value": S}),
    ],
)
def test_every_attention_layer_can_use_blockwise(make, lengths):
    arguments = dict(zip(lengths, draw(*[(B, length, 6) for length in lengths.values()]), strict=True))
    mask = random_mask(B, 1, next(iter(lengths.values())), S)
    settings = {"mechanism": {"class_name": "blockwise", "config": {"block_size": 2}}}
    expected, found = paired(make(), make(**settings), arguments, attention_mask=mask)
    assert_close(found, expected, 1e-5)


def test_steps_over_cached_keys_give_what_all_queries_give_at_once():
    x = draw((B, S, 6))[0]
    layer = SelfAttention(2, 4, mechanism={"class_name": "blockwise", "config": {"block_size": 2}})
    context, weights = layer(x, attention_mask=causal_mask(S, S))
    query, key, value = layer.project(x)
    for t in range(S):
        one = layer.attend(query[:, :, t : t + 1], key, value, mask=causal_mask(1, S, offset=t))
        assert_close(one, (context[:, t : t + 1], weights[:, :, t : t + 1]), 1e-6)


def test_scores_of_ten_thousand_stay_finite_and_choose_the_highest():
    query, key, value = inputs()
    query = query * 1e4
    mechanism = Blockwise(block_size=2, score="dot")
    context, weights, *gradients = outputs_and_gradients(mechanism, query, key, value)
    assert np.abs(tf.matmul(query, key, transpose_b=True)).max() > 1e4
    assert all(np.isfinite(x).all() for x in arrays([context, weights, gradients]))
    chosen = tf.gather(value, tf.argmax(weights, -1), axis=2, batch_dims=2)
    np.testing.assert_allclose(context, chosen, atol=1e-5)


def test_scores_that_rise_and_fall_from_block_to_block_keep_their_proportions():
    scores = np.float32([[[[-300, 5, 90, 89, -80, 88, 300, 299]]]])
    value = np.eye(8, dtype="float32")[None, None]
    key = np.moveaxis(scores, 2, 3)
    for order in (slice(None), slice(None, None, -1)):
        context, _ = Blockwise(block_size=1, score="dot")(np.ones((1, 1, 1, 1), "float32"), key[:, :, order], value)
        expected = np.exp(scores[0, 0, 0, order].astype("float64") - 300)
        np.testing.assert_allclose(context[0, 0, 0], expected / expected.sum(), rtol=1e-5, atol=1e-30)


@pytest.mark.parametrize("score", ["additive", "cosine"])
def test_blockwise_in_half_precision_is_close_to_full_precision(score):
    arguments = inputs()
    expected, found = make_two(score, 2, arguments, dtype="mixed_bfloat16")
    context, weights = found(*arguments, mask=MASKS["random"])
    assert (context.dtype, weights.dtype) == (tf.bfloat16, tf.float32)
    assert_close((context, weights), expected(*arguments, mask=MASKS["random"]), 0.03)
    assert all(variable.dtype == "float32" for variable in found.trainable_variables)


def test_half_precision_sums_over_a_thousand_keys_without_losing_any():
    query, key, value = tf.zeros((1, 1, 1, 2)), tf.zeros((1, 1, 999, 2)), tf.ones((1, 1, 999, 1))
    context, _ = Blockwise(block_size=8, dtype="mixed_bfloat16")(query, key, value)
    assert float(context[0, 0, 0, 0]) == 1  # a sum of ones in bfloat16 ends at 256


def needed(graph, outputs):
    """The operations of a graph that its outputs are computed from."""
    found, open_ = set(), [output.op for output in outputs]
    while open_:
        operation = open_.pop()
        if operation not in found:
            found.add(operation)
            open_ += [x.op for x in operation.inputs] + list(operation.control_inputs)
    # Nothing else runs, because nothing else has an effect.
    assert not [x.name for x in set(graph.get_operations()) - found if x.op_def.is_stateful and x.type != "Placeholder"]
    return found


def shapes_held(function, *arguments):
    """The shapes of all tensors that a call of a graph computes, those in the bodies of loops included."""
    concrete = tf.function(function, autograph=False).get_concrete_function(*arguments)
    operations = needed(concrete.graph, concrete.outputs)
    shapes = [tuple(x.shape) for operation in operations for x in operation.outputs if x.shape.rank is not None]
    used, definitions = set(), {f.signature.name: f for f in concrete.graph.as_graph_def(True).library.function}
    waiting = [operation.node_def for operation in operations]
    while waiting:
        node = waiting.pop()
        for name in [attribute.func.name for attribute in node.attr.values() if attribute.func.name in definitions]:
            if name not in used:
                used.add(name)
                waiting += definitions[name].node_def
    for node in [node for name in used for node in definitions[name].node_def]:
        listed = node.attr["_output_shapes"].list.shape
        shapes += [tuple(axis.size for axis in shape.dim) for shape in listed if not shape.unknown_rank]
    return shapes


@pytest.mark.minutes
@pytest.mark.parametrize("score", ["scaled_dot", "additive"])
def test_no_matrix_of_all_pairs_is_held_when_nobody_reads_the_weights(score, monkeypatch):
    rows, columns, size = 61, 53, 19  # primes, so that no other product or size is one of them
    monkeypatch.setattr(tiles, "NUMBERS_A_BLOCK", 2 * 2 * size * 11 * 11)
    arguments = inputs(rows=rows, columns=columns, size=size)
    expected, found = make_two(score, 13, arguments)

    def gradients(mechanism, *arguments):
        sources = [*arguments, *(variable.value for variable in mechanism.trainable_variables)]
        with tf.GradientTape() as tape:
            tape.watch(sources)
            total = tf.reduce_sum(mechanism(*arguments)[0] ** 2)
        return tape.gradient(total, sources)

    def of_all_pairs(function, mechanism):
        shapes = shapes_held(partial(function, mechanism), *arguments)
        return [shape for shape in shapes if {rows, columns} <= set(shape)], shapes

    assert of_all_pairs(gradients, expected)[0]
    assert of_all_pairs(outputs_and_gradients, found)[0]  # the weights, where they are read
    offending, shapes = of_all_pairs(gradients, found)
    assert not offending
    largest = max(np.prod(shape) for shape in shapes if None not in shape and -1 not in shape)
    assert largest <= max(tiles.NUMBERS_A_BLOCK, 2 * 2 * 65 * size)
    if score == "additive":
        of_read_weights = of_all_pairs(outputs_and_gradients, found)[1]
        assert not [shape for shape in of_read_weights if {rows, columns, size} <= set(shape)]


def test_eagerly_no_block_is_kept_for_the_gradient(monkeypatch):
    compared = []

    def compare(query, key):
        scores = tf.matmul(query, key, transpose_b=True)
        compared.append(weakref.ref(scores))
        return scores, lambda upstream: (tf.matmul(upstream, key), tf.matmul(upstream, query, transpose_a=True))

    monkeypatch.setattr(DotProduct, "compare", compare)
    arguments = inputs()
    for mechanism, kept in ((Softmax(), 1), (Blockwise(4), 1)):  # the matrix that the weights are made of
        compared.clear()
        with tf.GradientTape() as tape:
            tape.watch(arguments)
            mechanism(*arguments)
            gc.collect()
            assert sum(scores() is not None for scores in compared) == kept


def test_in_a_graph_an_empty_batch_has_empty_results_and_gradients():
    results = graphs()[1](*inputs(batch=0), np.ones((1, 1, 1, S), bool))
    shapes = [tuple(x.shape) for x in results[:5]]
    assert shapes == [(0, H, T, V), (0, H, T, S), (0, H, T, K), (0, H, S, K), (0, H, S, V)]


def test_dropout_is_refused():
    with pytest.raises(ValueError, match=r"dropout: blockwise has no weights to drop: .*found 0\.1"):
        MultiHeadAttention(2, 4, mechanism="blockwise", dropout=0.1)


def test_what_does_not_fit_is_refused_with_what_was_found():
    with pytest.raises(ValueError, match=r"block_size.*found 0"):
        Blockwise(block_size=0)
