"""Blocks of a Transformer take the masks that Keras keeps of their inputs, and hand that of x on."""

import keras
import numpy as np
import pytest

from qkv.attention import causal_mask
from qkv.model.transformer import BlockSpec, DecoderBlock, EncoderBlock

SOURCE = np.array([[7, 2, 5, 0, 0], [0, 3, 9, 1, 4], [6, 0, 8, 0, 2]])
TARGET = np.array([[4, 3, 0], [0, 9, 6], [0, 5, 1]])


def encode(x, blocks, **arguments):
    for block in blocks:
        x = block(x, **arguments)[0]
    return x


@pytest.mark.parametrize(
    ("mechanism", "norm", "mask"),
    [("softmax", "post", causal_mask(5, 5)), ("lsh", "pre", causal_mask(5, 5)), ("lsh", "post", None)],
)
def test_values_under_padding_change_nothing_in_a_stack_of_blocks(mechanism, norm, mask):
    embedding = keras.layers.Embedding(11, 8, mask_zero=True)
    blocks = [EncoderBlock(BlockSpec(8, 2, 16, norm=norm), {"mechanism": mechanism}) for _ in range(2)]
    expected = encode(embedding(SOURCE), blocks, attention_mask=mask)
    embedding.embeddings.assign(np.concatenate([np.full((1, 8), 5.0), embedding.embeddings[1:]]))
    found = encode(embedding(SOURCE), blocks, attention_mask=mask)
    np.testing.assert_array_equal(found[SOURCE != 0], expected[SOURCE != 0])
    np.testing.assert_array_equal(found._keras_mask, SOURCE != 0)


def test_values_under_padding_change_nothing_in_a_stack_of_decoder_blocks():
    embedding = keras.layers.Embedding(11, 8, mask_zero=True)
    blocks = [DecoderBlock(BlockSpec(8, 2, 16)) for _ in range(2)]

    def decode():
        return encode(embedding(TARGET), blocks, memory=embedding(SOURCE), self_mask=causal_mask(3, 3))

    expected = decode()
    embedding.embeddings.assign(np.concatenate([np.full((1, 8), 5.0), embedding.embeddings[1:]]))
    np.testing.assert_array_equal(decode()[TARGET != 0], expected[TARGET != 0])


def test_a_mask_of_four_axes_is_no_mask_of_a_sequence():
    x = np.ones((3, 3, 8), "float32")
    with pytest.raises(ValueError, match=r"mask: expected 2 axes.*; attention_mask has 4"):
        EncoderBlock(BlockSpec(8, 2, 16))(x, mask=causal_mask(3, 3))


def test_the_mask_of_the_memory_hides_its_padding():
    block, memory = DecoderBlock(BlockSpec(8, 2, 16)), np.ones((3, 5, 8), "float32")
    _, _, weights, _ = block(memory[:, :3], memory, memory_mask=SOURCE != 0)
    np.testing.assert_array_equal(weights > 0, np.broadcast_to((SOURCE != 0)[:, None, None], weights.shape))
    with pytest.raises(ValueError, match=r"attention_mask: expected 4 axes.*found shape \(3, 5\)"):
        block(memory[:, :3], memory, cross_mask=SOURCE != 0)


@pytest.mark.parametrize("kind", [EncoderBlock, DecoderBlock])
def test_a_width_that_the_heads_do_not_divide_is_refused(kind):
    with pytest.raises(ValueError, match="d_model: expected a multiple of num_heads = 3, found 8"):
        kind(BlockSpec(8, 3, 16))
    sizes = {"key_dim": 5, "value_dim": 4}
    assert kind(BlockSpec(8, 3, 16), *[sizes] * (2 if kind is DecoderBlock else 1))
