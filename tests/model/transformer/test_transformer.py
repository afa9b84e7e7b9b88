"""The Transformer computes the paper's formula, and nothing but a sentence's own tokens bears on its result."""

import numpy as np
import pytest
import tensorflow as tf

from qkv.model.transformer import Transformer
from tests.support import oracles
from tests.support.layer_contract import assert_close, stir
from tests.support.searches import full_pass
from tests.support.tiny_models import SIZES, SOURCE, TARGET, TWO_LAYERS, make_transformer, shared_transformer

TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}


def everything(model, source, target, **arguments):
    """Logits, cross weights, decoder weights and encoder weights as NumPy arrays, layers stacked first."""
    memory = model.encode(source, **arguments)
    output = model.decode(target, memory, **arguments)
    return [np.array(x) for x in (output.logits, output.cross, output.decoder_self, memory.self_attention)]


def attention_by_formula(layer, query, memory, mask):
    sides = ("query", "key", "value", "output")
    if hasattr(layer, "qkv_projection"):
        kernel, bias = layer.qkv_projection.get_weights()
        parts = list(zip(np.split(kernel, 3, -1), np.split(bias, 3), strict=True))
        parts.append(layer.output_projection.get_weights())
    else:
        parts = [getattr(layer, f"{side}_projection").get_weights() for side in sides]
    return oracles.multi_head_attention(
        query, memory, memory, layer.num_heads, mask=mask, projections=dict(zip(sides, parts, strict=True))
    )


def block_by_formula(x, sublayers):
    """`sublayers` is a list of (residual, function of its input that returns its output and weights)."""
    found = []
    for residual, sublayer in sublayers:
        norm = residual.normalization.get_weights()
        if residual.norm == "pre":
            y, weights = sublayer(oracles.layer_norm(x, *norm))
            x = x + y
        else:
            y, weights = sublayer(x)
            x = oracles.layer_norm(x + y, *norm)
        found.append(weights)
    return x, found


def feed_forward_by_formula(layer):
    first, first_bias, second, second_bias = layer.get_weights()
    return lambda x: (np.maximum(x @ first + first_bias, 0) @ second + second_bias, None)


def transformer_by_formula(model, source, target):
    """Vaswani et al. 2017, section 3, in float64."""
    width = model.get_config()["d_model"]

    def embedded(embedding, ids):
        places = [[oracles.sinusoid(t, i, width) for i in range(width)] for t in range(ids.shape[1])]
        return embedding.table.numpy().astype("float64")[ids] * np.sqrt(width) + places

    norms = [norm.get_weights() for norm in model.final_norms]
    seen = (source != 0)[:, None, None]
    past = np.tril(np.ones((target.shape[1],) * 2, bool))[None, None]
    x, encoder, own, cross = embedded(model.source_embedding, source), [], [], []
    for block in model.encoder_blocks:
        x, (weights, _) = block_by_formula(
            x,
            [
                (
                    block.self_attention_residual,
                    lambda y, block=block: attention_by_formula(block.self_attention, y, y, seen),
                ),
                (block.feed_forward_residual, feed_forward_by_formula(block.feed_forward)),
            ],
        )
        encoder.append(weights)
    memory = oracles.layer_norm(x, *norms[0]) if norms else x
    x = embedded(model.target_embedding, target)
    for block in model.decoder_blocks:
        x, (self_weights, cross_weights, _) = block_by_formula(
            x,
            [
                (
                    block.self_attention_residual,
                    lambda y, block=block: attention_by_formula(block.self_attention, y, y, past),
                ),
                (
                    block.cross_attention_residual,
                    lambda y, block=block: attention_by_formula(block.cross_attention, y, memory, seen),
                ),
                (block.feed_forward_residual, feed_forward_by_formula(block.feed_forward)),
            ],
        )
        own.append(self_weights)
        cross.append(cross_weights)
    x = oracles.layer_norm(x, *norms[1]) if norms else x
    return [x @ model.output_embedding.table.numpy().T, np.array(cross), np.array(own), np.array(encoder)]


@pytest.mark.parametrize(("norm", "tie_embeddings"), [("pre", "all"), ("post", "none")])
def test_logits_and_attention_equal_the_papers_formula(norm, tie_embeddings):
    model = shared_transformer(**TWO_LAYERS, norm=norm, tie_embeddings=tie_embeddings)
    assert_close(everything(model, SOURCE, TARGET), transformer_by_formula(model, SOURCE, TARGET), 1e-4)


def test_the_call_is_encode_then_decode():
    model = shared_transformer()
    np.testing.assert_array_equal(model(SOURCE, TARGET), everything(model, SOURCE, TARGET)[0])


def test_word_order_matters_on_both_sides():
    model = shared_transformer()
    logits = model(SOURCE[:1], TARGET[:1]).numpy()
    assert np.abs(model(SOURCE[:1, [1, 0, 2, 3, 4, 5, 6]], TARGET[:1]).numpy() - logits).max() > 1e-3
    assert np.abs(model(SOURCE[:1], TARGET[:1, [0, 2, 1, 3, 4]]).numpy()[:, 4] - logits[:, 4]).max() > 1e-3


