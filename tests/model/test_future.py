"""The future is unseen: no later target token bears on a prediction, whichever path computes it."""

import numpy as np
import pytest
import tensorflow as tf

from pipeline.attention.scores import SCORES
from tests.tiny_transformer import SOURCE, shared_transformer

T = 5
TARGET = np.array([[2, 7, 10, 13, 5], [2, 4, 8, 12, 9], [2, 16, 15, 6, 14]], "int32")


def full(model, source, target, training=None):
    output = model.decode(target, model.encode(source, training=training), training=training)
    return output.logits, tf.stack(output.decoder_self), tf.stack(output.cross)


def in_one_cached_step(model, source, target):
    memory = model.encode(source)
    output = model.decode(target, memory, model.start_cache(memory, T + 2))
    return output.logits, tf.stack(output.decoder_self), tf.stack(output.cross)


def token_by_token(model, source, target):
    memory = model.encode(source)
    cache, steps = model.start_cache(memory, T), []
    for t in range(T):
        output = model.decode(target[:, t : t + 1], memory, cache)
        cache = output.cache
        steps.append((output.logits, tf.stack(output.decoder_self), tf.stack(output.cross)))
    logits, own, cross = zip(*steps, strict=True)
    return tf.concat(logits, 1), tf.concat(own, 3), tf.concat(cross, 3)


def in_graph(jit_compile, function):
    def path(model, source, target):
        compiled = tf.function(lambda s, t: function(model, s, t), jit_compile=jit_compile)
        return compiled(tf.constant(source), tf.constant(target))

    return path


PATHS = {
    "eager": full,
    "training": lambda model, source, target: full(model, source, target, training=True),
    "call": lambda model, source, target: (model(source, target),),
    "graph": in_graph(False, full),
    "graph without weights": in_graph(False, lambda model, source, target: full(model, source, target)[:1]),
    "graph of training": in_graph(False, lambda model, source, target: full(model, source, target, True)),
    "compiled": in_graph(True, full),
    "one cached step": in_one_cached_step,
    "cached steps": token_by_token,
    "compiled cached steps": in_graph(True, token_by_token),
}


@pytest.mark.parametrize("path", [pytest.param(path, id=name) for name, path in PATHS.items()])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_later_tokens_change_nothing_before_them(path, norm):
    model = shared_transformer(norm=norm)
    before = [np.array(x) for x in path(model, SOURCE, TARGET)]
    for first in (1, 3):
        other = TARGET.copy()
        other[:, first:] = (other[:, first:] + 5) % 13 + 4
        after = [np.array(x) for x in path(model, SOURCE, other)]
        for axis, one, two in zip((1, 3, 3), before, after, strict=False):
            rows = np.arange(first)
            np.testing.assert_array_equal(np.take(one, rows, axis), np.take(two, rows, axis))
            assert np.abs(np.take(one, [first], axis) - np.take(two, [first], axis)).max() > 1e-4


@pytest.mark.parametrize("path", [pytest.param(PATHS[name], id=name) for name in PATHS if "without" not in name])
def test_later_positions_get_weights_of_exactly_zero(path):
    outputs = path(shared_transformer(), SOURCE, TARGET)
    if len(outputs) > 1:
        weights = np.array(outputs[1])
        later = np.triu(np.ones((T, weights.shape[-1]), bool), 1)
        assert (weights[..., later] == 0).all()
        assert (weights[..., ~later] > 0).all()


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_no_gradient_flows_from_a_prediction_to_later_tokens(score, norm):
    model = shared_transformer(norm=norm, decoder_self_score=score, cross_score=score, tie_embeddings="none")
    row = TARGET[:1]  # every token once, so that rows of the table stand for positions
    for t in range(T):
        with tf.GradientTape() as tape:
            total = tf.reduce_sum(model(SOURCE[:1], row, training=True)[:, t] ** 2)
        table = tf.convert_to_tensor(tape.gradient(total, model.target_embedding.table.value)).numpy()
        sizes = np.abs(table[row[0]]).max(-1)
        assert (sizes[: t + 1] > 0).all()
        assert (sizes[t + 1 :] == 0).all()
