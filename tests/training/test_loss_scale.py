"""The scale of the loss in float16: it falls where a gradient overflows, and rises after many that do not."""

import json
from dataclasses import asdict

import keras
import numpy as np
import pytest
import tensorflow as tf

from qkv.errors import InputError
from qkv.training import loss_scale as module
from qkv.training.accumulation import Accumulation
from qkv.training.checkpoints import load_checkpoint, save_checkpoint
from qkv.training.loss import TotalLoss
from qkv.training.loss_scale import FIRST_SCALE, LARGEST_SCALE, SMALLEST_SCALE, LossScale
from qkv.training.optimizers import make_optimizer
from qkv.training.progress import Progress
from qkv.training.step import TrainStep
from qkv.training.stopping import check_finite
from tests.support.tiny_models import make_transformer
from tests.support.training import batch_of

ALONE = tf.distribute.get_strategy()


def make_scale():
    """A scale, and the graph of an update that writes down whether it was made."""
    scale = LossScale(ALONE)
    made, left_out = tf.Variable(0), tf.Variable(0)
    graph = tf.function(
        lambda finite: scale.update(finite, lambda: made.assign_add(1), lambda: left_out.assign_add(1)),
        input_signature=[tf.TensorSpec((), tf.bool)],
    )
    return scale, graph, lambda: (int(made), int(left_out))


def test_the_scale_is_halved_by_each_overflow_and_doubled_after_many_good_updates(monkeypatch):
    monkeypatch.setattr(module, "GOOD_UPDATES", 3)
    scale, update, counts = make_scale()
    found = []
    for finite in (False, False, True, True, False, True, True, True, True, True, True):
        update(finite)
        found.append(float(scale.scale) / FIRST_SCALE)
    assert found == [1 / 2, 1 / 4, 1 / 4, 1 / 4, 1 / 8, 1 / 8, 1 / 8, 1 / 4, 1 / 4, 1 / 4, 1 / 2]
    assert counts() == (8, 3)
    assert scale.skipped == 3


def test_the_scale_stays_within_its_bounds(monkeypatch):
    monkeypatch.setattr(module, "GOOD_UPDATES", 1)
    scale, update, _ = make_scale()
    for finite, bound in ((False, SMALLEST_SCALE), (True, LARGEST_SCALE)):
        for _ in range(60):
            update(finite)
        assert float(scale.scale) == bound


def test_a_scale_goes_on_from_its_state():
    scale, update, _ = make_scale()
    for finite in (False, True, True):
        update(finite)
    other = LossScale(ALONE)
    other.restore(json.loads(json.dumps(scale.state())))
    assert other.state() == scale.state() == {"scale": FIRST_SCALE / 2, "good": 2, "skipped": 1}
    other.restore({})  # of a run that began in another precision
    assert other.state() == {"scale": FIRST_SCALE, "good": 0, "skipped": 0}


def make_half(dtype="mixed_float16", dropout=0.1):
    """A model in float16 with its updates."""
    keras.utils.set_random_seed(3)
    model = make_transformer(dropout=dropout, dtype=dtype, name="transformer")
    optimizer = make_optimizer(0.01, optimizer="adam", beta_1=0.9, beta_2=0.98, epsilon=1e-6)
    optimizer.build(model.trainable_variables)
    step = TrainStep(TotalLoss(model, label_smoothing=0.1), optimizer, ALONE, clip_norm=1.0)
    return model, optimizer, Accumulation(step)


def weights_of(model):
    return [variable.numpy() for variable in model.trainable_variables]


def state_of(model, optimizer):
    return [np.array(keras.ops.convert_to_numpy(variable)) for variable in (*model.variables, *optimizer.variables)]


@pytest.fixture(scope="module")
def halves():
    """Two equal models in float16, so that each is traced once."""
    return make_half(), make_half()