def test_asking_for_the_weights_changes_nothing():
    model = shared_transformer()
    signature = [tf.TensorSpec((None, None), tf.int32)] * 2
    rich = tf.function(lambda source, target: model.decode(target, model.encode(source)), input_signature=signature)
    np.testing.assert_allclose(full_pass(model)(SOURCE, TARGET), rich(SOURCE, TARGET).logits, rtol=1e-6, atol=1e-6)


def test_attention_dropout_acts_in_training_alone_and_not_on_the_first_layers_weights():
    model = make_transformer(attention_dropout=0.5)
    logits, cross, own, encoder = everything(model, SOURCE, TARGET)
    dropped = everything(model, SOURCE, TARGET, training=True)
    np.testing.assert_allclose(dropped[3][0], encoder[0], **TOLERANCE)
    np.testing.assert_allclose(dropped[2][0], own[0], **TOLERANCE)
    assert np.abs(dropped[0] - logits).max() > 1e-2
    np.testing.assert_allclose(dropped[1].sum(-1), 1, atol=1e-5)
    np.testing.assert_array_equal(everything(model, SOURCE, TARGET, training=False)[1], cross)


@pytest.mark.parametrize("kind", ["dropout", "activation_dropout"])
def test_every_kind_of_dropout_reaches_the_logits_in_training_alone(kind):
    model = make_transformer(**{kind: 0.5})
    np.testing.assert_array_equal(model(SOURCE, TARGET), model(SOURCE, TARGET))
    assert np.abs(model(SOURCE, TARGET, training=True) - model(SOURCE, TARGET)).max() > 1e-2


class TestTiedEmbeddings:
    @pytest.mark.parametrize(("kind", "tables"), [("all", 1), ("target", 2), ("none", 3)])
    def test_as_many_variables_as_tables(self, kind, tables):
        model = shared_transformer(tie_embeddings=kind)
        shape = (SIZES["vocabulary_size"], SIZES["d_model"])
        assert sum(tuple(variable.shape) == shape for variable in model.trainable_variables) == tables

    @pytest.mark.parametrize(
        ("kind", "reads", "writes"), [("all", True, True), ("target", False, True), ("none", False, False)]
    )
    def test_the_target_table_is_read_by_whom_it_is_shared_with(self, kind, reads, writes):
        model = make_transformer(tie_embeddings=kind)
        states = model.encode(SOURCE).states.numpy()
        out = model.output_embedding.logits(tf.ones((1, 1, 8))).numpy()
        stir(model.target_embedding, seed=1)
        assert (np.abs(model.encode(SOURCE).states - states).max() > 1e-3) == reads
        assert (np.abs(model.output_embedding.logits(tf.ones((1, 1, 8))) - out).max() > 1e-3) == writes


@pytest.mark.parametrize("tie_embeddings", ["all", "target", "none"])
def test_an_output_bias_is_added_to_the_logits_and_nowhere_else(tie_embeddings):
    model = make_transformer(tie_embeddings=tie_embeddings, output_bias=True)
    before, states = model(SOURCE, TARGET).numpy(), model.encode(SOURCE).states.numpy()
    bias = np.arange(SIZES["vocabulary_size"], dtype="float32")
    model.output_embedding.bias.assign_add(bias)
    np.testing.assert_allclose(model(SOURCE, TARGET), before + bias, atol=1e-4)
    np.testing.assert_array_equal(model.encode(SOURCE).states, states)
    plain = shared_transformer(tie_embeddings=tie_embeddings)
    assert len(model.trainable_variables) == len(plain.trainable_variables) + 1


def test_embeddings_without_scale_are_those_of_a_table_divided_by_it():
    scaled, plain = (
        make_transformer(tie_embeddings="none"),
        make_transformer(tie_embeddings="none", scale_embeddings=False),
    )
    plain.set_weights(scaled.get_weights())
    for embedding in (plain.source_embedding, plain.target_embedding):
        embedding.table.assign(embedding.table * SIZES["d_model"] ** 0.5)
    np.testing.assert_allclose(plain(SOURCE, TARGET), scaled(SOURCE, TARGET), atol=1e-5)


def test_learned_positions_are_two_tables_of_weights_and_sinusoidal_ones_none():
    difference = (
        shared_transformer(positions="learned").count_params()
        - shared_transformer(positions="sinusoidal").count_params()
    )
    assert difference == 2 * SIZES["max_positions"] * SIZES["d_model"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tie_embeddings": "both"}, "tie_embeddings.*found 'both'"),
        ({"num_heads": 3}, "d_model.*num_heads = 3, found 8"),
        ({"norm": "rms"}, "norm.*found 'rms'"),
        ({"positions": "rotery"}, "kind.*found 'rotery'"),
        ({"cross": {"score": "euclid"}}, "score.*found 'euclid'"),
    ],
)
def test_a_setting_that_does_not_exist_is_refused_with_what_was_found(settings, message):
    with pytest.raises(ValueError, match=message):
        Transformer(**(SIZES | settings))
