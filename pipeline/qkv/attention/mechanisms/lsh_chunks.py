"""The chunks into which `LSH` sorts positions: where each position is, and which pairs are compared.

Letters: B batch, H heads, T target (query) positions, S source (key) positions and as many, C chunks, m positions in a
chunk. A position in a chunk is called a slot; some are empty.
"""

from typing import Any, NamedTuple

from keras import ops

from ...layers.dynamic_shape import dynamic_shape


class Places(NamedTuple):
    """Where one round of hashing puts each position. All are int `(B, H, S)`."""

    chunk: Any
    """The chunk of a position."""
    before: Any
    """The chunk before that one in the same bucket, or -1."""
    offset: Any
    """The position's place in its chunk."""
    slot: Any
    """Its index among the slots of the whole batch, `(B, C, H, m)` flattened."""


def count_chunks(length, buckets, chunk_length):
    """Returns C, a number of chunks that suffices however the positions are distributed over the buckets."""
    return (length + buckets * (chunk_length - 1)) // chunk_length


def place(bucket, buckets, chunk_length):
    """Sorts positions by bucket, with a counting sort: those of one bucket stay in order, and each bucket starts a
    chunk.

    Args:
        bucket: the bucket of each position, int `(B, H, S)`.
        buckets: the number of buckets.
        chunk_length: m.

    Returns:
        `Places`.
    """
    member = ops.one_hot(bucket, buckets, dtype="int32")  # (B, H, S, buckets)
    rank = ops.sum(ops.cumsum(member, axis=2) * member, axis=-1) - 1
    chunks = -(-ops.sum(member, axis=2, keepdims=True) // chunk_length)
    first = ops.sum((ops.cumsum(chunks, axis=-1) - chunks) * member, axis=-1)
    chunk, offset = first + rank // chunk_length, rank % chunk_length
    before = ops.where(rank < chunk_length, -1, chunk - 1)
    batch, heads, length = dynamic_shape(bucket)
    row = range_along(batch, 0, 3) * count_chunks(length, buckets, chunk_length) + chunk
    return Places(chunk, before, offset, (row * heads + range_along(heads, 1, 3)) * chunk_length + offset)


def spread(window, places):
    """Spreads weights on two chunks over all keys: `(B, H, T, 2 m) -> (B, H, T, S)`."""
    width = window.shape[-1]
    batch, heads, length = dynamic_shape(places.chunk)
    distance = ops.expand_dims(places.chunk, 2) - ops.expand_dims(places.chunk, 3)  # (B, H, T, S)
    column = (distance + 1) * (width // 2) + ops.expand_dims(places.offset, 2)
    inside = ops.logical_and(column >= 0, column < width)
    rows = ops.reshape(ops.arange(batch * heads * length, dtype="int32"), (batch, heads, length, 1))
    return ops.where(inside, ops.take(ops.reshape(window, (-1,)), rows * width + ops.clip(column, 0, width - 1)), 0.0)


def shares_window(places, source):
    """Returns whether a round puts two positions into the same chunk, or the key into the chunk just before the query's
    in their bucket.

    Args:
        places: the places of the round.
        source: the positions to compare, int `(B, C, H, m)`, each as a query with those of its chunk and the one
            before as keys.

    Returns:
        bool `(B, C, H, m, 2 m)`.
    """
    chunk, before = (ops.expand_dims(take_rows(table, source), -1) for table in (places.chunk, places.before))
    keys = ops.expand_dims(with_chunk_before(ops.squeeze(chunk, -1), axis=-1), -2)
    return ops.logical_or(keys == chunk, keys == before)


def with_chunk_before(x, axis):
    """Joins each chunk of `(B, C, H, m, ...)` to the previous one along `axis`; the first is joined to zeros."""
    before = ops.concatenate([ops.zeros_like(x[:, :1]), x[:, :-1]], axis=1)
    return ops.concatenate([before, x], axis=axis)


def take_rows(x, index, axes=3):
    """Takes rows of x, whose first `axes` axes are indexed as one."""
    return ops.take(ops.reshape(x, (-1, *x.shape[axes:])), index, axis=0)


def pick_mask(mask, queries, keys):
    """Returns the mask for pairs of positions: queries `(B, C, H, m, 1)` and keys `(B, C, H, 1, 2 m)`."""
    batch, _, heads = dynamic_shape(queries)[:3]
    index = 0
    for axis, place in enumerate((range_along(batch, 0, 5), range_along(heads, 2, 5), queries, keys)):
        size = dynamic_shape(mask)[axis]
        index = index * size + (0 if mask.shape[axis] == 1 else ops.minimum(place, size - 1))
    return ops.take(ops.reshape(mask, (-1,)), index)


def range_along(size, axis, axes):
    """Returns 0, 1, ... along one of `axes` axes."""
    return ops.reshape(ops.arange(size, dtype="int32"), [size if a == axis else 1 for a in range(axes)])
