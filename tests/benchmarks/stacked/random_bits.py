"""Random numbers that cost little on a GPU: a hash of the place, which XLA computes within the operation that needs it.

`jax.random` would write them to memory. The hash is the finaliser of MurmurHash3 (Appleby 2011).
"""

import jax.numpy as jnp
import numpy as np
from jax import lax


def mixed(seed, number):
    """Returns the seed of a place; None for None, where nothing is drawn."""
    return None if seed is None else _hash(seed + jnp.uint32(0x9E3779B9) * jnp.asarray(number, jnp.uint32))


def uniform(seed, shape):
    """Returns float32 numbers of the shape, from 0 up to 1."""
    places = lax.iota(jnp.uint32, int(np.prod(shape)))
    bits = _hash(_hash(places * jnp.uint32(0x9E3779B9) + seed) ^ (seed * jnp.uint32(0x27D4EB2F) + 1))
    return ((bits >> 8).astype(jnp.float32) * 2.0**-24).reshape(shape)


def dropout(x, rate, seed):
    """Sets a share of the numbers to zero and scales up the others (Srivastava et al. 2014); None drops nothing."""
    if seed is None:
        return x
    kept = (uniform(seed, x.shape) >= rate).astype(jnp.float32) / (1 - rate)
    return x * kept.astype(x.dtype)


def _hash(x):
    x = (x ^ (x >> 16)) * jnp.uint32(0x85EBCA6B)
    x = (x ^ (x >> 13)) * jnp.uint32(0xC2B2AE35)
    return x ^ (x >> 16)
