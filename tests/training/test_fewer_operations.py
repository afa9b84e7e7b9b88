"""Updates made in fewer operations are those of Keras: matrices made orthogonal together, Adam in one."""

import keras
import numpy as np
import pytest

from qkv.training.optimizers import FusedAdam, StackedMuon

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
