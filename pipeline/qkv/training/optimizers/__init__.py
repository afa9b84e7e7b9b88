"""The optimizers, which turn gradients into updates."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras

from .adam import FusedAdam
from .muon import StackedMuon


def make_optimizer(
    name: str,
    learning_rate: Any,
    *,
    beta_1: float,
    beta_2: float,
    epsilon: float,
    weight_decay: float = 0.0,
    ema_decay: float | None = None,
) -> keras.optimizers.Optimizer:
    """Makes an optimizer by its name.

    Args:
        name: `adam` (Kingma and Ba 2015), or `muon` (Jordan et al. 2024): momentum made orthogonal for matrices, in the
            scale of Adam's updates (Liu et al. 2025, section 2.2), and Adam for embeddings and vectors.
        learning_rate: a number or a schedule.
        beta_1: the decay per update of Adam's mean of the gradients.
        beta_2: the decay per update of Adam's mean of the squared gradients.
        epsilon: added to Adam's divisor against division by zero.
        weight_decay: each update shrinks every matrix by this number times the learning rate (Loshchilov and Hutter
            2019); token embeddings and vectors are not decayed.
        ema_decay: the decay per update of the moving average of the weights; None for no average.

    Raises:
        ValueError: unknown name.
    """
    common: dict[str, Any] = {"epsilon": epsilon, "name": name, "matrix_decay": weight_decay}
    if ema_decay is not None:
        common |= {"use_ema": True, "ema_momentum": ema_decay}
    if name == "adam":
        return FusedAdam(learning_rate, beta_1=beta_1, beta_2=beta_2, **common)
    if name == "muon":
        return StackedMuon(learning_rate, adam_beta_1=beta_1, adam_beta_2=beta_2, **common)
    raise ValueError(f"optimizer: expected adam or muon, found {name!r}")


def moving_averages(optimizer: keras.optimizers.Optimizer | None) -> list[Any]:
    """Returns the moving average of each trainable variable, in order; an empty list if the optimizer keeps none."""
    return optimizer._model_variables_moving_average if optimizer is not None and optimizer.use_ema else []


@contextmanager
def averaged_weights(model: keras.Model, optimizer: keras.optimizers.Optimizer) -> Iterator[None]:
    """Gives the model the moving average of its weights within the block, and its own weights, bit for bit, after it.

    Without a moving average the model is not changed.
    """
    averages = moving_averages(optimizer)
    variables = model.trainable_variables if averages else []
    weights = [keras.ops.convert_to_numpy(variable) for variable in variables]
    for variable, average in zip(variables, averages, strict=True):
        variable.assign(average)
    try:
        yield
    finally:
        for variable, value in zip(variables, weights, strict=True):
            variable.assign(value)