@pytest.mark.minutes
def test_an_update_that_overflows_is_left_out_and_one_that_is_resumed_is_bit_identical(halves, monkeypatch, tmp_path):
    (model, optimizer, updates), (other, other_optimizer, others) = halves
    progress = Progress()
    updates.step.loss_scale.restore({"scale": LARGEST_SCALE, "good": 0, "skipped": 0})
    before = weights_of(model)
    metrics = updates.make([batch_of([0, 1, 2])], progress)
    np.testing.assert_equal(weights_of(model), before)
    assert float(metrics.gradient_norm) == 0 and np.isfinite(float(metrics.loss))
    assert int(optimizer.iterations) == 1  # the learning rate is that of the number of the update
    assert updates.logs() == {"skipped_updates": 1}
    norms = [float(updates.make([batch_of([0, 1, 2])], progress).gradient_norm) for _ in range(24)]
    assert norms[0] == 0 < norms[-1]  # the scale has fallen until the gradient fits
    assert any((weight != value).any() for weight, value in zip(weights_of(model), before, strict=True))
    progress.loss_scale = updates.step.loss_scale.state()
    save_checkpoint(tmp_path / "half.npz", model, optimizer, progress)
    resumed = load_checkpoint(tmp_path / "half.npz", other, other_optimizer)
    assert asdict(resumed) == asdict(progress) and resumed.loss_scale["skipped"] >= 1
    others.step.loss_scale.restore(resumed.loss_scale)
    for rows in ([1, 3], [0, 2]):
        ours, theirs = (one.make([batch_of(rows)], progress) for one in (updates, others))
        assert [float(value) for value in ours] == [float(value) for value in theirs]
    np.testing.assert_equal(state_of(model, optimizer), state_of(other, other_optimizer))


@pytest.mark.minutes
def test_a_gradient_that_overflows_at_the_least_scale_ends_training(halves):
    (model, _, updates), _ = halves
    updates.step.loss_scale.restore({"scale": SMALLEST_SCALE, "good": 0, "skipped": 0})
    saved = model.get_weights()
    model.set_weights([weight * np.float32(1e4) for weight in saved])
    metrics = updates.make([batch_of([0, 1])], Progress())
    model.set_weights(saved)
    norm = float(metrics.gradient_norm)
    assert not np.isfinite(norm)
    with pytest.raises(InputError, match="update 1: training has diverged"):
        check_finite(1, {"loss": 1.0, "gradient_norm": norm})


def test_gradients_in_float16_are_those_of_float32_but_for_rounding(halves):
    (half, *_), _ = halves
    whole = make_transformer(dropout=0.0)
    half.set_weights(whole.get_weights())
    for layer in half._flatten_layers():
        if hasattr(layer, "dropped_bytes"):
            layer.dropped_bytes = 0
    halved, expected = gradient_of(half, scale=1024.0), gradient_of(whole)
    assert np.linalg.norm(halved - expected) < 0.01 * np.linalg.norm(expected)


def gradient_of(model, scale=1.0):
    """The gradient by all variables, as one vector."""
    with tf.GradientTape() as tape:
        _, total = TotalLoss(model, label_smoothing=0.1)(batch_of([0, 1, 2, 3]).map(tf.constant))
        total *= scale
    found = tape.gradient(total, model.trainable_variables)
    arrays = [
        np.zeros(variable.shape) if gradient is None else tf.convert_to_tensor(gradient).numpy() / scale
        for gradient, variable in zip(found, model.trainable_variables, strict=True)
    ]
    return np.concatenate([array.ravel() for array in arrays])


def test_other_precisions_have_no_scale():
    _, _, updates = make_half("float32")
    assert updates.step.loss_scale is None and updates.logs() == {}


def test_several_devices_in_float16_are_refused():
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    with strategy.scope():
        model, optimizer, updates = make_half("float32")
    model.dtype_policy = keras.dtype_policies.DTypePolicy("mixed_float16")
    strategy_of_two = type("Two", (), {"num_replicas_in_sync": 2, "scope": strategy.scope})()
    with pytest.raises(InputError, match=r"mixed_float16 on several devices.*--run\.devices 1"):
        TrainStep(updates.step.loss, optimizer, strategy_of_two)


@pytest.mark.parametrize("change", [{"scale": -1.0}, {"scale": 0}, {"scale": "x"}, {"good": None}, {"more": 1}])
def test_a_checkpoint_with_another_state_is_refused(change):
    state = {"scale": FIRST_SCALE, "good": 0, "skipped": 0}
    values = asdict(Progress()) | {"loss_scale": state}
    assert Progress.parse(json.dumps(values)).loss_scale == state
    with pytest.raises(ValueError, match="not valid: loss_scale"):
        Progress.parse(json.dumps(values | {"loss_scale": state | change}))
