"""The Transformer of the best preset as functions of its weights: post-norm, rotary positions, tied embeddings.

Weights are a dict: `embeddings` `(V, D)`, and for `encoder` and `decoder` a dict of arrays `(L, ...)`, a row a layer.
Layers run in `lax.scan`, so that XLA compiles one.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .random_bits import dropout, mixed

PAD, BOS, EOS = 0, 2, 3
EPSILON = 1e-5
ROTARY_BASE = 10000.0


def encode(weights, ids, heads, rate=0.0, seed=None, kept=None, dtype=jnp.bfloat16):
    """Returns the states of the sources `(B, S, D)` and the mask of their tokens `(B, 1, 1, S)`.

    Args:
        weights: of the model.
        ids: `(B, S)`, with EOS, then PAD.
        heads: H.
        rate: of dropout.
        seed: uint32 of dropout; None for none.
        kept: `(B, S)`, 0 for tokens whose embeddings are cut; None for none.
        dtype: of the states and products.
    """
    mask = (ids != PAD)[:, None, None]

    def layer(states, layer_weights_and_number):
        w, number = layer_weights_and_number
        layer_seed = mixed(seed, 101 * number + 1)
        states = _attend_to_itself(w, states, mask, heads, rate, layer_seed)
        return _feed_forward(w, states, rate, layer_seed), None

    states = _embed(weights["embeddings"], ids, rate, seed, kept, dtype)
    return _through_layers(layer, states, weights["encoder"]), mask


def decode(weights, ids, memory, memory_mask, heads, rate=0.0, seed=None, kept=None):
    """Returns the states of the targets `(B, T, D)`.

    Args:
        ids: `(B, T)`, BOS and the tokens before each position.
        memory, memory_mask: what `encode` returned.
        Others: as in `encode`.
    """
    causal = jnp.tril(jnp.ones((ids.shape[1],) * 2, bool))

    def layer(states, layer_weights_and_number):
        w, number = layer_weights_and_number
        layer_seed = mixed(seed, 103 * number + 2)
        states = _attend_to_itself(w, states, causal, heads, rate, layer_seed)
        query, key, value = (
            _split_heads(_dense(w, f"cross_{side}", x), heads)
            for side, x in (("query", states), ("key", memory), ("value", memory))
        )
        change = _dense(w, "cross_output", _attend(query, key, value, memory_mask))
        states = _add_and_normalize(w, "cross_norm", states, change, rate, mixed(layer_seed, 3))
        return _feed_forward(w, states, rate, layer_seed), None

    states = _embed(weights["embeddings"], ids, rate, seed, kept, memory.dtype)
    return _through_layers(layer, states, weights["decoder"])


def logits(weights, states):
    """Returns the unnormalised log-probabilities `(..., V)`, float32."""
    table = weights["embeddings"].astype(states.dtype)
    return jnp.matmul(states, table.T, preferred_element_type=jnp.float32)


def shift_right(ids):
    """Returns what the decoder reads to predict `ids` `(B, T)`."""
    return jnp.concatenate([jnp.full_like(ids[:, :1], BOS), ids[:, :-1]], 1)


def _through_layers(layer, states, side):
    numbers = jnp.arange(len(side["qkv_kernel"]), dtype=jnp.uint32)
    return lax.scan(layer, states, (side, numbers))[0]


def _embed(table, ids, rate, seed, kept, dtype):
    vectors = table[ids].astype(dtype) * table.shape[1] ** 0.5
    if kept is not None:
        vectors *= kept[..., None].astype(dtype)
    return dropout(vectors, rate, mixed(seed, 11))


def _attend_to_itself(w, states, mask, heads, rate, seed):
    query, key, value = (_split_heads(x, heads) for x in jnp.split(_dense(w, "qkv", states), 3, -1))
    change = _dense(w, "output", _attend(_rotate(query), _rotate(key), value, mask))
    return _add_and_normalize(w, "norm", states, change, rate, mixed(seed, 1))


def _feed_forward(w, states, rate, seed):
    change = _dense(w, "outer", jax.nn.relu(_dense(w, "inner", states)))
    return _add_and_normalize(w, "feed_forward_norm", states, change, rate, mixed(seed, 2))


def _dense(w, name, x):
    return jnp.matmul(x, w[f"{name}_kernel"].astype(x.dtype)) + w[f"{name}_bias"].astype(x.dtype)


def _add_and_normalize(w, name, states, change, rate, seed):
    x = (states + dropout(change, rate, seed)).astype(jnp.float32)
    centred = x - x.mean(-1, keepdims=True)
    normal = centred * lax.rsqrt((centred * centred).mean(-1, keepdims=True) + EPSILON)
    return (normal * w[f"{name}_gamma"] + w[f"{name}_beta"]).astype(states.dtype)


def _split_heads(x, heads):
    return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)


def _attend(query, key, value, mask):
    query = query * query.shape[-1] ** -0.5
    scores = jnp.einsum("bhtk,bhsk->bhts", query, key, preferred_element_type=jnp.float32)
    attention_weights = jax.nn.softmax(jnp.where(mask, scores, -1e30), -1).astype(value.dtype)
    context = jnp.einsum("bhts,bhsk->bthk", attention_weights, value)
    return context.reshape(*context.shape[:2], -1)


def _rotate(x):
    """Turns pairs of coordinates by their position, see `qkv.attention.relative_positions`."""
    length, size = x.shape[-2:]
    frequencies = np.float32(ROTARY_BASE ** (-np.arange(0, size, 2) / size))
    angles = np.arange(length, dtype="float32")[:, None] * frequencies
    cosines, sines = np.cos(angles), np.sin(angles)
    first, second = jnp.split(x.astype(jnp.float32), 2, -1)
    turned = [first * cosines - second * sines, second * cosines + first * sines]
    return jnp.concatenate(turned, -1).astype(x.dtype)
