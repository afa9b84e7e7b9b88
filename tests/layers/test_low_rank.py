"""LoRA of layers of attention, feed-forward networks and embeddings, beside that of Keras' own layers."""

import keras
import numpy as np
import pytest

from qkv.attention import CrossAttention, MultiHeadAttention, SelfAttention
from qkv.layers.low_rank import LowRank
from qkv.model.embedding import TokenEmbedding
from qkv.model.transformer import FeedForward
from qkv.run.load_model import load_model
from tests.support.layer_contract import stir
from tests.support.tiny_models import MODELS, SOURCE, TARGET, make_transformer

X = np.random.default_rng(0).normal(size=(2, 3, 8)).astype("float32")
MAKERS = {
    "self": lambda: SelfAttention(2, 4),
    "feed-forward": lambda: FeedForward(8, 6),
    "embedding": lambda: TokenEmbedding(5, 8),
}
each = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


def build(layer):
    layer.build((None, None, 8))
    return stir(layer)


def states(layer):
    return [(variable.path, variable.trainable) for variable in layer.weights]


@each
def test_alpha_scales_what_is_added(make):
    layers = [build(make()) for _ in range(2)]
    before = layers[0].get_weights()
    for layer, alpha in zip(layers, (None, 6), strict=True):
        layer.set_weights(before)
        layer.enable_lora(3, alpha)
        for i, variable in enumerate(layer.trainable_variables):
            variable.assign(np.random.default_rng(i).normal(size=variable.shape))
    if isinstance(layers[0], TokenEmbedding):
        changes = [layer._matrix() - layer.table for layer in layers]
    else:
        dense = [next(x for x in layer._flatten_layers() if isinstance(x, keras.layers.Dense)) for layer in layers]
        changes = [layer.kernel - layer._kernel for layer in dense]
    np.testing.assert_allclose(changes[1], 2 * np.asarray(changes[0]), rtol=1e-4, atol=1e-5)


def test_a_dense_layer_computes_what_that_of_keras_does():
    layer, peer = build(FeedForward(8, 6)), keras.layers.Dense(6, activation="relu")
    peer.build((None, 8))
    peer.set_weights(layer.inner.get_weights())
    initializers = {name: keras.initializers.RandomNormal(seed=i) for i, name in enumerate(("a", "b"))}
    for lora in (layer, peer):
        lora.enable_lora(2, 5, initializers["a"], b_initializer=initializers["b"])
    np.testing.assert_allclose(layer.inner(X), peer(X), rtol=1e-5, atol=1e-6)


def test_each_matrix_starts_at_numbers_of_its_own():
    layer = CrossAttention(2, 4)
    layer.build((None, None, 8), (None, None, 8))
    layer.enable_lora(2, a_initializer=keras.initializers.HeNormal(), b_initializer="ones")
    first = [variable.numpy() for variable in layer.trainable_variables if variable.name == "lora_kernel_a"]
    assert len({array.tobytes() for array in first}) == len(first) == 4
    assert all((x.numpy() == 1).all() for x in layer.trainable_variables if x.name == "lora_kernel_b")


@each
def test_a_layer_that_is_not_built_is_refused_as_by_keras(make):
    with pytest.raises(ValueError, match="enable_lora needs a built layer"):
        make().enable_lora(2)
    with pytest.raises(ValueError, match="built"):
        keras.layers.Dense(3).enable_lora(2)


@each
def test_a_second_call_and_a_wrong_rank_are_refused_and_change_nothing(make):
    layer = build(make())
    before = states(layer)
    with pytest.raises(ValueError, match="rank: expected a whole number, 1 or more, found 0"):
        layer.enable_lora(0)
    assert states(layer) == before
    layer.enable_lora(2)
    before = states(layer)
    assert any(trainable for _, trainable in before)
    with pytest.raises(ValueError, match="once only"):
        layer.enable_lora(2)
    assert states(layer) == before


class Pair(LowRank, keras.Layer):
    """A layer of a user, of one layer of Keras and one of the package."""

    def __init__(self):
        super().__init__()
        self.first, self.second = keras.layers.Dense(8), FeedForward(8, 6)

    def build(self, input_shape):
        self.first.build(input_shape)
        self.second.build(input_shape)

    def call(self, x):
        return self.second(self.first(x))


def test_layers_within_layers_get_it_once_each():
    layer = build(Pair())
    before = np.array(layer(X))
    layer.enable_lora(2)
    assert len(layer.trainable_variables) == 6
    np.testing.assert_array_equal(layer(X), before)


def test_a_model_with_lora_in_a_part_is_refused_as_a_whole():
    model = make_transformer()
    model.decoder_blocks[0].cross_attention.enable_lora(2)
    before = states(model)
    with pytest.raises(ValueError, match="once only"):
        model.enable_lora(2)
    assert states(model) == before
    architecture, settings = MODELS["transformer"]
    with pytest.raises(ValueError, match="needs a built layer"):
        architecture(**settings).enable_lora(2)


@pytest.mark.parametrize("alpha", [None, 1, 16.0])
def test_a_saved_model_holds_the_sums(alpha, tmp_path):
    model = make_transformer(output_bias=True)
    model.enable_lora(4, lora_alpha=alpha)
    for i, variable in enumerate(model.trainable_variables):
        variable.assign(0.1 * np.random.default_rng(i).normal(size=variable.shape))
    model.save(tmp_path / "model.keras")
    loaded = load_model(tmp_path / "model.keras")
    assert not any("lora" in variable.path for variable in loaded.weights)
    np.testing.assert_allclose(loaded(SOURCE, TARGET), model(SOURCE, TARGET), atol=1e-5)


@pytest.mark.parametrize("positions", [None, "rotary"])
def test_vectors_added_to_queries_and_keys_pass_through_the_sums_too(positions):
    layer = SelfAttention(2, 4, positions=positions)
    layer.build((None, None, 8))
    layer.enable_lora(2, 4)
    stir(layer)
    merged = SelfAttention(2, 4, positions=positions)
    merged.build((None, None, 8))
    for name in ("qkv_projection", "output_projection"):
        dense = getattr(layer, name)
        getattr(merged, name).set_weights([dense.kernel, dense.bias])
    vectors = np.random.default_rng(3).normal(size=(3, 8)).astype("float32")
    for found, expected in zip(layer(X, positions=vectors), merged(X, positions=vectors), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_value_norms_are_those_of_the_sums():
    layer = MultiHeadAttention(2, 4)
    layer(X, key=X, value=X)
    before = layer.value_norms(X)
    layer.enable_lora(2)
    stir(layer)
    assert np.abs(np.asarray(layer.value_norms(X)) - before).max() > 1e-3
