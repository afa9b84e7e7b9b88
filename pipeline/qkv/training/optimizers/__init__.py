"""The optimizers, which turn gradients into updates."""

from typing import Any

import keras

from .adam import FusedAdam
from .muon import StackedMuon


def make_optimizer(
    schedule: Any,
    *,
    optimizer: str,
    beta_1: float,
    beta_2: float,
    epsilon: float,
    weight_decay: float = 0.0,
) -> keras.optimizers.Optimizer:
    """Makes an optimizer by its name.

    Args:
        schedule: of the learning rate, or a number.
        optimizer: `adam` (Kingma and Ba 2015), or `muon` (Jordan et al. 2024): momentum made orthogonal for matrices,
            in the scale of Adam's updates (Liu et al. 2025, section 2.2), and Adam for embeddings and vectors.
        beta_1: the decay per update of Adam's mean of the gradients.
        beta_2: the decay per update of Adam's mean of the squared gradients.
        epsilon: added to Adam's divisor against division by zero.
        weight_decay: each update shrinks every matrix by this number times the learning rate (Loshchilov and Hutter
            2019); token embeddings and vectors are not decayed.

    Raises:
        ValueError: unknown name.
    """
    common: dict[str, Any] = {"epsilon": epsilon, "name": optimizer, "matrix_decay": weight_decay}
    if optimizer == "adam":
        return FusedAdam(schedule, beta_1=beta_1, beta_2=beta_2, **common)
    if optimizer == "muon":
        return StackedMuon(schedule, adam_beta_1=beta_1, adam_beta_2=beta_2, **common)
    raise ValueError(f"optimizer: expected adam or muon, found {optimizer!r}")
