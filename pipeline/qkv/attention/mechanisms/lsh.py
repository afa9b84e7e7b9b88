"""Self-attention among positions with similar vectors, which are found by hashing instead of comparing all pairs.

Letters: B batch, H heads, T target (query) positions, S source (key) positions and as many, K key size, V value size of
a head, C chunks, m positions in a chunk. A position in a chunk is called a slot; some are empty.
"""

import math
from typing import Any, NamedTuple

import keras
from keras import ops

from ...layers.keras_layers import check_sizes, dynamic_shape
from ..masks import LOWEST, masked_softmax
from ..scores import SCORE_CLASSES
from .softmax import Mechanism

SELF_SCORE = -1e15  # below every score and above every masked one


@keras.saving.register_keras_serializable(package="qkv")
class LSH(Mechanism):
    """Softmax over those keys that a locality-sensitive hash finds (Reformer, Kitaev et al. 2020, section 2).

    Queries and keys are one projection, keys brought to unit length. A hash `argmax([k R; -k R])` with random R puts
    each position into one of `buckets`; similar keys are likely to share one. The positions of a bucket, in order, are
    cut into chunks of `chunk_length`, and a query attends to its own chunk and the one before it in its bucket. Over
    several `rounds` it attends to the union of what it found, each key counted once: round r adds
    `exp(z_r - z) softmax_r(score - log N) value`, where z_r is the log of the sum of exponentials in the round, z in
    all rounds, and N the number of rounds that found the key (appendix A, equations 14 to 16). A position attends to
    itself only if the mask hides all other keys that it found.

    The number of scores is at most `rounds * (S + buckets * (chunk_length - 1)) * 2 * chunk_length`, which is linear in
    S. `buckets=1` with `chunk_length >= S` compares everything and is softmax attention, except for the rule that a
    position does not attend to itself.

    **Difference from the paper.** In the paper all positions, sorted by bucket, are cut as one row. Where a chunk
    begins then depends on later positions, so the keys that a position sees would reveal its future. Here every bucket
    starts a chunk of its own: under a causal mask a context is a function of the past alone, and padding at the end
    changes nothing. The price is at most `buckets * (chunk_length - 1)` empty slots.

    **Randomness.** In training R is drawn anew each time, so that no two positions stay separated for good. Otherwise R
    is a non-trainable weight: the same input always gets the same attention, also after saving and loading.

    The returned weights are summed over the rounds. They alone take memory for T * S numbers; a graph
    (`tf.function`, `jax.jit`) omits them if they are not used.

    Args:
        buckets: 1, or an even number.
        chunk_length: m. Few slots stay empty if it is at most about half the average bucket, `S / buckets`.
        rounds: number of hash functions; more of them find more of the keys to which the full softmax gives weight.
        seed: as in `Mechanism`, and the seed of the random R.
        score: dot, scaled_dot or cosine, which grow as the angle shrinks; the hash sorts by angle.
        dropout: as in `Mechanism`.

    Call arguments and returns: as in `Mechanism`, with T = S, and queries and keys from one projection.

    Raises:
        ValueError: an odd number of buckets, a score that does not depend on the angle, or T other than S.

    Example:
        >>> x = keras.random.normal((1, 2, 5, 4))
        >>> context, weights = LSH(buckets=2, chunk_length=2, rounds=2, seed=1)(x, x, x)
        >>> context.shape, weights.shape
        (TensorShape([1, 2, 5, 4]), TensorShape([1, 2, 5, 5]))
    """

    shares_query_and_key = True

    def __init__(self, buckets=4, chunk_length=16, rounds=4, seed=None, **kwargs):
        super().__init__(seed=seed, **kwargs)
        check_sizes(buckets=buckets, chunk_length=chunk_length, rounds=rounds)
        if buckets != 1 and buckets % 2:
            raise ValueError(f"buckets: expected 1 or an even number, found {buckets}")
        if not self.score.by_angle:
            by_angle = ", ".join(name for name, score in SCORE_CLASSES.items() if score.by_angle)
            raise ValueError(f"score: lsh hashes angles; expected one of {by_angle}, found {self.score_name!r}")
        self.buckets = buckets
        self.chunk_length = chunk_length
        self.rounds = rounds
        # The seed must differ from the weight's, or the first update would draw the same numbers.
        self.seed_generator = keras.random.SeedGenerator(None if seed is None else seed + 1)

    def build(self, query_shape, key_shape, value_shape):
        super().build(query_shape, key_shape, value_shape)
        shape = (self.rounds, key_shape[1], key_shape[-1], max(1, self.buckets // 2))
        normal = keras.initializers.RandomNormal(stddev=1.0, seed=self.seed)
        self.rotations = self.add_weight(
            name="rotations", shape=shape, initializer=normal, trainable=False, autocast=False
        )

    def call(self, query, key, value, mask=None, training=None):
        queries, keys = query.shape[2], key.shape[2]
        if None not in (queries, keys) and queries != keys:
            raise ValueError(f"lsh is for self-attention: expected as many queries as keys, found {queries} and {keys}")
        unit = ops.normalize(ops.cast(key, "float32"), axis=-1, epsilon=1e-6)
        if mask is not None and len(mask.shape) != 4:
            raise ValueError(f"mask: expected shape (B or 1, H or 1, T or 1, S), found {tuple(mask.shape)}")
        rotations = keras.random.normal(self.rotations.shape, seed=self.seed_generator) if training else self.rotations
        rounds = [place(self._hash(unit, rotations[r]), self.buckets, self.chunk_length) for r in range(self.rounds)]
        unit = ops.cast(unit, key.dtype)
        found = [self._attend(query, unit, value, mask, rounds, r, training) for r in range(self.rounds)]
        parts, log_sums, windows = zip(*found, strict=True)
        shares = ops.split(masked_softmax(ops.concatenate(log_sums, axis=-1)), self.rounds, axis=-1)
        context = sum(ops.cast(share, part.dtype) * part for share, part in zip(shares, parts, strict=True))
        weights = [scatter_to_keys(window, places) for window, places in zip(windows, rounds, strict=True)]
        return context, sum(share * part for share, part in zip(shares, weights, strict=True))

    def _hash(self, unit, rotation):
        """Returns the bucket of each position by one hash: `(B, H, S, K)`, `(H, K, buckets / 2) -> (B, H, S)`."""
        rotated = ops.einsum("bhsk,hkn->bhsn", unit, ops.cast(rotation, unit.dtype))
        if self.buckets == 1:
            return ops.zeros_like(rotated[..., 0], dtype="int32")
        return ops.argmax(ops.concatenate([rotated, -rotated], axis=-1), axis=-1)

    def _attend(self, query, key, value, mask, rounds, r, training):
        """Attends to the keys that round r finds.

        Returns:
            For each position its context `(B, H, S, V)`, the log of the sum of the exponentials of its scores
            `(B, H, S, 1)`, and its weights `(B, H, S, 2 m)` on the chunk before its own and its own.
        """
        batch, heads, length = dynamic_shape(query)[:3]
        slots = (batch, count_chunks(length, self.buckets, self.chunk_length), heads, self.chunk_length)
        # The index of each slot's position among all of the batch, (B, H, S) flattened; -1 in an empty slot.
        numbers = ops.arange(1, batch * heads * length + 1, dtype="int32")
        source = ops.scatter(ops.reshape(rounds[r].slot, (-1, 1)), numbers, (math.prod(slots),)) - 1
        source = ops.reshape(source, slots)
        filled, source = source >= 0, ops.maximum(source, 0)

        query = take_rows(query, source)
        key = with_chunk_before(take_rows(key, source), axis=-2)
        value = with_chunk_before(take_rows(value, source), axis=-2)
        scores = self.score(*(ops.reshape(side, (-1, heads, *side.shape[-2:])) for side in (query, key)))
        scores = ops.reshape(ops.cast(scores, "float32"), (*slots, 2 * self.chunk_length))

        seen = [shares_window(places, source) for places in rounds]
        times = sum(ops.cast(pairs, "float32") for pairs in seen)
        allowed = ops.logical_and(seen[r], ops.expand_dims(with_chunk_before(filled, axis=-1), -2))
        queries = ops.expand_dims(source % length, -1)
        keys = ops.expand_dims(with_chunk_before(source % length, axis=-1), -2)
        if mask is not None:
            allowed = ops.logical_and(allowed, pick_mask(mask, queries, keys))
        scores = ops.where(queries == keys, SELF_SCORE, scores - ops.log(ops.maximum(times, 1.0)))
        log_sum = ops.logsumexp(ops.where(allowed, scores, LOWEST), axis=-1, keepdims=True)
        weights = masked_softmax(scores, allowed)
        context = ops.matmul(ops.cast(self.dropout(weights, training=training), value.dtype), value)
        return tuple(take_rows(x, rounds[r].slot, axes=4) for x in (context, log_sum, weights))


class ChunkPositions(NamedTuple):
    """The places of the positions after one round of hashing. All are int `(B, H, S)`.

    Args:
        chunk: the chunk of a position.
        before: the chunk before that one in the same bucket, or -1.
        offset: the position's place in its chunk.
        slot: its index among the slots of the whole batch, `(B, C, H, m)` flattened.
    """

    chunk: Any
    before: Any
    offset: Any
    slot: Any


def count_chunks(length, buckets, chunk_length):
    """Returns C, a number of chunks that suffices however the positions are distributed over the buckets."""
    return (length + buckets * (chunk_length - 1)) // chunk_length


def place(bucket, buckets, chunk_length):
    """Sorts positions by their buckets, int `(B, H, S)`, with a counting sort: within a bucket they stay in order, and
    each bucket starts a chunk of `chunk_length`."""
    member = ops.one_hot(bucket, buckets, dtype="int32")  # (B, H, S, buckets)
    rank = ops.sum(ops.cumsum(member, axis=2) * member, axis=-1) - 1
    chunks = -(-ops.sum(member, axis=2, keepdims=True) // chunk_length)
    first = ops.sum((ops.cumsum(chunks, axis=-1) - chunks) * member, axis=-1)
    chunk, offset = first + rank // chunk_length, rank % chunk_length
    before = ops.where(rank < chunk_length, -1, chunk - 1)
    batch, heads, length = dynamic_shape(bucket)
    row = range_along(batch, 0, 3) * count_chunks(length, buckets, chunk_length) + chunk
    return ChunkPositions(chunk, before, offset, (row * heads + range_along(heads, 1, 3)) * chunk_length + offset)


def scatter_to_keys(window, places):
    """Spreads weights on two chunks over all keys: `(B, H, T, 2 m) -> (B, H, T, S)`."""
    width = window.shape[-1]
    batch, heads, length = dynamic_shape(places.chunk)
    distance = ops.expand_dims(places.chunk, 2) - ops.expand_dims(places.chunk, 3)  # (B, H, T, S)
    column = (distance + 1) * (width // 2) + ops.expand_dims(places.offset, 2)
    inside = ops.logical_and(column >= 0, column < width)
    rows = ops.reshape(ops.arange(batch * heads * length, dtype="int32"), (batch, heads, length, 1))
    return ops.where(inside, ops.take(ops.reshape(window, (-1,)), rows * width + ops.clip(column, 0, width - 1)), 0.0)


def shares_window(places, source):
    """Returns where a round puts the key into the query's chunk or the one before it in their bucket: bool
    `(B, C, H, m, 2 m)`, for the positions int `(B, C, H, m)` with their own chunk and the one before as keys."""
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
