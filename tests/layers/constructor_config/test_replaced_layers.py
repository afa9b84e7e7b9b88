"""Layers that replace others in an attribute take their place: a model and its file have the new weights alone."""

import keras
import pytest

from qkv.attention import SelfAttention
from qkv.layers.constructor_config import layers_within
from qkv.layers.keras_layers import Dense
from qkv.model.recurrent import Recurrent
from qkv.model.transformer import BlockSpec, DecoderBlock, EncoderBlock, Transformer
from tests.support.layer_contract import assert_close, stir
from tests.support.tiny_models import RECURRENT, SIZES, SOURCE, TARGET

SPEC = BlockSpec(d_model=8, num_heads=2, d_ff=5)


def make_built_blocks(kind):
    """Two blocks whose weights exist, so that a model that kept them would have these."""
    blocks = [kind(SPEC), kind(SPEC)]
    for block in blocks:
        block.build(*[(None, None, 8)] * (1 + (kind is DecoderBlock)))
    return blocks


@keras.saving.register_keras_serializable(package="tests")
class OtherBlocks(Transformer):
    def __init__(self, vocabulary_size, **kwargs):
        super().__init__(vocabulary_size, **kwargs)
        self.decoder_blocks = make_built_blocks(DecoderBlock)
        self.decoder_blocks = make_built_blocks(DecoderBlock)
        self.encoder_blocks = make_built_blocks(EncoderBlock)
        self.encoder_blocks[1] = EncoderBlock(SPEC)


def ids_of_weights(layers):
    return {id(weight) for layer in layers for weight in layer.weights}


def test_a_model_has_the_weights_of_its_new_blocks_alone_and_is_loaded_with_them(tmp_path):
    model = OtherBlocks(**SIZES)
    model.build()
    stir(model)
    attributes = [model.target_embedding, model.encoder_blocks, model.decoder_blocks, model.final_norms]
    parts = [*layers_within(attributes)]
    assert ids_of_weights([model]) == ids_of_weights(parts)
    assert len(model.layers) == len(parts) + 2  # the positions, which have no weights
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert_close(again(SOURCE, TARGET), model(SOURCE, TARGET), 0)
    assert [x.shape for x in again.weights] == [x.shape for x in model.weights]
    assert again.decoder_blocks[0].feed_forward.inner.units == 5


def test_a_layer_of_an_attention_layer_and_of_a_recurrent_model_is_replaced():
    attention = SelfAttention(2, 4)
    old, attention.output_projection = attention.output_projection, Dense(8)
    assert attention.output_projection in attention._layers and old not in attention._layers
    model = Recurrent(**RECURRENT)
    old, model.attention = model.attention, None
    assert old not in model.layers


def test_new_layers_take_the_place_of_the_old_ones():
    """A loaded optimizer then finds its variables in their order."""
    model = Transformer(**SIZES)
    names = [layer.name for layer in model.layers]
    model.encoder_blocks = [EncoderBlock(SPEC, name="encoder_0")]
    model.final_norms = [type(layer)(name=layer.name) for layer in model.final_norms]
    assert [layer.name for layer in model.layers] == names
    assert model.encoder_blocks[0] in model.layers


def test_a_layer_that_another_attribute_still_holds_is_kept():
    model = Transformer(**SIZES)
    model.source_embedding = type(model.source_embedding)(17, 8)
    assert model.target_embedding in model.layers and model.source_embedding in model.layers
    model.source_embedding, model.target_embedding = model.target_embedding, model.source_embedding
    model.build()
    assert ids_of_weights([model]) >= ids_of_weights([model.source_embedding, model.target_embedding])


def test_layers_of_a_built_model_are_not_replaced():
    model = Transformer(**SIZES)
    model.build()
    with pytest.raises(ValueError, match="already built"):
        model.decoder_blocks = make_built_blocks(DecoderBlock)
