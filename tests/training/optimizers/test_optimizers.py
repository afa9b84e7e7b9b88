"""The optimizers by name: what one update does to matrices, embeddings and vectors."""

import keras
import numpy as np
import pytest

from qkv.training.optimizers import OPTIMIZER_CLASSES, make_optimizer
from tests.support.tiny_models import make_transformer

RATE = 0.01


def updates_of(name, **settings):
    """What one update by random gradients adds to each variable, with its gradient."""
    model = make_transformer()
    optimizer = make_optimizer(RATE, optimizer=name, beta_1=0.9, beta_2=0.98, epsilon=1e-9, **settings)
    optimizer.build(model.trainable_variables)
    generator = np.random.default_rng(0)
    gradients = [generator.normal(size=variable.shape).astype("float32") for variable in model.trainable_variables]
    before = [np.array(variable) for variable in model.trainable_variables]
    optimizer.apply([keras.ops.convert_to_tensor(gradient) for gradient in gradients])
    changes = [np.array(variable) - old for variable, old in zip(model.trainable_variables, before, strict=True)]
    return model.trainable_variables, gradients, changes


def test_the_first_update_of_adam_is_the_sign_of_the_gradient():
    for _, gradient, change in zip(*updates_of("adam"), strict=True):
        np.testing.assert_allclose(change, -RATE * np.sign(gradient), rtol=1e-3, atol=1e-6)


def test_muon_turns_matrices_by_nearly_orthogonal_steps_and_leaves_the_rest_to_adam():
    matrices = 0
    for variable, gradient, change in zip(*updates_of("muon"), strict=True):
        if len(variable.shape) == 2 and "embedding" not in variable.path:
            matrices += 1
            scale = RATE * 0.2 * np.sqrt(max(variable.shape))  # Liu et al. 2025, equation 4
            values = np.linalg.svd(change / scale, compute_uv=False)
            assert np.median(values) > 0.6 and values.max() < 1.3  # the gradient's smallest are not lifted all the way
            u, _, v = np.linalg.svd(gradient, full_matrices=False)
            assert np.sum(-change / scale * (u @ v)) > 0.9 * len(values) * values.mean()  # towards the nearest one
        else:
            np.testing.assert_allclose(change, -RATE * np.sign(gradient), rtol=1e-3, atol=1e-6)
    assert matrices > 10


@pytest.mark.parametrize("name", ["adam", "muon"])
def test_weight_decay_takes_a_part_of_each_matrix_and_nothing_of_embeddings_and_vectors(name):
    keras.utils.set_random_seed(1)
    variables, _, changes = updates_of(name)
    keras.utils.set_random_seed(1)
    decayed, _, decayed_changes = updates_of(name, weight_decay=0.5)
    matrices = 0
    for variable, change, old, decayed_change in zip(decayed, decayed_changes, variables, changes, strict=True):
        before = np.array(old) - decayed_change
        is_matrix = len(variable.shape) == 2 and "embedding" not in variable.path
        matrices += is_matrix
        expected = -RATE * 0.5 * before if is_matrix else np.zeros_like(before)
        np.testing.assert_allclose(change - decayed_change, expected, atol=1e-6)
    assert matrices > 10


@pytest.mark.parametrize("name", OPTIMIZER_CLASSES)
def test_the_config_of_an_optimizer_has_all_its_arguments(name):
    optimizer = make_optimizer(0.125, optimizer=name, beta_1=0.5, beta_2=0.75, epsilon=0.25, weight_decay=0.375)
    again = type(optimizer).from_config(optimizer.get_config())
    assert again.get_config() == optimizer.get_config()
    assert {"beta_1": 0.5, "beta_2": 0.75, "epsilon": 0.25, "matrix_decay": 0.375}.items() <= again.get_config().items()
