"""Updates made in fewer operations are those of Keras: matrices made orthogonal together, Adam in one; on a GPU all
gradients are clipped together. The kernels that a GPU starts are counted."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from qkv.text.batch import Batch
from qkv.training.loss import TotalLoss
from qkv.training.optimizers import FusedAdam, StackedMuon, make_optimizer, mean_and_clip
from qkv.training.step import TrainStep
from tests.support.devices import kernels_launched, optimised_operations, pretend_gpus, without_kernels
from tests.support.tiny_models import MODELS, make_transformer
from tests.support.training import batch_of

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
MOST_KERNELS = 530  # of an update of a layer on either side in bfloat16
MOST_OF_A_KIND = {"Cast": 60, "Mul": 92, "Transpose": 22, "Fill": 20, "RealDiv": 2, "L2Loss": 1, "FloorMod": 0}


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
def test_gradients_clipped_as_one_vector_are_those_clipped_one_by_one(clip_norm):
    generator = np.random.default_rng(0)
    sums = [tf.constant(generator.normal(size=shape), tf.float32) for shape in ((2, 3), (5,), (4, 1), ())]
    tokens = 7
    norm = np.sqrt(sum((gradient.numpy() ** 2).sum() for gradient in sums)) / tokens
    factor = min(1, clip_norm / norm) if clip_norm else 1
    for joined in (False, True):
        gradients, found_norm = mean_and_clip(sums, tf.constant(7.0), clip_norm, joined=joined)
        np.testing.assert_allclose(found_norm, norm, rtol=1e-6)
        for gradient, total in zip(gradients, sums, strict=True):
            assert gradient.shape == total.shape
            np.testing.assert_allclose(gradient, total * factor / tokens, rtol=1e-6)


def test_one_vector_with_an_overflow_is_no_number_throughout():
    gradients, norm = mean_and_clip([tf.constant([np.inf]), tf.constant([1.0])], tf.constant(1.0), 0.5, joined=True)
    assert not np.isfinite(norm)
    assert np.isnan(np.concatenate(gradients)).all()


def weights_after_updates(architecture, dtype, gpus, monkeypatch):
    """The weights of a tiny model after two updates, computed as on these GPUs."""
    pretend_gpus(monkeypatch, *gpus)
    keras.utils.set_random_seed(3)
    kind, sizes = MODELS[architecture]
    model = kind(**sizes | {"dropout": 0.2, "dtype": dtype})
    model.build()
    optimizer = keras.optimizers.SGD(0.1)  # Adam makes much of gradients that are zero but for rounding
    optimizer.build(model.trainable_variables)
    step = TrainStep(TotalLoss(model, label_smoothing=0.1), optimizer, tf.distribute.get_strategy(), clip_norm=0.5)
    for rows in ([0, 1, 2, 3], [3, 1]):
        step(Batch(*(tf.constant(ids) for ids in batch_of(rows).arrays)))
    return [variable.numpy() for variable in model.variables]  # those of the generators of dropout, too


@pytest.mark.minutes
@pytest.mark.parametrize(
    ("architecture", "dtype", "tolerance"),
    [("transformer of other sizes", "float32", 1e-6), ("recurrent", "mixed_bfloat16", 2**-8)],
)
def test_updates_as_on_a_gpu_are_those_of_a_processor(architecture, dtype, tolerance, monkeypatch):
    on_processor, on_gpu = (weights_after_updates(architecture, dtype, gpus, monkeypatch) for gpus in ((), ((8, 0),)))
    for one, other in zip(on_gpu, on_processor, strict=True):
        np.testing.assert_allclose(one, other, atol=tolerance)


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
    assert {kind: kernels[kind] for kind, most in MOST_OF_A_KIND.items() if kernels[kind] > most} == {}
    assert kernels["ResourceApplyAdam"] == len(model.trainable_variables)
    assert sum(kernels.values()) <= MOST_KERNELS, kernels
