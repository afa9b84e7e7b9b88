"""The optimizers, which turn gradients into updates."""

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

    Raises:
        ValueError: unknown name.
    """
    common: dict[str, Any] = {"epsilon": epsilon, "name": name, "matrix_decay": weight_decay}
    if name == "adam":
        return FusedAdam(learning_rate, beta_1=beta_1, beta_2=beta_2, **common)
    if name == "muon":
        return StackedMuon(learning_rate, adam_beta_1=beta_1, adam_beta_2=beta_2, **common)
    raise ValueError(f"optimizer: expected adam or muon, found {name!r}")
