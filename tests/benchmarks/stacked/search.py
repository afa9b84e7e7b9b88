"""Greedy search without a cache: a GPU reads the whole prefix anew in the time that it takes to start."""

import jax.numpy as jnp
from jax import lax

from .transformer import BOS, EOS, PAD, decode, encode, logits


def translate(weights, source, heads, longest, dtype=jnp.bfloat16):
    """Returns the likeliest tokens step by step, `(B, longest)`: EOS or the limit ends them, then PAD."""
    memory, mask = encode(weights, source, heads, dtype=dtype)

    def step(place, ids):
        states = decode(weights, ids, memory, mask, heads)
        last = lax.dynamic_index_in_dim(states, place, 1, keepdims=False)
        before = lax.dynamic_index_in_dim(ids, place, 1, keepdims=False)
        scores = logits(weights, last).at[:, (PAD, BOS)].set(-jnp.inf)
        chosen = jnp.argmax(scores, -1).astype(ids.dtype)
        chosen = jnp.where((before == EOS) | (before == PAD), PAD, chosen)
        return lax.dynamic_update_index_in_dim(ids, chosen, place + 1, 1)

    ids = jnp.full((len(source), longest + 1), PAD, source.dtype).at[:, 0].set(BOS)
    return lax.fori_loop(0, longest, step, ids)[:, 1:]
