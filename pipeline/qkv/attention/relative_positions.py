"""Rotary positions and ALiBi: scores depend on the distance between two positions.

Neither changes the values.

Letters: B batch, H heads, T target (query) positions, S source (key) positions, K key size of a head.
"""

from typing import Any, NamedTuple

import numpy as np
from keras import ops
from keras.backend import standardize_dtype

from ..layers.keras_layers import check_sizes, dynamic_shape

__all__ = ["Distances", "Rotation", "alibi_bias", "alibi_slopes", "rotate", "rotation"]


class Rotation(NamedTuple):
    """The angles by which `rotate` turns each pair of coordinates at each position.

    - cosines: of the angles, float32 `(T, K / 2)` or `(B, T, K / 2)`.
    - sines: of the angles, float32 of the same shape.
    """

    cosines: Any
    sines: Any


class Distances(NamedTuple):
    """The argument of `SelfAttention` that makes scores depend on distances.

    - rotation: the `Rotation` of queries and keys, or None.
    - bias: a tensor added to the scores, broadcastable to `(B, H, T, S)`, such as an `alibi_bias`; or None.
    """

    rotation: Rotation | None = None
    bias: Any = None


NO_DISTANCES = Distances()


def rotation(positions: Any, key_dim: int) -> Rotation:
    """Computes the angles of rotary positions: `position / 10000^(2 i / K)` for pair i (Su et al. 2021, section 3.2.2).

    Args:
        positions: int `(T,)` or `(B, T)`, the positions of the tokens, from 0.
        key_dim: K, an even number.

    Returns:
        A `Rotation`, for the `Distances` of `SelfAttention`.

    Raises:
        ValueError: K is odd.

    Example:
        >>> rotation(ops.arange(3), key_dim=4).cosines.shape
        TensorShape([3, 2])
    """
    if key_dim % 2:
        raise ValueError(f"key_dim: rotary positions turn pairs of coordinates; expected an even size, found {key_dim}")
    # Computed by NumPy in float64: the frequencies are constants of the graph.
    frequencies = np.float32(10000.0 ** (-np.arange(0, key_dim, 2) / key_dim))
    angles = ops.expand_dims(ops.cast(positions, "float32"), -1) * frequencies
    return Rotation(ops.cos(angles), ops.sin(angles))


def rotate(x: Any, rotation: Rotation) -> Any:
    """Rotates coordinates i and K / 2 + i of queries or keys by the position's angle (Su et al. 2021, equation 34).

    The dot product of two rotated vectors depends on the difference of their positions only. Rotation does not change
    the norm of a vector. The paper pairs adjacent coordinates instead, which is the same up to the order of a
    projection's columns.

    Args:
        x: `(B, H, T, K)`, queries or keys, any float type.
        rotation: the `Rotation` of the T positions.

    Returns:
        `(B, H, T, K)` of the type of x; computed in float32 or higher precision.
    """
    wide = "float64" if standardize_dtype(x.dtype) == "float64" else "float32"
    # (1, T, K / 2) or (B, 1, T, K / 2); Keras rounds the arguments of a layer of half precision.
    cosines, sines = (ops.expand_dims(ops.cast(side, wide), -3) for side in rotation)
    first, second = ops.split(ops.cast(x, wide), 2, axis=-1)
    rotated = ops.concatenate([first * cosines - second * sines, second * cosines + first * sines], axis=-1)
    return ops.cast(rotated, x.dtype)


def alibi_slopes(num_heads: int) -> Any:
    """Returns ALiBi's slope for each head: how fast its scores fall with the distance (Press et al. 2022, section 3 and
    its appendix).

    If H is a power of two, the slope of head h = 1 ... H is `2^(-8 h / H)`. Otherwise the heads get the slopes for the
    next lower power of two, and then every other slope for the next higher power.

    Args:
        num_heads: H.

    Returns:
        float32 `(H,)`.

    Raises:
        ValueError: `num_heads` is not a whole number of at least 1.

    Example:
        >>> alibi_slopes(4).tolist()
        [0.25, 0.0625, 0.015625, 0.00390625]
    """
    check_sizes(num_heads=num_heads)

    def slopes(heads):
        """Returns the slopes for a number of heads that is a power of two."""
        return 2.0 ** (-8 * np.arange(1, heads + 1) / heads)

    lower = 2 ** (num_heads.bit_length() - 1)
    between = slopes(2 * lower)[::2]
    return np.float32(np.concatenate([slopes(lower), between])[:num_heads])


def alibi_bias(query_positions: Any, key_positions: Any, num_heads: int) -> Any:
    """Computes the bias that ALiBi adds to the scores: `-slope |t - s|` (Press et al. 2022, equation in section 3).

    The paper has a causal mask, so keys are never after the query. Here distances count in both directions, because an
    encoder has keys on both sides.

    Args:
        query_positions: int `(T,)` or `(B, T)`, t.
        key_positions: int `(S,)` or `(B, S)`, s.
        num_heads: H.

    Returns:
        float32 `(1, H, T, S)`, or `(B, H, T, S)` if positions have two axes; for the `Distances` of
        `SelfAttention`.

    Raises:
        ValueError: `num_heads` is not a whole number of at least 1.

    Example:
        >>> alibi_bias(ops.array([2]), ops.arange(4), num_heads=1)[0, 0].numpy().tolist()  # the slope is 1 / 256
        [[-0.0078125, -0.00390625, 0.0, -0.00390625]]
    """
    queries, keys = (ops.cast(side, "float32") for side in (query_positions, key_positions))
    distances = ops.absolute(ops.expand_dims(queries, -1) - ops.expand_dims(keys, -2))
    distances = ops.reshape(distances, (-1, 1, *dynamic_shape(distances)[-2:]))
    return 0.0 - distances * alibi_slopes(num_heads)[:, None, None]  # not -0.0


def make_distances(kind: str, query_positions: Any, key_positions: Any, key_dim: int, num_heads: int) -> Distances:
    """Makes the `Distances` of a self-attention layer.

    Args:
        kind: "rotary" or "alibi".
        query_positions: int `(T,)` or `(B, T)`.
        key_positions: int `(S,)` or `(B, S)`.
        key_dim: K.
        num_heads: H.

    Returns:
        `Distances`: a rotation of the query positions for "rotary", a bias for "alibi".

    Raises:
        ValueError: the kind is "rotary", and K is odd.
    """
    if kind == "rotary":
        return Distances(rotation=rotation(query_positions, key_dim))
    return Distances(bias=alibi_bias(query_positions, key_positions, num_heads))
