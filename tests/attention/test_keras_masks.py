"""Masks that Keras keeps of its tensors: what stands under padding changes nothing, however the layers are used."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from qkv.attention import (
    AdditiveAttention,
    CrossAttention,
    MultiHeadAttention,
    SelfAttention,
    causal_mask,
    from_keras,
    padding_mask,
)
from tests.support.layer_contract import assert_close

WIDTH, VOCABULARY = 8, 11
# Padding at the end, at the start and in the middle; B, T and S all differ.
SOURCE = np.array([[7, 2, 5, 0, 0], [0, 3, 9, 1, 4], [6, 0, 8, 0, 2], [1, 2, 3, 4, 5]])
TARGET = np.array([[4, 3, 0], [2, 9, 6], [0, 5, 1], [8, 0, 0]])
INPUTS = {"source": SOURCE, "target": TARGET}

MECHANISMS = {
    "softmax": {},
    "blockwise": {"mechanism": {"class_name": "blockwise", "config": {"block_size": 2}}},
    "one_hot": {"mechanism": "one_hot"},
    "uniform": {"mechanism": "uniform"},
    "last": {"mechanism": "last"},
    "linformer": {"mechanism": {"class_name": "linformer", "config": {"projected_length": 3, "max_length": 5}}},
    "lsh": {"mechanism": {"class_name": "lsh", "config": {"buckets": 2, "chunk_length": 2, "rounds": 2, "seed": 1}}},
}


def multi_head(settings):
    layer = MultiHeadAttention(2, 4, **settings)
    return layer, lambda target, source: layer(target, key=source, value=source)


def cross(settings):
    layer = CrossAttention(2, 4, **settings)
    return layer, layer


def additive(settings):
    layer = AdditiveAttention(4, **settings)
    return layer, lambda target, source: layer(target, key=source, value=source)


def self_of_source(settings):
    layer = SelfAttention(2, 4, **settings)
    return layer, lambda target, source: layer(source)


KINDS = {"multi-head": multi_head, "cross": cross, "additive": additive, "self": self_of_source}
CASES = [
    pytest.param(KINDS[kind], MECHANISMS[name], id=f"{kind} {name}")
    for kind, names in {
        "multi-head": ("softmax", "last"),
        "cross": ("blockwise", "uniform"),
        "additive": ("softmax", "linformer"),
        "self": ("softmax", "one_hot", "lsh"),
    }.items()
    for name in names
]


class Subclassed(keras.Model):
    """Embeds both sides and attends; `call` passes no mask."""

    def __init__(self, layer, attend):
        super().__init__()
        self.source_embedding = keras.layers.Embedding(VOCABULARY, WIDTH, mask_zero=True)
        self.target_embedding = keras.layers.Embedding(VOCABULARY, WIDTH, mask_zero=True)
        self.layer, self.attend = layer, attend
        self.readout = keras.layers.Dense(VOCABULARY)

    def attend_to(self, inputs):
        return self.attend(self.target_embedding(inputs["target"]), self.source_embedding(inputs["source"]))

    def call(self, inputs):
        return self.readout(self.attend_to(inputs)[0])


def functional(layer, attend):
    """A model of `(logits, context, weights)`, and its two embeddings."""
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in ("source", "target")}
    embeddings = {name: keras.layers.Embedding(VOCABULARY, WIDTH, mask_zero=True) for name in inputs}
    context, weights = attend(embeddings["target"](inputs["target"]), embeddings["source"](inputs["source"]))
    logits = keras.layers.Dense(VOCABULARY)(context)
    return keras.Model(inputs, logits), keras.Model(inputs, [context, weights]), list(embeddings.values())


def change_padding(embeddings):
    """Puts other vectors under the padding id."""
    for embedding in embeddings:
        table = embedding.embeddings.numpy()
        table[0] = 10 * np.random.default_rng(3).normal(size=WIDTH)
        embedding.embeddings.assign(table)


def query_ids(layer):
    return SOURCE if isinstance(layer, SelfAttention) else TARGET


def assert_same_at_real_positions(layer, found, expected):
    real = query_ids(layer) != 0
    for one, other in zip(found, expected, strict=True):
        rows = (np.swapaxes(x, 1, -2) if x.ndim == 4 else x for x in (np.array(one), np.array(other)))
        np.testing.assert_array_equal(*(x[real] for x in rows))
    weights = np.array(found[1])
    np.testing.assert_array_equal(np.moveaxis(weights, -1, 1)[SOURCE == 0], 0)
    assert np.abs(np.moveaxis(weights, -1, 1)[SOURCE != 0]).max() > 0.1


@pytest.mark.parametrize(("make", "settings"), CASES)
def test_what_stands_under_padding_changes_nothing_in_a_functional_model(make, settings):
    layer, attend = make(settings)
    _, model, embeddings = functional(layer, attend)
    expected = model(INPUTS)
    change_padding(embeddings)
    assert_same_at_real_positions(layer, model(INPUTS), expected)


@pytest.mark.parametrize(("make", "settings"), CASES)
def test_what_stands_under_padding_changes_nothing_in_a_subclassed_model(make, settings):
    layer, attend = make(settings)
    model = Subclassed(layer, attend)
    expected = model.attend_to(INPUTS)
    change_padding([model.source_embedding, model.target_embedding])
    assert_same_at_real_positions(layer, model.attend_to(INPUTS), expected)


@pytest.mark.parametrize(
    ("kind", "subclassed"), [("multi-head", False), ("cross", True), ("additive", False), ("self", True)]
)
def test_what_stands_under_padding_changes_nothing_that_fit_learns(kind, subclassed):
    keras.utils.set_random_seed(0)
    layer, attend = KINDS[kind]({})
    if subclassed:
        model = Subclassed(layer, attend)
        model(INPUTS)
        model.target_embedding.trainable = kind != "self"  # nothing reads it
        embeddings = [model.source_embedding, model.target_embedding]
    else:
        model, _, embeddings = functional(layer, attend)
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    labels = np.random.default_rng(5).integers(0, VOCABULARY, query_ids(layer).shape)
    start = model.get_weights()

    def learn():
        history = model.fit(INPUTS, labels, batch_size=2, epochs=2, shuffle=False, verbose=0)
        return history.history["loss"], model.get_weights()

    loss, weights = learn()
    assert any(not np.array_equal(old, new) for old, new in zip(start, weights, strict=True))
    model.set_weights(start)
    change_padding(embeddings)
    changed_loss, changed_weights = learn()
    assert loss == changed_loss
    for one, other in zip(weights, changed_weights, strict=True):
        if one.shape == (VOCABULARY, WIDTH):
            one, other = one[1:], other[1:]  # the padding's own vector is what was changed
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("make", "settings"), CASES)
def test_masks_that_keras_finds_equal_the_explicit_one(make, settings):
    layer, attend = make(settings)
    embedding = keras.layers.Embedding(VOCABULARY, WIDTH, mask_zero=True)
    target, source = embedding(TARGET), embedding(SOURCE)
    found = attend(target, source)
    target, source = tf.identity(target), tf.identity(source * (SOURCE != 0)[..., None])
    if isinstance(layer, SelfAttention):
        expected = layer(source, attention_mask=padding_mask(SOURCE))
    elif isinstance(layer, CrossAttention):
        expected = layer(target, source, attention_mask=padding_mask(SOURCE))
    else:
        expected = layer(target, key=source, value=source, attention_mask=padding_mask(SOURCE))
    assert_close(found, expected, 1e-6)


def test_keras_own_layer_gives_the_same_weights():
    embedding = keras.layers.Embedding(VOCABULARY, WIDTH, mask_zero=True)
    target, source = embedding(TARGET), embedding(SOURCE)
    peer = keras.layers.MultiHeadAttention(2, 4)
    peer(target, source)
    layer = from_keras(peer)
    found = layer(embedding(TARGET), embedding(SOURCE))
    expected = peer(embedding(TARGET), embedding(SOURCE), return_attention_scores=True)
    real = TARGET != 0  # Keras hides all keys from padding
    np.testing.assert_allclose(found[0][real], expected[0][real], atol=1e-6)
    rows = [weights.numpy().swapaxes(1, 2)[real] for weights in (found[1], expected[1])]
    np.testing.assert_allclose(*rows, atol=1e-6)
    np.testing.assert_array_equal(found[0]._keras_mask, expected[0]._keras_mask)


@pytest.mark.parametrize("kind", KINDS)
def test_the_mask_of_the_queries_goes_on_with_the_context_and_none_with_the_weights(kind):
    layer, attend = KINDS[kind]({})
    embedding = keras.layers.Embedding(VOCABULARY, WIDTH, mask_zero=True)
    for context, weights in (attend(embedding(TARGET), embedding(SOURCE)), functional(layer, attend)[1].outputs):
        mask = context._keras_mask
        assert getattr(weights, "_keras_mask", None) is None
        assert keras.backend.standardize_dtype(mask.dtype) == "bool"
        if not isinstance(mask, keras.KerasTensor):
            np.testing.assert_array_equal(mask, query_ids(layer) != 0)


def test_an_explicit_mask_and_those_that_keras_finds_are_joined():
    layer = SelfAttention(2, 4)
    embedding = keras.layers.Embedding(VOCABULARY, WIDTH, mask_zero=True)
    context, weights = layer(embedding(SOURCE), attention_mask=causal_mask(5, 5))
    allowed = np.logical_and(causal_mask(5, 5), padding_mask(SOURCE))
    np.testing.assert_array_equal(weights.numpy() > 0, np.broadcast_to(allowed, weights.shape))
    np.testing.assert_array_equal(context._keras_mask, SOURCE != 0)

    layer = CrossAttention(2, 4)
    mask = np.random.default_rng(0).random((4, 2, 3, 5)) < 0.7
    context, weights = layer(embedding(TARGET), embedding(SOURCE), attention_mask=mask)
    np.testing.assert_array_equal(weights.numpy() > 0, np.logical_and(mask, padding_mask(SOURCE)))
    np.testing.assert_array_equal(context._keras_mask, TARGET != 0)


def test_key_and_value_masks_both_hide_keys():
    layer = MultiHeadAttention(2, 4)
    query, memory = np.ones((1, 3, 8), "float32"), np.ones((1, 5, 8), "float32")
    key_mask, value_mask = np.array([[1, 1, 0, 1, 1]], bool), np.array([[1, 1, 1, 1, 0]], bool)
    _, weights = layer(query, key=memory, value=memory, key_mask=key_mask, value_mask=value_mask)
    np.testing.assert_allclose(weights, np.broadcast_to([1 / 3, 1 / 3, 0, 1 / 3, 0], (1, 2, 3, 5)), rtol=1e-6)


def test_masks_given_by_hand_do_what_those_found_by_keras_do():
    x, memory = np.ones((4, 3, 8), "float32"), np.ones((4, 5, 8), "float32")
    for layer, arguments, name in (
        (CrossAttention(2, 4), {"x": x, "memory": memory}, "x"),
        (AdditiveAttention(4), {"query": x, "key": memory, "value": memory}, "query"),
    ):
        key_side = "memory_mask" if name == "x" else "key_mask"
        masks = {f"{name}_mask": tf.constant(TARGET != 0), key_side: SOURCE != 0}
        context, weights = layer(**arguments, **masks)
        np.testing.assert_array_equal(context._keras_mask, TARGET != 0)
        np.testing.assert_array_equal(weights.numpy()[:, 0] > 0, np.repeat((SOURCE != 0)[:, None], 3, 1))


@pytest.mark.parametrize("by_hand", [True, False])
def test_padding_that_a_recurrent_layer_has_read_gets_no_weight(by_hand):
    """Recurrent layers of Keras 3.16 use a mask and warn that they pass none on, unless `supports_masking` is True."""
    encoder = keras.layers.GRU(WIDTH, return_sequences=True)
    encoder.supports_masking = not by_hand
    with warnings.catch_warnings(action="ignore" if by_hand else "error"):
        memory = encoder(keras.layers.Embedding(VOCABULARY, WIDTH, mask_zero=True)(SOURCE))
    masks = {"memory_mask": SOURCE != 0} if by_hand else {}
    _, weights = CrossAttention(2, 4)(np.ones((4, 3, WIDTH), "float32"), memory, **masks)
    np.testing.assert_array_equal(weights.numpy()[:, 1] > 0, np.repeat((SOURCE != 0)[:, None], 3, 1))


@pytest.mark.parametrize("mechanism", ["softmax", "lsh"])
def test_not_even_infinite_numbers_under_padding_reach_self_attention(mechanism):
    x = np.random.default_rng(0).normal(size=(4, 5, 8)).astype("float32")
    layer = SelfAttention(2, 4, **MECHANISMS[mechanism])
    expected, _ = layer(x, x_mask=SOURCE != 0)
    x[SOURCE == 0] = np.nan
    np.testing.assert_array_equal(layer(x, x_mask=SOURCE != 0)[0], expected)


@pytest.mark.parametrize("layer", [SelfAttention(2, 4), CrossAttention(2, 4), MultiHeadAttention(2, 4)])
def test_masks_of_other_axes_are_refused_because_they_could_mean_two_things(layer):
    x = np.ones((3, 3, 8), "float32")
    names = {"SelfAttention": {}, "CrossAttention": {"memory": x}, "MultiHeadAttention": {"key": x, "value": x}}
    arguments = names[type(layer).__name__]
    with pytest.raises(ValueError, match=r"attention_mask: expected 4 axes.*found shape \(3, 3\)"):
        layer(x, **arguments, attention_mask=np.ones((3, 3), bool))
    with pytest.raises(ValueError, match=r"mask: expected 2 axes.*found shape \(1, 1, 3, 3\); attention_mask has 4"):
        layer(x, **arguments, mask=causal_mask(3, 3))
