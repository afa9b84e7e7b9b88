"""The decoder-only model is one causal pass over source and target."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from qkv.attention.masks import causal_mask
from qkv.model.decoder_only import DecoderOnly
from qkv.text.batch import Batch
from qkv.training.loss import TotalLoss
from qkv.training.step import TrainStep
from tests.support.losses import cross_entropy
from tests.support.tiny_models import DECODER_ONLY, SOURCE, TARGET, make_model, shared_model


@pytest.mark.parametrize(
    "settings", [{}, {"norm": "post", "positions": "learned"}, {"positions_on": "queries_and_keys"}]
)
def test_source_and_target_in_one_pass_give_the_same_states_and_attention(settings):
    model = shared_model(DecoderOnly, **DECODER_ONLY | settings)
    source, target = SOURCE[2:], TARGET[:1]  # neither has padding
    S, T = source.shape[1], target.shape[1]
    memory = model.encode(source)
    output = model.decode(target, memory)
    x = model.positions(model.source_embedding(np.concatenate([source, target], 1)))
    positions = model.positions.on_queries_and_keys(S + T)
    for layer, block in enumerate(model.blocks):
        x, weights, _ = block(x, causal_mask(S + T, S + T), positions=positions)
        np.testing.assert_allclose(output.cross[layer], weights[:, :, S:, :S], atol=1e-5)
        np.testing.assert_allclose(output.decoder_self[layer], weights[:, :, S:, S:], atol=1e-5)
        np.testing.assert_allclose(memory.self_attention[layer], weights[:, :, :S, :S], atol=1e-5)
        assert not np.any(weights[:, :, :S, S:])
    states = x if model.final_norm is None else model.final_norm(x)
    np.testing.assert_allclose(memory.states, states[:, :S], atol=1e-5)
    np.testing.assert_allclose(output.states, states[:, S:], atol=1e-5)


def test_the_source_is_read_from_left_to_right():
    model = shared_model(DecoderOnly, **DECODER_ONLY)
    other = SOURCE.copy()
    other[:, 4] = 6
    before, after = model.encode(SOURCE).states, model.encode(other).states
    np.testing.assert_allclose(after[:, :4], before[:, :4], atol=1e-6)
    assert np.abs(after[0, 4] - before[0, 4]).max() > 1e-3


class Steps(tf.keras.optimizers.Optimizer):
    """Keeps the gradients instead of using them."""

    def apply_gradients(self, gradients_and_variables, **_):
        self.gradients = [np.array(gradient) for gradient, _ in gradients_and_variables]


@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_the_loss_on_source_tokens_has_its_weight(weight):
    """Against the usual formula of both losses; the reported loss is the target's alone."""
    model = make_model(DecoderOnly, **DECODER_ONLY | {"source_loss": weight})
    expected_output = np.concatenate([TARGET[:, 1:], np.full((3, 1), 3)], 1) * (TARGET != 0)
    optimizer = Steps(0.1)
    update = TrainStep(TotalLoss(model, label_smoothing=0.1), optimizer, tf.distribute.get_strategy())
    tf.config.run_functions_eagerly(True)
    try:
        logs = update(Batch(SOURCE, TARGET, expected_output.astype("int32")))
    finally:
        tf.config.run_functions_eagerly(False)

    def loss_of(states, ids):
        logits = tf.reshape(model.output_embedding.logits(states), (-1, 17))
        return cross_entropy(logits, ids.reshape(-1), (ids != 0).reshape(-1).astype("float32"), 0.1)

    with tf.GradientTape() as tape:
        memory = model.encode(SOURCE, training=True)
        target_loss = loss_of(model.decode(TARGET, memory, training=True).states, expected_output)
        loss = target_loss + weight * loss_of(memory.states[:, :-1], SOURCE[:, 1:])
    tokens = (expected_output != 0).sum()
    assert float(logs.loss) == pytest.approx(float(target_loss), rel=1e-5)
    assert float(logs.tokens) == tokens
    for found, expected in zip(optimizer.gradients, tape.gradient(loss, model.trainable_variables), strict=True):
        np.testing.assert_allclose(found, tf.convert_to_tensor(expected) / tokens, atol=1e-5)


@pytest.mark.parametrize("positions", ["rotary", "alibi"])
def test_positions_are_whole_numbers_of_one_type_whatever_the_type_of_floats(positions):
    """Keras makes ranges of int16 under float16."""
    keras.config.set_floatx("float16")
    try:
        model = DecoderOnly(**DECODER_ONLY | {"positions": positions}, dtype="float32")
        assert model(SOURCE, TARGET).dtype == tf.float32
    finally:
        keras.config.set_floatx("float32")
