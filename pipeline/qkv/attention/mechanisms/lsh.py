"""Self-attention among positions with similar vectors, which are found by hashing instead of comparing all pairs.

Letters: B batch, H heads, T query positions, S key positions (T = S), K key size, V value size of a head, C chunks, m
slots of a chunk. A slot holds one position or is empty. The window of a query is its chunk and the chunk before: 2 m
slots, the slots of the chunk before first.
"""

import math
from typing import Any, NamedTuple

import keras
from keras import ops

from ...layers.keras_layers import check_sizes, dynamic_shape
from ..masks import LOWEST, masked_softmax
from ..scores import SCORE_CLASSES
from .softmax import Mechanism

SELF_SCORE = -1e15
"""The score of a position with itself: below all other scores, and above `LOWEST`, the score of masked keys."""


@keras.saving.register_keras_serializable(package="qkv")
class LSH(Mechanism):
    """Softmax over the keys that a locality-sensitive hash finds (Reformer, Kitaev et al. 2020, section 2).

    One projection makes queries and keys, and keys are scaled to unit norm. A hash `argmax([k R; -k R])` with a random
    matrix R puts each position into one of `buckets`; similar keys are likely to share a bucket. The positions of a
    bucket, in order, are divided into chunks of `chunk_length`. A query attends to its chunk and to the chunk before it
    in the same bucket.

    Hashing is repeated in several `rounds`. A query attends to the union of the keys that the rounds find; each key
    counts once. Round r adds `exp(z_r - z) softmax_r(score - log N) value` to the context (appendix A, equations 14 to
    16): z_r is the log-sum-exp of the scores in the round, z the log-sum-exp in all rounds, and N the number of rounds
    that find the key. A position attends to itself only if the mask hides all other keys that the rounds find.

    The number of scores is at most `rounds * (S + buckets * (chunk_length - 1)) * 2 * chunk_length`, which is linear in
    S. `buckets=1` with `chunk_length >= S` compares all pairs. This is softmax attention, except that a position does
    not attend to itself.

    **Difference from the paper.** The paper sorts all positions by bucket and divides the sorted row into chunks. The
    start of a chunk then depends on later positions, so a causal mask would not hide the future. Here every bucket
    starts a new chunk: with a causal mask a context depends on earlier positions only, and padding at the end changes
    nothing. The cost is at most `buckets * (chunk_length - 1)` empty slots.

    **Randomness.** In training, each call draws a new R, so that no two positions are always separated. Otherwise R is
    a non-trainable weight: the same input always gets the same attention, also after saving and loading.

    The returned weights are summed over the rounds. Only they take memory for T * S numbers. A graph (`tf.function`,
    `jax.jit`) omits them if they are not used.

    Args:
        buckets: the number of buckets of a hash: 1, or an even number.
        chunk_length: m. Few slots stay empty if it is at most about half the average bucket, `S / buckets`.
        rounds: the number of hashes. More rounds find more of the keys to which the full softmax gives weight.
        seed: as in `Mechanism`; it also determines the random R.
        score: dot, scaled_dot or cosine. They grow as the angle between query and key shrinks, and the hash depends on
            this angle.
        dropout, **kwargs: as in `Mechanism`.

    Call arguments and returns: as in `Mechanism`, with T = S, and queries and keys from one projection.

    Raises:
        ValueError: a size is not a whole number of at least 1; `buckets` is odd and not 1; the score does not depend on
            the angle; there are more or fewer queries than keys; or the mask has not four axes.

    Example:
        >>> x = keras.random.normal((1, 2, 5, 4))
        >>> context, weights = LSH(buckets=2, chunk_length=2, rounds=2, seed=1)(x, x, x)
        >>> context.shape, weights.shape
        (TensorShape([1, 2, 5, 4]), TensorShape([1, 2, 5, 5]))
    """

    shares_query_and_key = True
    takes_rotation = False  # the hash would depend on the position instead of the distance

    def __init__(
        self, buckets: int = 4, chunk_length: int = 16, rounds: int = 4, seed: int | None = None, **kwargs: Any
    ) -> None:
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

    def build(self, query_shape: Any, key_shape: Any, value_shape: Any) -> None:
        super().build(query_shape, key_shape, value_shape)
        shape = (self.rounds, key_shape[1], key_shape[-1], max(1, self.buckets // 2))
        normal = keras.initializers.RandomNormal(stddev=1.0, seed=self.seed)
        self.rotations = self.add_weight(
            name="rotations", shape=shape, initializer=normal, trainable=False, autocast=False
        )

    def call(self, query: Any, key: Any, value: Any, mask: Any = None, training: bool | None = None) -> tuple[Any, Any]:
        queries, keys = query.shape[2], key.shape[2]
        if None not in (queries, keys) and queries != keys:
            raise ValueError(f"lsh is for self-attention: expected as many queries as keys, found {queries} and {keys}")
        unit = ops.normalize(ops.cast(key, "float32"), axis=-1, epsilon=1e-6)
        if mask is not None and len(mask.shape) != 4:
            raise ValueError(f"mask: expected shape (B or 1, H or 1, T or 1, S), found {tuple(mask.shape)}")
        rotations = keras.random.normal(self.rotations.shape, seed=self.seed_generator) if training else self.rotations
        rounds = [
            assign_chunks(self._hash(unit, rotations[r]), self.buckets, self.chunk_length) for r in range(self.rounds)
        ]
        unit = ops.cast(unit, key.dtype)
        attended = [self._attend(query, unit, value, mask, rounds, r, training) for r in range(self.rounds)]
        contexts, log_sums, windows = zip(*attended, strict=True)
        shares = ops.split(masked_softmax(ops.concatenate(log_sums, axis=-1)), self.rounds, axis=-1)
        context = sum(ops.cast(share, part.dtype) * part for share, part in zip(shares, contexts, strict=True))
        weights = [scatter_to_keys(window, positions) for window, positions in zip(windows, rounds, strict=True)]
        return context, sum(share * part for share, part in zip(shares, weights, strict=True))

    def _hash(self, unit, rotation):
        """Returns the bucket of each position by one hash: int `(B, H, S)`.

        Args:
            unit: the keys, `(B, H, S, K)`.
            rotation: R, `(H, K, buckets / 2)`.
        """
        rotated = ops.einsum("bhsk,hkn->bhsn", unit, ops.cast(rotation, unit.dtype))
        if self.buckets == 1:
            return ops.zeros_like(rotated[..., 0], dtype="int32")
        return ops.argmax(ops.concatenate([rotated, -rotated], axis=-1), axis=-1)

    def _attend(self, query, key, value, mask, rounds, r, training):
        """Attends to the keys that round r finds.

        Args:
            query: `(B, H, S, K)`.
            key: `(B, H, S, K)`, of unit norm.
            value: `(B, H, S, V)`.
            mask: bool with four axes, broadcastable to `(B, H, S, S)`, or None.
            rounds: the `ChunkPositions` of all rounds.
            r: the index of the round.
            training: whether dropout is applied.

        Returns:
            `(context, log_sum, weights)` for each position: its context `(B, H, S, V)`, the log-sum-exp of its scores
            `(B, H, S, 1)`, and its weights on the slots of its window, `(B, H, S, 2 m)`.
        """
        batch, heads, length = dynamic_shape(query)[:3]
        slots = (batch, count_chunks(length, self.buckets, self.chunk_length), heads, self.chunk_length)
        # For each slot the index of its position among all positions of the batch, (B, H, S) flattened; -1 if empty.
        numbers = ops.arange(1, batch * heads * length + 1, dtype="int32")
        source = ops.scatter(ops.reshape(rounds[r].slot, (-1, 1)), numbers, (math.prod(slots),)) - 1
        source = ops.reshape(source, slots)
        is_filled = source >= 0
        source = ops.maximum(source, 0)

        query = take_rows(query, source)
        key = with_chunk_before(take_rows(key, source), axis=-2)
        value = with_chunk_before(take_rows(value, source), axis=-2)
        scores = self.score(*(ops.reshape(side, (-1, heads, *side.shape[-2:])) for side in (query, key)))
        scores = ops.reshape(ops.cast(scores, "float32"), (*slots, 2 * self.chunk_length))

        found_by_round = [is_in_window(positions, source) for positions in rounds]
        found_times = sum(ops.cast(pairs, "float32") for pairs in found_by_round)  # N
        allowed = ops.logical_and(found_by_round[r], ops.expand_dims(with_chunk_before(is_filled, axis=-1), -2))
        queries = ops.expand_dims(source % length, -1)
        keys = ops.expand_dims(with_chunk_before(source % length, axis=-1), -2)
        if mask is not None:
            allowed = ops.logical_and(allowed, pick_mask(mask, queries, keys))
        scores = ops.where(queries == keys, SELF_SCORE, scores - ops.log(ops.maximum(found_times, 1.0)))
        log_sum = ops.logsumexp(ops.where(allowed, scores, LOWEST), axis=-1, keepdims=True)
        weights = masked_softmax(scores, allowed)
        context = ops.matmul(ops.cast(self.dropout(weights, training=training), value.dtype), value)
        return tuple(take_rows(x, rounds[r].slot, axes=4) for x in (context, log_sum, weights))


class ChunkPositions(NamedTuple):
    """The chunks and slots of all positions after one round of hashing. All fields are int `(B, H, S)`.

    Args:
        chunk: the chunk of each position, from 0 to C - 1.
        before: the chunk before it in the same bucket; -1 if there is none.
        offset: the index of the position's slot in its chunk, from 0 to m - 1.
        slot: the index of the position's slot among all slots of the batch, `(B, C, H, m)` flattened.
    """

    chunk: Any
    before: Any
    offset: Any
    slot: Any


def count_chunks(length, buckets, chunk_length):
    """Returns C: the number of chunks that is enough for any distribution of `length` positions over the buckets."""
    return (length + buckets * (chunk_length - 1)) // chunk_length


def assign_chunks(bucket, buckets, chunk_length):
    """Assigns positions to chunks by a counting sort of their buckets.

    Positions of a bucket stay in order, and each bucket starts a new chunk.

    Args:
        bucket: int `(B, H, S)`, the bucket of each position.
        buckets: the number of buckets.
        chunk_length: m.

    Returns:
        `ChunkPositions`.
    """
    is_in_bucket = ops.one_hot(bucket, buckets, dtype="int32")  # (B, H, S, buckets)
    rank = ops.sum(ops.cumsum(is_in_bucket, axis=2) * is_in_bucket, axis=-1) - 1
    chunks = -(-ops.sum(is_in_bucket, axis=2, keepdims=True) // chunk_length)
    first_chunk = ops.sum((ops.cumsum(chunks, axis=-1) - chunks) * is_in_bucket, axis=-1)
    chunk = first_chunk + rank // chunk_length
    offset = rank % chunk_length
    before = ops.where(rank < chunk_length, -1, chunk - 1)
    batch, heads, length = dynamic_shape(bucket)
    row = range_along(batch, 0, 3) * count_chunks(length, buckets, chunk_length) + chunk
    return ChunkPositions(chunk, before, offset, (row * heads + range_along(heads, 1, 3)) * chunk_length + offset)


def scatter_to_keys(window, positions):
    """Assigns weights on the slots of windows to keys: `(B, H, T, 2 m) -> (B, H, T, S)`, zero outside the window.

    Args:
        window: the weights of each query on the slots of its window.
        positions: the `ChunkPositions` of the round.
    """
    width = window.shape[-1]
    batch, heads, length = dynamic_shape(positions.chunk)
    distance = ops.expand_dims(positions.chunk, 2) - ops.expand_dims(positions.chunk, 3)  # (B, H, T, S)
    column = (distance + 1) * (width // 2) + ops.expand_dims(positions.offset, 2)
    is_inside = ops.logical_and(column >= 0, column < width)
    rows = ops.reshape(ops.arange(batch * heads * length, dtype="int32"), (batch, heads, length, 1))
    weights = ops.take(ops.reshape(window, (-1,)), rows * width + ops.clip(column, 0, width - 1))
    return ops.where(is_inside, weights, 0.0)


def is_in_window(positions, source):
    """Returns whether a round puts a key into the window of a query, for the pairs of any round's windows.

    Args:
        positions: the `ChunkPositions` of the round.
        source: int `(B, C, H, m)`, the position in each slot as an index of `(B, H, S)` flattened. Each slot is a
            query; its keys are the slots of its window.

    Returns:
        bool `(B, C, H, m, 2 m)`.
    """
    chunk, before = (ops.expand_dims(take_rows(x, source), -1) for x in (positions.chunk, positions.before))
    keys = ops.expand_dims(with_chunk_before(ops.squeeze(chunk, -1), axis=-1), -2)
    return ops.logical_or(keys == chunk, keys == before)


def with_chunk_before(x, axis):
    """Concatenates the previous chunk and each chunk of x `(B, C, H, m, ...)` along an axis.

    Zeros stand for the chunk before the first.
    """
    before = ops.concatenate([ops.zeros_like(x[:, :1]), x[:, :-1]], axis=1)
    return ops.concatenate([before, x], axis=axis)


def take_rows(x, index, axes=3):
    """Flattens the first `axes` axes of x into one, and takes the rows with these indices."""
    return ops.take(ops.reshape(x, (-1, *x.shape[axes:])), index, axis=0)


def pick_mask(mask, queries, keys):
    """Returns the elements of a mask for pairs of positions.

    Args:
        mask: bool with four axes, broadcastable to `(B, H, S, S)`.
        queries: int `(B, C, H, m, 1)`, positions from 0 to S - 1.
        keys: int `(B, C, H, 1, 2 m)`, positions from 0 to S - 1.

    Returns:
        bool, broadcastable to `(B, C, H, m, 2 m)`.
    """
    batch, _, heads = dynamic_shape(queries)[:3]
    index = 0
    for axis, coordinate in enumerate((range_along(batch, 0, 5), range_along(heads, 2, 5), queries, keys)):
        size = dynamic_shape(mask)[axis]
        index = index * size + (0 if mask.shape[axis] == 1 else ops.minimum(coordinate, size - 1))
    return ops.take(ops.reshape(mask, (-1,)), index)


def range_along(size, axis, axes):
    """Returns 0, 1, ..., size - 1 along one of `axes` axes, as an array that broadcasts along the others."""
    return ops.reshape(ops.arange(size, dtype="int32"), [size if a == axis else 1 for a in range(axes)])
