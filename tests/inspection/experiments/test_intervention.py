"""One head's weights replaced: each change against a loop, nothing else touched, and the layers as they were after."""

import numpy as np
import pytest
import tensorflow as tf

from qkv.inspection.experiments.intervention import (
    CHANGES,
    UNCHANGED,
    Intervention,
    intervene,
    one_head,
    permuted,
    uniform,
    without_top,
)
from tests.support.tiny_models import SOURCE, TARGET, make_transformer, shared_transformer

ALLOWED = np.array([[1, 1, 1, 1, 0], [1, 0, 1, 0, 0], [0, 0, 1, 0, 0]], bool)[None, None]
WEIGHTS = np.array([[0.1, 0.5, 0.3, 0.1, 0], [0.25, 0, 0.75, 0, 0], [0, 0, 1, 0, 0]], np.float32)[None, None]


def test_uniform_weights_are_equal_over_allowed_keys():
    expected = [[0.25] * 4 + [0], [0.5, 0, 0.5, 0, 0], [0, 0, 1, 0, 0]]
    np.testing.assert_allclose(uniform(WEIGHTS, ALLOWED)[0, 0], expected)


def test_without_top_scales_up_the_other_weights():
    expected = [[0.2, 0, 0.6, 0.2, 0], [1, 0, 0, 0, 0], [0, 0, 1, 0, 0]]
    np.testing.assert_allclose(without_top(WEIGHTS, ALLOWED)[0, 0], expected, atol=1e-6)
    one_hot = np.eye(5, dtype=np.float32)[None, None, 1:2]
    np.testing.assert_allclose(without_top(one_hot, ALLOWED[:, :, :1])[0, 0, 0], [1 / 3, 0, 1 / 3, 1 / 3, 0], atol=1e-6)


def test_permuted_weights_stay_on_allowed_keys():
    generator = np.random.default_rng(0)
    allowed = generator.random((3, 2, 7, 9)) < 0.6
    weights = np.where(allowed, generator.random(allowed.shape), 0).astype("float32")
    found = permuted(weights, allowed, seed=1).numpy()
    assert not found[~allowed].any()
    np.testing.assert_array_equal(np.sort(found, axis=-1), np.sort(weights, axis=-1))
    assert np.mean(found[allowed] != weights[allowed]) > 0.5
    np.testing.assert_array_equal(permuted(weights, allowed, seed=1), found)
    assert np.any(permuted(weights, allowed, seed=2).numpy() != found)
    np.testing.assert_array_equal(permuted(WEIGHTS, ALLOWED)[0, 0, 2], WEIGHTS[0, 0, 2])


def read(model, layer=-1, head=0, change=0):
    layers = [block.cross_attention for block in model.decoder_blocks]
    with intervene(layers, Intervention(one_head(len(layers), layers[0].num_heads, layer, head, change))):
        return model.decode(TARGET, model.encode(SOURCE))


@pytest.mark.parametrize("change", range(len(CHANGES)))
def test_only_the_chosen_head_has_other_weights(change):
    model = shared_transformer(decoder_layers=2)
    usual, found = read(model), read(model, 1, 0, change)
    mask = np.broadcast_to((SOURCE != 0)[:, None], usual.cross[1][:, 0].shape)
    expected = list(CHANGES.values())[change](usual.cross[1], np.repeat(mask[:, None], 2, axis=1))[:, 0]
    np.testing.assert_allclose(found.cross[1][:, 0], expected, atol=1e-6)
    np.testing.assert_allclose(found.cross[1][:, 1], usual.cross[1][:, 1], atol=1e-6)
    np.testing.assert_allclose(found.cross[0], usual.cross[0], atol=1e-6)
    assert np.abs(found.logits - usual.logits).max() > 1e-3


def test_layer_minus_one_changes_nothing_and_the_layers_are_restored_after_the_block():
    model = shared_transformer(decoder_layers=2)
    expected = model.decode(TARGET, model.encode(SOURCE)).logits
    np.testing.assert_array_equal(read(model).logits, expected)
    with pytest.raises(KeyError), intervene([model.decoder_blocks[0].cross_attention], Intervention([[0, 0]])):
        raise KeyError
    np.testing.assert_array_equal(model.decode(TARGET, model.encode(SOURCE)).logits, expected)


