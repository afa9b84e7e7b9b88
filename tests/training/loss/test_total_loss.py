"""The loss that training minimises: its terms, and two passes that are drawn together."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from qkv.text.batch import Batch
from qkv.text.tokens.special_tokens import PAD
from qkv.training.loss import GuidedAttention, TotalLoss
from tests.support.losses import cross_entropy, divergence
from tests.support.tiny_models import make_transformer
from tests.support.training import batch_of


def make_model(dropout=0.0):
    keras.utils.set_random_seed(3)
    return make_transformer(dropout=dropout)


def tensors(rows):
    return Batch(*(tf.constant(ids) for ids in batch_of(rows).ids))


def test_without_other_terms_the_total_is_the_smoothed_cross_entropy():
    model, batch = make_model(), tensors([0, 1, 2])
    logits = model.decode(batch.target_input, model.encode(batch.source)).logits
    targets = batch.target_output.numpy().ravel()
    expected = cross_entropy(tf.reshape(logits, (len(targets), -1)), targets, (targets != PAD).astype("float32"), 0.1)
    np.testing.assert_allclose(TotalLoss(model, label_smoothing=0.1)(batch), (expected, expected), rtol=1e-5)


@pytest.mark.parametrize("r_drop", [0.0, 5.0])
def test_the_loss_and_its_gradient_know_the_output_bias(r_drop):
    """Against the plain formula, differentiated by TensorFlow; two passes without dropout are two equal ones."""
    keras.utils.set_random_seed(3)
    model = make_transformer(output_bias=True)
    batch = tensors([0, 1, 2])
    targets = batch.target_output.numpy().ravel()
    weights = (targets != PAD).astype("float32")
    with tf.GradientTape(persistent=True) as tape:
        logits = model.decode(batch.target_input, model.encode(batch.source)).logits
        expected = cross_entropy(tf.reshape(logits, (len(targets), -1)), targets, weights, 0.1)
        _, found = TotalLoss(model, label_smoothing=0.1, r_drop=r_drop)(batch)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    for variable in (model.output_embedding.bias, model.output_embedding.table):
        wanted, gradient = (tf.convert_to_tensor(tape.gradient(loss, variable.value)) for loss in (expected, found))
        assert np.abs(wanted).max() > 0.1
        np.testing.assert_allclose(gradient, wanted, atol=1e-4)


def test_guided_attention_adds_to_the_total_and_not_to_the_cross_entropy():
    model, batch = make_model(), tensors([0, 1, 2])
    links = np.zeros((3, 5, 6), bool)
    links[0, 0, 1] = links[1, 2, 0] = True
    guided = GuidedAttention(layer=0, head=1, side="output", weight=0.5, unlinked="nothing")
    usual, _ = TotalLoss(model)(batch)
    loss, total = TotalLoss(model, guided_attention=guided)(batch._replace(links=links))
    output = model.decode(batch.target_input, model.encode(batch.source))
    expected = guided.loss(output.cross, links, batch.source, batch.target_output)
    assert float(expected) > 0.1
    np.testing.assert_allclose((loss, total - loss), (usual, expected), rtol=1e-4)


@pytest.mark.parametrize("guided", [None, GuidedAttention(0, 0, "output", weight=0.5, unlinked="eos")])
def test_two_passes_without_dropout_have_the_loss_of_one(guided):
    model = make_model()
    batch = tensors([0, 1, 2])._replace(links=np.eye(5, 6, dtype=bool)[None].repeat(3, 0))
    once = TotalLoss(model, label_smoothing=0.1, guided_attention=guided)
    twice = TotalLoss(model, label_smoothing=0.1, r_drop=5.0, guided_attention=guided)
    np.testing.assert_allclose(twice(batch), once(batch), rtol=1e-5)


def test_two_passes_with_dropout_add_their_divergence_by_its_weight():
    model, batch = make_model(dropout=0.3), tensors([0, 1, 2])
    seeds = [variable for variable in model.variables if "seed" in variable.path]
    before = [variable.numpy() for variable in seeds]

    doubled = [tf.concat([ids, ids], 0) for ids in batch.ids]
    memory = model.encode(doubled[0], training=True)
    logits = model.decode(doubled[1], memory, training=True).logits
    first, second = (tf.reshape(part, (-1, logits.shape[-1])) for part in tf.split(logits, 2))
    weights = tf.cast(tf.reshape(batch.target_output, (-1,)) != PAD, tf.float32)
    apart = float(divergence(first, second, weights))
    assert apart > 0.1 and seeds
    for variable, value in zip(seeds, before, strict=True):
        variable.assign(value)
    loss, total = TotalLoss(model, label_smoothing=0.1, r_drop=5.0)(batch)
    assert float(total - loss) == pytest.approx(5.0 / 2 * apart, rel=1e-4)
