"""What turns gradients into updates."""

from typing import Any

import keras


def make_optimizer(
    name: str, learning_rate: Any, *, beta_1: float, beta_2: float, epsilon: float
) -> keras.optimizers.Optimizer:
    """An optimizer by its name.

    Args:
        name: `adam` (Kingma and Ba 2015), or `muon` (Jordan et al. 2024): momentum made orthogonal for matrices, in the
            scale of Adam's updates (Liu et al. 2025, section 2.2), and Adam for embeddings and vectors.
        learning_rate: a number or a schedule.
        beta_1: Adam's decay of the mean of gradients, per update.
        beta_2: Adam's decay of the mean of squared gradients, per update.
        epsilon: Adam's guard against division by zero.

    Raises:
        ValueError: unknown name.
    """
    if name == "adam":
        return keras.optimizers.Adam(learning_rate, beta_1=beta_1, beta_2=beta_2, epsilon=epsilon)
    if name == "muon":
        return keras.optimizers.Muon(
            learning_rate,
            adam_beta_1=beta_1,
            adam_beta_2=beta_2,
            epsilon=epsilon,
            weight_decay=None,
            adam_weight_decay=None,
        )
    raise ValueError(f"optimizer: adam or muon. Received: {name!r}")