def test_the_order_of_a_permutation_depends_on_the_allowed_keys_alone():
    generator = np.random.default_rng(0)
    weights = generator.random((1, 2, 4, 9)).astype("float32")
    found = permuted(weights, np.ones_like(weights, bool))
    np.testing.assert_array_equal(permuted(weights[:, :, 2:3], np.ones((1, 2, 1, 9), bool)), found[:, :, 2:3])
    padded = np.pad(weights, [(0, 0)] * 3 + [(0, 7)])
    allowed = np.broadcast_to(np.arange(16) < 9, padded.shape)
    np.testing.assert_array_equal(permuted(padded, allowed)[..., :9], found)


def test_a_zeroed_head_adds_nothing():
    model = shared_transformer(decoder_layers=2)
    attention = model.decoder_blocks[1].cross_attention
    found = read(model, 1, 0, list(CHANGES).index("zeroed"))
    kernel = attention.output_projection.kernel
    before = kernel.numpy()
    try:
        kernel.assign(np.where(np.arange(len(before))[:, None] < attention.value_dim, 0, before))
        expected = read(model)
    finally:
        kernel.assign(before)
    np.testing.assert_allclose(found.logits, expected.logits, atol=1e-5)
    assert not np.any(found.cross[1][:, 0])


def test_several_heads_are_changed_at_once():
    model = shared_transformer(decoder_layers=2)
    layers = [block.cross_attention for block in model.decoder_blocks]
    usual = read(model)
    with intervene(layers, Intervention(np.array([[0, UNCHANGED], [UNCHANGED, 1]]))):
        found = model.decode(TARGET, model.encode(SOURCE))
    assert not np.any(found.cross[0][:, 0])
    np.testing.assert_array_equal(found.cross[0][:, 1], usual.cross[0][:, 1])
    real = (SOURCE != 0)[:, None]
    np.testing.assert_allclose(
        found.cross[1][:, 1], np.broadcast_to(real / real.sum(-1, keepdims=True), found.cross[1][:, 1].shape), atol=1e-6
    )


def test_one_row_of_weights_is_given():
    model = shared_transformer(decoder_layers=2)
    layers = [block.cross_attention for block in model.decoder_blocks]
    usual, given = read(model), np.zeros(SOURCE.shape[1], "float32")
    given[1] = 1
    nothing = np.full((2, 2), UNCHANGED)
    with intervene(layers, Intervention(nothing, np.array([1, 0, 2]), given)):
        found = model.decode(TARGET, model.encode(SOURCE))
    np.testing.assert_array_equal(found.cross[1][:, 0, 2], np.broadcast_to(given, (len(SOURCE), len(given))))
    np.testing.assert_array_equal(found.cross[1][:, 1], usual.cross[1][:, 1])
    np.testing.assert_allclose(found.logits[:, :2], usual.logits[:, :2], atol=1e-6)
    assert np.abs(found.logits[:, 2] - usual.logits[:, 2]).max() > 1e-3


def test_uniform_weights_give_the_outputs_of_the_uniform_mechanism():
    sizes = {"decoder_layers": 1, "num_heads": 1}
    model, other = make_transformer(**sizes), make_transformer(**sizes, cross={"mechanism": "uniform"})
    other.set_weights(model.get_weights())
    expected = other.decode(TARGET, other.encode(SOURCE))
    found = read(model, 0, 0, list(CHANGES).index("uniform"))
    np.testing.assert_allclose(found.logits, expected.logits, atol=1e-5)


@pytest.mark.minutes
def test_one_graph_serves_every_layer_head_and_change():
    model = shared_transformer(decoder_layers=2)
    graph = tf.function(lambda *chosen: read(model, *chosen).logits, input_signature=[tf.TensorSpec([], tf.int32)] * 3)
    for chosen in ((-1, 0, 0), (0, 1, 0), (1, 0, 1), (1, 1, 2)):
        np.testing.assert_allclose(graph(*chosen), read(model, *chosen).logits, atol=1e-5)
