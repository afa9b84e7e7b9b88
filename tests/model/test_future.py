"""The future is unseen: no later target token bears on a prediction, whichever path computes it."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from tests.support.tiny_models import SOURCE, shared_transformer

T = 5
TARGET = np.array([[2, 7, 10, 13, 5], [2, 4, 8, 12, 9], [2, 16, 15, 6, 14]], "int32")


def full(model, source, target, training=None):
    output = model.decode(target, model.encode(source, training=training), training=training)
    return output.logits, tf.stack(output.decoder_self), tf.stack(output.cross)


def in_one_cached_step(model, source, target):
    memory = model.encode(source)
    output = model.decode(target, memory, model.start_cache(memory))
    return output.logits, tf.stack(output.decoder_self), tf.stack(output.cross)


def token_by_token(model, source, target):
    """One position after another."""
    memory = model.encode(source)
    cache, steps = model.start_cache(memory), []
    for t in range(T):
        output = model.decode(tf.constant(target[:, t : t + 1]), memory, cache)
        cache = output.cache
        own = tf.pad(tf.stack(output.decoder_self), ((0, 0),) * 4 + ((0, T - t - 1),))
        steps.append((output.logits, own, tf.stack(output.cross)))
    logits, own, cross = zip(*steps, strict=True)
    return tf.concat(logits, 1), tf.concat(own, 3), tf.concat(cross, 3)


def in_graph(function, jit_compile=False):
    """The same path as a graph; one graph for all targets of a model."""
    graph_of = functools.cache(
        lambda model: tf.function(lambda source, target: function(model, source, target), jit_compile=jit_compile)
    )
    return lambda model, source, target: graph_of(model)(tf.constant(source), tf.constant(target))


PATHS = {
    "eager": full,
    "training": lambda model, source, target: full(model, source, target, training=True),
    "call": lambda model, source, target: (model(source, target),),
    "graph": in_graph(full),
    "graph of training": in_graph(lambda model, source, target: full(model, source, target, True)[:1]),
    "compiled": in_graph(full, jit_compile=True),
    "one cached step": in_one_cached_step,
    "cached steps": token_by_token,
}


@pytest.mark.parametrize("path", [pytest.param(path, id=name) for name, path in PATHS.items()])
def test_later_tokens_change_nothing_before_them_and_get_weights_of_exactly_zero(path):
    model = shared_transformer()
    before = [np.array(x) for x in path(model, SOURCE, TARGET)]
    for first in (1, 3):
        other = TARGET.copy()
        other[:, first:] = (other[:, first:] + 5) % 13 + 4
        after = [np.array(x) for x in path(model, SOURCE, other)]
        for axis, one, two in zip((1, 3, 3), before, after, strict=False):
            rows = np.arange(first)
            np.testing.assert_array_equal(np.take(one, rows, axis), np.take(two, rows, axis))
            assert np.abs(np.take(one, [first], axis) - np.take(two, [first], axis)).max() > 1e-4
    for weights in before[1:2]:
        later = np.triu(np.ones((T, weights.shape[-1]), bool), 1)
        assert (weights[..., later] == 0).all()
        assert (weights[..., ~later] > 0).all()


@pytest.mark.parametrize("score", ["scaled_dot", "additive"])
def test_no_gradient_flows_from_a_prediction_to_later_tokens(score):
    model = shared_transformer(decoder_self={"score": score}, cross={"score": score}, tie_embeddings="none")
    row = TARGET[:1]  # every token once, so that rows of the table stand for positions
    with tf.GradientTape(persistent=True) as tape:
        logits = model(SOURCE[:1], row, training=True)
        totals = {t: tf.reduce_sum(logits[:, t] ** 2) for t in (0, 3)}
    for t, total in totals.items():
        table = tf.convert_to_tensor(tape.gradient(total, model.target_embedding.table.value)).numpy()
        sizes = np.abs(table[row[0]]).max(-1)
        assert (sizes[: t + 1] > 0).all()
        assert (sizes[t + 1 :] == 0).all()
