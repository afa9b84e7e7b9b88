"""The loss of a candidate, see `Candidate`, and what validation measures."""

import jax
import jax.numpy as jnp

from .random_bits import mixed, uniform
from .transformer import PAD, decode, encode, logits, shift_right


def loss(weights, settings, source, target, seed, heads, dtype=jnp.bfloat16):
    """Returns the loss of a batch a target token, and the cross-entropy of the first pass.

    Args:
        weights: of the model.
        settings: a `Candidate` of scalars.
        source, target: ids `(B, S)` and `(B, T)`, with EOS, then PAD.
        seed: uint32.
        heads: H.
        dtype: of the products.
    """
    twice = [jnp.concatenate([ids, ids]) for ids in (source, shift_right(target), target)]
    shares = jnp.repeat(jnp.stack([settings.first_cut, settings.second_cut]), len(source))[:, None]
    kept = [uniform(mixed(seed, number), ids.shape) >= shares for number, ids in enumerate(twice[:2], 21)]
    memory, mask = encode(weights, twice[0], heads, settings.dropout, mixed(seed, 31), kept[0], dtype)
    states = decode(weights, twice[1], memory, mask, heads, settings.dropout, mixed(seed, 32), kept[1])
    first, second = jnp.split(_log_probabilities(weights, states.reshape(-1, states.shape[-1])), 2)
    token_weights = (target != PAD).astype(jnp.float32).reshape(-1)

    def cross_entropy(log_probabilities):
        right = jnp.take_along_axis(log_probabilities, target.reshape(-1, 1), 1)[:, 0]
        smoothing = settings.label_smoothing
        return -(token_weights * ((1 - smoothing) * right + smoothing * log_probabilities.mean(-1))).sum()

    divergences = (settings.forward * jnp.exp(first) - settings.backward * jnp.exp(second)) * (first - second)
    divergence = (token_weights * divergences.sum(-1)).sum()
    tokens, entropy = token_weights.sum(), cross_entropy(first)
    total = (entropy + settings.second_pass * cross_entropy(second) + divergence) / (1 + settings.second_pass)
    return total / tokens, entropy / tokens


def validation_loss(weights, source, target, heads):
    """Returns the cross-entropy without label smoothing, nats a token."""
    memory, mask = encode(weights, source, heads)
    log_probabilities = _log_probabilities(weights, decode(weights, shift_right(target), memory, mask, heads))
    right = jnp.take_along_axis(log_probabilities, target[..., None], -1)[..., 0]
    return -(right * (target != PAD)).sum() / (target != PAD).sum()


def _log_probabilities(weights, states):
    return jax.nn.log_softmax(logits(weights, states), -1)
