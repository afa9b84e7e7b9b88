"""int8, which is refused, layer by layer and within models of other layers."""

import re
import warnings

import keras
import numpy as np
import pytest

from qkv.attention import SelfAttention
from qkv.layers.keras_layers import Dense
from qkv.model.embedding import TokenEmbedding
from qkv.model.transformer import FeedForward

X = np.random.default_rng(0).normal(size=(2, 3, 8)).astype("float32")
MAKERS = {
    "attention": lambda **arguments: SelfAttention(2, 4, **arguments),
    "dense": lambda **arguments: Dense(4, **arguments),
    "feed-forward": lambda **arguments: FeedForward(8, 6, **arguments),
    "embedding": lambda **arguments: TokenEmbedding(5, 8, **arguments),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_layer_says_that_it_cannot_be_quantized_and_what_to_do_instead(make):
    layer = make()
    layer.build((None, None, 8))
    message = f"{layer.name}: {type(layer).__name__} computes with floats only; dtype='bfloat16'"
    with pytest.raises(NotImplementedError, match=message):
        layer.quantize("int8")
    x = np.ones((1, 2), int) if isinstance(layer, TokenEmbedding) else X
    with pytest.raises(NotImplementedError, match="computes with floats only"):
        make(dtype="int8_from_float32")(x)


def test_other_layers_of_a_model_are_quantized_beside_it(tmp_path):
    model = keras.Sequential([keras.Input((None, 8)), SelfAttention(2, 4, return_weights=False), keras.layers.Dense(4)])
    context = model.layers[0](X)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.quantize("int8")
    # Keras 3.15 warns of each layer that it leaves as it is, and Keras 3.16 once, with the names of some.
    assert any(re.search("qkv: Dense computes with floats only|skipped .*/qkv'", str(each.message)) for each in caught)
    np.testing.assert_array_equal(model.layers[0](X), context)
    assert model.layers[1].quantization_mode == "int8"
    model.save(tmp_path / "model.keras")
    np.testing.assert_array_equal(keras.saving.load_model(tmp_path / "model.keras")(X), model(X))
