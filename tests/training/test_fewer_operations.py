"""Updates made in fewer operations are those of Keras: matrices made orthogonal together, Adam in one; on a GPU all
gradients are clipped together. The kernels that a GPU starts are counted."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from qkv.training.loss import TotalLoss
from qkv.training.optimizers import FusedAdam, StackedMuon, make_optimizer, mean_and_clip
from qkv.training.step import TrainStep
from tests.support.devices import kernels_launched, optimised_operations, pretend_gpus, without_kernels
from tests.support.tiny_models import make_transformer

SHAPES = {
    "a": (6, 9),
    "b": (6, 9),
    "c": (6, 9),  # an odd number, so that parts are not equal
    "tall": (9, 4),
    "square": (5, 5),
    "bias": (7,),
    "embedding": (11, 6),
    "cube": (2, 3, 4),
}
MATRICES = ["a", "b", "c", "tall", "square"]
SETTINGS = {"adam_beta_2": 0.98, "epsilon": 1e-9}
OURS = {"beta_2": 0.98, "epsilon": 1e-9}
DECAYS = [None, 0.3]
MOST_KERNELS = 0
LIMITS: dict[str, int] = {}


def trained(optimizer, updates=4):
    generator = np.random.default_rng(0)
    variables = [
        keras.Variable(generator.normal(size=shape), dtype="float32", name=name) for name, shape in SHAPES.items()
    ]
    optimizer.build(variables)
    for _ in range(updates):
        gradients = [keras.ops.convert_to_tensor(generator.normal(size=v.shape), "float32") for v in variables]
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
    return [v.numpy() for v in variables], [v.numpy() for v in optimizer.variables]


@pytest.mark.parametrize("decay", DECAYS)
def test_muons_updates_and_state_are_those_of_keras(decay):
    ours, state = trained(StackedMuon(0.01, matrix_decay=decay or 0.0, **OURS))
    theirs, their_state = trained(keras.optimizers.Muon(0.01, weight_decay=decay, adam_weight_decay=None, **SETTINGS))
    for one, other in zip([*ours, *state], [*theirs, *their_state], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("decay", DECAYS)
def test_adams_updates_and_state_are_those_of_keras(decay):
    settings = {"beta_1": 0.8, "beta_2": 0.98, "epsilon": 1e-3}
    ours, state = trained(FusedAdam(0.01, matrix_decay=decay or 0.0, **settings))
    expected = keras.optimizers.Adam(0.01, weight_decay=decay, **settings)
    expected.exclude_from_weight_decay(var_names=[name for name in SHAPES if name not in MATRICES])
    theirs, their_state = trained(expected)
    for one, other in zip([*ours, *state], [*theirs, *their_state], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("clip_norm", [0.0, 0.5, 100.0])
def test_a_gpu_clips_all_gradients_as_one_vector_with_the_same_result(clip_norm, monkeypatch):
    generator = np.random.default_rng(0)
    sums = [tf.constant(generator.normal(size=shape), tf.float32) for shape in ((2, 3), (5,), (4, 1), ())]
    tokens = 7
    norm = np.sqrt(sum((gradient.numpy() ** 2).sum() for gradient in sums)) / tokens
    factor = min(1, clip_norm / norm) if clip_norm else 1
    for gpus in ((), ((8, 0),)):
        pretend_gpus(monkeypatch, *gpus)
        gradients, found_norm = mean_and_clip(sums, tf.constant(7.0), clip_norm)
        np.testing.assert_allclose(found_norm, norm, rtol=1e-6)
        for gradient, total in zip(gradients, sums, strict=True):
            assert gradient.shape == total.shape
            np.testing.assert_allclose(gradient, total * factor / tokens, rtol=1e-6)


def test_a_gpu_clips_no_gradient_that_overflowed(monkeypatch):
    pretend_gpus(monkeypatch, (8, 0))
    gradients, norm = mean_and_clip([tf.constant([np.inf]), tf.constant([1.0])], tf.constant(1.0), 0.5)
    assert not np.isfinite(norm)
    assert np.isnan(np.concatenate(gradients)).all()


@pytest.mark.minutes
def test_an_update_starts_few_kernels_on_a_gpu(monkeypatch):
    """The limits are the numbers of today: a part of an update that needs more has to be worth it."""
    pretend_gpus(monkeypatch, (8, 0))
    model = make_transformer(dropout=0.1, dtype="mixed_bfloat16")  # a layer on either side
    optimizer = make_optimizer(0.001, optimizer="adam", beta_1=0.9, beta_2=0.98, epsilon=1e-9)
    optimizer.build(model.trainable_variables)
    loss = TotalLoss(model, label_smoothing=0.1)
    step = TrainStep(loss, optimizer, tf.distribute.get_strategy(), clip_norm=1.0)
    update = step._update_graph.get_concrete_function()
    assert without_kernels(update) == set()
    kernels = kernels_launched(optimised_operations(update))
    limits = {"L2Loss": 1, "ResourceApplyAdam": len(model.trainable_variables), "FloorMod": 0, "ConcatV2": 1}
    limits |= LIMITS
    assert {kind: kernels[kind] for kind in limits if kernels[kind] > limits[kind]} == {}
    assert sum(kernels.values()) <= MOST_KERNELS, kernels
