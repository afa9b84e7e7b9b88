"""Muon for matrices and Adam for the rest, as in `qkv.training.optimizers`, with a linear schedule."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

BETAS = 0.9, 0.98
EPSILON = 1e-9
CLIP_NORM = 1.0
MOMENTUM = 0.95
RMS_RATE = 0.2
NEWTON_SCHULZ = 3.4445, -4.7750, 2.0315


class State(NamedTuple):
    """A model in training: dicts of the same arrays.

    - weights: of the model.
    - means: the moving average of the gradients; Muon's momentum for matrices.
    - squares: that of the squared gradients; not used for matrices.
    """

    weights: Any
    means: Any
    squares: Any


def start(weights) -> State:
    """Returns the state before the first update."""
    return State(weights, *(jax.tree.map(jnp.zeros_like, weights) for _ in range(2)))  # no array twice: it is donated


def learning_rate(peak, update, total, warmup):
    """Returns the rate of an update, counted from 1: as `WarmupSchedule("linear", ...)`."""
    return peak * jnp.minimum(jnp.minimum(update / warmup, jnp.maximum((total - update + 1) / (total - warmup), 0)), 1)


def apply(state, gradients, settings, update, rate) -> State:
    """Makes an update, counted from 1, at a learning rate; settings are a `Candidate` of scalars."""
    norm = jnp.sqrt(sum((gradient * gradient).sum() for gradient in jax.tree.leaves(gradients)))
    clipped = jax.tree.map(lambda gradient: gradient * jnp.minimum(1.0, CLIP_NORM / norm), gradients)
    adam_rate = rate * jnp.sqrt(1 - BETAS[1] ** update) / (1 - BETAS[0] ** update)

    def changed(path, weight, mean, square, gradient):
        name = path[-1].key
        if name.endswith("_kernel"):
            mean = MOMENTUM * mean + gradient
            step = rate * RMS_RATE * max(weight.shape[-2:]) ** 0.5
            change = step * _orthogonal(gradient + MOMENTUM * mean) + settings.weight_decay * rate * weight
            return weight - change, mean, square
        mean = BETAS[0] * mean + (1 - BETAS[0]) * gradient
        square = BETAS[1] * square + (1 - BETAS[1]) * gradient * gradient
        change = adam_rate * mean / (jnp.sqrt(square) + EPSILON)
        decay = settings.embedding_decay * rate * weight if name == "embeddings" else 0
        return weight - change - decay, mean, square

    triples = jax.tree_util.tree_map_with_path(changed, *state, clipped)
    return State(*jax.tree.transpose(jax.tree.structure(gradients), jax.tree.structure((0, 0, 0)), triples))


def _orthogonal(x):
    """Orthogonalises matrices `(..., rows, columns)` by the Newton-Schulz iteration (Jordan et al. 2024)."""
    a, b, c = NEWTON_SCHULZ
    tall = x.shape[-2] > x.shape[-1]
    x = jnp.swapaxes(x, -1, -2) if tall else x
    x = x / (jnp.sqrt((x * x).sum((-1, -2), keepdims=True)) + 1e-7)
    for _ in range(5):
        square = x @ jnp.swapaxes(x, -1, -2)
        x = a * x + (b * square + c * (square @ square)) @ x
    return jnp.swapaxes(x, -1, -2) if tall else x
