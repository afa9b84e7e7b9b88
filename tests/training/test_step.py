"""An update: batches that are accumulated, passes that are drawn together, weights that are averaged."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from pipeline.text.batches import Batch, pad
from pipeline.text.tokenizer import BOS, EOS, PAD
from pipeline.training.optimizers import averaged_weights, moving_averages
from pipeline.training.r_drop import divergence
from pipeline.training.step import TrainStep
from tests.tiny_transformer import make_transformer

SOURCES = [[4, 5, 6, EOS], [7, EOS], [8, 9, EOS], [5, 4, 8, 7, 6, EOS]]
TARGETS = [[9, 8], [7, 7, 6, 5], [4], [6, 6, 9]]


def batch_of(rows):
    return Batch(
        pad([SOURCES[row] for row in rows], 6),
        pad([[BOS, *TARGETS[row]] for row in rows], 5),
        pad([[*TARGETS[row], EOS] for row in rows], 5),
    )


def make_update(dropout=0.0, ema_decay=None, **settings):
    keras.utils.set_random_seed(3)
    model = make_transformer(dropout=dropout, encoder_layers=1, decoder_layers=1)
    # Not Adam: what it makes of a gradient that is zero but for rounding, as that of keys' biases, is chance.
    average = {} if ema_decay is None else {"use_ema": True, "ema_momentum": ema_decay}
    optimizer = keras.optimizers.SGD(0.1, **average)
    optimizer.build(model.trainable_variables)
    return model, optimizer, TrainStep(model, optimizer, tf.distribute.get_strategy(), label_smoothing=0.1, **settings)


def assert_equal_weights(one, other, atol=1e-6):
    for a, b in zip(one.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_allclose(a, b, atol=atol)


def test_batches_that_are_accumulated_count_as_one_by_their_tokens():
    whole_model, _, whole = make_update(clip_norm=0.5)
    parts_model, _, parts = make_update(clip_norm=0.5, accumulating=True)
    for _ in range(2):  # what was accumulated before does not count again
        expected = whole(*batch_of([0, 1, 2, 3]))
        parts.accumulate(*batch_of([1]))
        parts.accumulate(*batch_of([3, 0]))
        found = parts(*batch_of([2]))
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert_equal_weights(parts_model, whole_model, atol=1e-5)


def test_an_update_of_one_batch_needs_nothing_accumulated():
    whole_model, _, whole = make_update()
    parts_model, _, parts = make_update(accumulating=True)
    np.testing.assert_allclose(parts(*batch_of([0, 1])), whole(*batch_of([0, 1])), rtol=1e-6)
    assert_equal_weights(parts_model, whole_model)


@pytest.mark.parametrize("rows", [[0, 1, 2, 3], [2, 0, 3], [1]])
@pytest.mark.parametrize("r_drop", [0.0, 1.0])
def test_a_batch_in_parts_is_the_same_batch(rows, r_drop):
    whole_model, _, whole = make_update(clip_norm=0.5, r_drop=r_drop)
    parts_model, _, parts = make_update(clip_norm=0.5, r_drop=r_drop, parts=2)
    for _ in range(2):
        np.testing.assert_allclose(parts(*batch_of(rows)), whole(*batch_of(rows)), rtol=1e-5)
    assert_equal_weights(parts_model, whole_model, atol=1e-5)


def test_two_passes_without_dropout_are_one():
    once_model, _, once = make_update()
    twice_model, _, twice = make_update(r_drop=5.0)
    np.testing.assert_allclose(twice(*batch_of([0, 1, 2])), once(*batch_of([0, 1, 2])), rtol=1e-5)
    assert_equal_weights(twice_model, once_model, atol=1e-5)


def test_two_passes_are_drawn_together_by_the_weight():
    model, _, update = make_update(dropout=0.3, r_drop=5.0)
    batch = Batch(*(tf.constant(ids) for ids in batch_of([0, 1, 2])))
    seeds = [variable for variable in model.variables if "seed" in variable.path]
    before = [variable.numpy() for variable in seeds]

    def restore():
        for variable, value in zip(seeds, before, strict=True):
            variable.assign(value)

    doubled = [tf.concat([ids, ids], 0) for ids in batch]
    memory = model.encode(doubled[0], training=True)
    logits = model.decode(doubled[1], memory, training=True).logits
    first, second = (tf.reshape(part, (-1, logits.shape[-1])) for part in tf.split(logits, 2))
    weights = tf.cast(tf.reshape(batch.target_output, (-1,)) != PAD, tf.float32)
    apart = float(divergence(first, second, weights))
    assert apart > 0.1 and seeds
    restore()
    loss, total = update._losses(*batch, None)
    assert float(total - loss) == pytest.approx(5.0 / 2 * apart, rel=1e-4)


def test_weights_are_averaged_after_each_update_and_swapped_exactly():
    model, optimizer, update = make_update(ema_decay=0.9)
    expected = None
    for rows in ([0, 1], [2, 3], [0, 2]):
        update(*batch_of(rows))
        weights = [variable.numpy() for variable in model.trainable_variables]
        if expected is None:
            expected = weights
        else:
            expected = [0.9 * mean + 0.1 * weight for mean, weight in zip(expected, weights, strict=True)]
    assert len(moving_averages(optimizer)) == len(weights)
    with averaged_weights(model, optimizer):
        for variable, mean in zip(model.trainable_variables, expected, strict=True):
            np.testing.assert_allclose(variable, mean, atol=1e-6)
        assert max(np.abs(a - b).max() for a, b in zip(model.get_weights(), weights, strict=True)) > 1e-3
    for variable, own in zip(model.trainable_variables, weights, strict=True):
        np.testing.assert_array_equal(variable, own)


def test_without_an_average_a_model_keeps_its_weights():
    model, optimizer, _ = make_update()
    before = model.get_weights()
    with averaged_weights(model, optimizer):
        assert_equal_weights(model, model)
        for a, b in zip(model.get_weights(), before, strict=True):
            np.testing.assert_array_equal(a, b)
