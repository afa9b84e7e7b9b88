"""Hypotheses of a search: picking, joining and ranking them."""

from typing import Any, NamedTuple

import keras
from keras import ops

from .constraints import NEVER

TOP_K_CHUNK = 50  # about the root of what there is: as much work between the parts as within them


class Hypotheses(NamedTuple):
    """Some hypotheses of each sentence, best first.

    - ids: int32 `(B, N, L)`, ending in EOS unless truncated, then PAD.
    - log_probabilities: float32 `(B, N, L)` of each token, 0 for PAD.
    - scores: float32 `(B, N)`, what they are ranked by; minus infinity where there are no more.
    """

    ids: Any
    log_probabilities: Any
    scores: Any

    def best(self, count):
        """The `count` of each sentence with the highest scores, and which they were; ties go to the earlier."""
        scores, which = ops.top_k(self.scores, count)
        return Hypotheses(pick(self.ids, which), pick(self.log_probabilities, which), scores), which


def largest_of_many(x, count):
    """`ops.top_k` of rows `(A, M)` for a large M, in two stages: it looks at every number in turn, a maximum at many.

    The largest numbers stand in the parts with the largest maxima, since each of these has one that comes before any
    number of the other parts; ties are settled by place in both.
    """
    rows, many = ops.shape(x)
    parts = -(-many // TOP_K_CHUNK)
    x = ops.pad(x, ((0, 0), (0, parts * TOP_K_CHUNK - many)), constant_values=NEVER) if many % TOP_K_CHUNK else x
    x = ops.reshape(x, (rows, parts, TOP_K_CHUNK))
    _, best_parts = ops.top_k(ops.max(x, axis=2), min(count, parts))
    best_parts = ops.sort(best_parts, axis=1)
    numbers, which = ops.top_k(ops.reshape(pick(x, best_parts), (rows, -1)), count)
    return numbers, ops.take_along_axis(best_parts, which // TOP_K_CHUNK, axis=1) * TOP_K_CHUNK + which % TOP_K_CHUNK


def fill_up(ended, growing, wanted):
    """Where it is `wanted`, bool `(A,)`, puts growing hypotheses in the places of ended ones that there are not."""
    size = ops.shape(ended.scores)[1]
    places = ops.expand_dims(ops.arange(size, dtype="int32"), 0)
    there = ops.sum(ops.cast(ops.greater(ended.scores, NEVER), "int32"), axis=1, keepdims=True)
    from_growing = ops.logical_and(ops.expand_dims(wanted, 1), places >= there)
    which = ops.where(from_growing, size + places - there, places)
    both = concatenate(ended, growing)
    return Hypotheses(*(pick(x, which) for x in both))


def concatenate(first, second):
    """`Hypotheses` of the same sentences, those of the first before those of the second."""
    return Hypotheses(*(ops.concatenate(pair, axis=1) for pair in zip(first, second, strict=True)))


def pick(x, which):
    """Elements of the second axis by number: `(A, N, ...)` and int `(A, M)` to `(A, M, ...)`."""
    rows, size, *rest = ops.shape(x)
    numbers = which + size * ops.expand_dims(ops.arange(rows, dtype=which.dtype), 1)
    return ops.take(ops.reshape(x, (-1, *rest)), numbers, axis=0)


def take_rows(nested, rows):
    """These rows of tensors, nested in anything; those without axes stay as they are."""
    return keras.tree.map_structure(lambda x: ops.take(x, rows, axis=0) if len(x.shape) else x, nested)
