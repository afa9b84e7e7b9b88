"""The recurrent model computes the papers' formulas, and seq2seq is the case of attention to the last state alone."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from qkv.model.recurrent import Recurrent
from tests.support import oracles
from tests.support.tiny_models import RECURRENT, SOURCE, TARGET, shared_model

SETTINGS = RECURRENT | {"hidden_dim": 6, "attention_dim": 5}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gru_step(weights, x, h):
    """Cho et al. 2014, equations 5 to 8, with the biases and the order of gates (z, r, h) that Keras has."""
    kernel, recurrent, bias = weights
    n = len(h)
    z = sigmoid(x @ kernel[:, :n] + h @ recurrent[:, :n] + bias[:n])
    r = sigmoid(x @ kernel[:, n : 2 * n] + h @ recurrent[:, n : 2 * n] + bias[n : 2 * n])
    candidate = np.tanh(x @ kernel[:, 2 * n :] + (r * h) @ recurrent[:, 2 * n :] + bias[2 * n :])
    return z * h + (1 - z) * candidate


def embedded(embedding, ids):
    return embedding.table.numpy().astype("float64")[ids] * np.sqrt(embedding.width)


def gru_states(weights, rows, size):
    h = np.zeros(size)
    return [h := gru_step(weights, row, h) for row in rows]


def encoder_by_formula(model, source):
    """States of one sentence `(S, 2 N)` and the decoder's first state; `source` has no padding."""
    x, n = embedded(model.source_embedding, source), model.get_config()["hidden_dim"]
    forward = gru_states(model.forward_encoder.get_weights(), x, n)
    backward = gru_states(model.backward_encoder.get_weights(), x[::-1], n)[::-1]
    kernel, bias = model.bridge.get_weights()
    return np.concatenate([forward, backward], -1), np.tanh(backward[0] @ kernel + bias)


def context_by_formula(model, query, states):
    """Context and weights, by the score function's own formula, one key at a time."""
    name = model.get_config()["cross_attention"]
    layer = model.attention
    own = {variable.name: variable.numpy()[0] for variable in layer.score.variables}
    keys = states
    if name in ("additive", "dot", "scaled_dot", "cosine"):
        query = query @ layer.query_projection.get_weights()[0]
        keys = states @ layer.key_projection.get_weights()[0]
    weights = oracles.softmax([oracles.FORMULAS[name](query, key, **own) for key in keys])
    return weights @ states, weights


def model_by_formula(model, source, target):
    """Logits `(T, V)` and weights `(T, S)` of one sentence pair without padding."""
    states, s = encoder_by_formula(model, source)
    decoder, logits, rows = model.decoder, [], []
    output = np.zeros(model.get_config()["embedding_dim"])
    for y in embedded(model.target_embedding, target):
        if model.get_config()["decoder"] == "bahdanau":
            context, weights = context_by_formula(model, s, states)
            s = gru_step(decoder.cell.get_weights(), np.concatenate([y, context]), s)
            kernel, bias = decoder.deep_output.get_weights()
            both = np.concatenate([s, y, context]) @ kernel + bias
            output = both.reshape(2, -1).max(0)
        else:
            x = np.concatenate([y, output]) if model.get_config()["input_feeding"] else y
            s = gru_step(decoder.cell.get_weights(), x, s)
            context, weights = context_by_formula(model, s, states)
            output = np.tanh(np.concatenate([context, s]) @ decoder.attentional.get_weights()[0])
        logits.append(output @ model.output_embedding.table.numpy().T)
        rows.append(weights)
    return np.array(logits), np.array(rows)


@pytest.mark.parametrize(
    ("score", "decoder", "input_feeding"),
    [
        ("additive", "bahdanau", False),
        ("general", "bahdanau", False),
        ("dot", "luong", False),
        ("concat", "luong", True),
        ("scaled_dot", "luong", True),
        ("cosine", "luong", False),
    ],
)
def test_logits_and_weights_equal_the_papers_formula(score, decoder, input_feeding):
    settings = {"decoder": decoder, "cross_attention": score} | ({"input_feeding": True} if input_feeding else {})
    model = shared_model(Recurrent, **SETTINGS | settings)
    source, target = SOURCE[2], TARGET[0]
    output = model.decode(target[None], model.encode(source[None]))
    logits, weights = model_by_formula(model, source, target)
    np.testing.assert_allclose(output.logits[0], logits, atol=1e-4)
    np.testing.assert_allclose(output.cross[0][0, 0], weights, atol=1e-5)


def test_keys_are_projected_once_whatever_the_number_of_steps():
    model = shared_model(Recurrent, **SETTINGS)
    ids = tf.TensorSpec([2, 7], tf.int32)
    graph = tf.function(lambda source, target: model(source, target)).get_concrete_function(ids, ids)
    kernel = model.attention.key_projection.kernel.value.handle
    readers = [op for op in graph.graph.get_operations() if op.type == "ReadVariableOp"]
    captured = {id(outside): inside for outside, inside in graph.graph.captures}
    assert sum(op.inputs[0] is captured[id(kernel)] for op in readers) == 1  # outside of the loop, which reads none


@pytest.mark.parametrize("decoder", ["bahdanau", "luong"])
def test_attention_to_the_last_state_has_all_weight_at_the_last_token(decoder):
    model = shared_model(Recurrent, **SETTINGS | {"cross_attention": "last", "decoder": decoder})
    output = model.decode(TARGET, model.encode(SOURCE))
    lengths = (SOURCE != 0).sum(1)
    np.testing.assert_array_equal(output.cross[0], np.eye(7)[lengths - 1][:, None, None].repeat(5, 2))


def test_without_attention_there_are_no_weights_to_show():
    model = shared_model(Recurrent, **SETTINGS | {"cross_attention": "none"})
    memory = model.encode(SOURCE)
    assert model.decode(TARGET, memory).cross == ()
    assert "keys" not in memory.prepared


def test_the_first_state_comes_from_the_encoder_that_has_read_the_whole_source():
    model = shared_model(Recurrent, **SETTINGS)
    memory = model.encode(SOURCE)
    np.testing.assert_allclose(memory.prepared["start"], model.bridge(memory.states[:, 0, -6:]), atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"decoder": "cho"}, "decoder: expected one of bahdanau, luong, found 'cho'"),
        ({"cross_attention": "euclid"}, "score.*found 'euclid'"),
        ({"tie_embeddings": "both"}, "tie_embeddings.*found 'both'"),
    ],
)
def test_a_setting_that_does_not_exist_is_refused_with_what_was_found(settings, message):
    with pytest.raises(ValueError, match=message):
        Recurrent(**SETTINGS | settings)


def test_a_gru_that_passes_no_masks_on_is_handed_one_without_a_warning(monkeypatch):
    """Keras 3.16 makes every recurrent layer say so, and warns of a mask that such a layer is handed, even of one that
    the layer obeys; warnings are errors here."""
    made = keras.layers.GRU.__init__

    def as_in_keras_3_16(gru, *arguments, **settings):
        made(gru, *arguments, **settings)
        gru.supports_masking = False

    monkeypatch.setattr(keras.layers.GRU, "__init__", as_in_keras_3_16)
    model = Recurrent(vocabulary_size=20, embedding_dim=8, hidden_dim=6, attention_dim=4, dropout=0.0)
    model.build()
    short, padded = np.array([[5, 6, 3]]), np.array([[5, 6, 3, 0, 0]])
    expected, found = (model.encode(ids).states.numpy()[:, :3] for ids in (short, padded))
    np.testing.assert_allclose(found, expected, atol=1e-6)
