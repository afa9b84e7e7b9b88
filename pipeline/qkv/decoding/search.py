"""The interface of all searches, and the loops and gathers that they are made of.

Letters: A sentences still searched, B batch, N hypotheses of a sentence, L maximum length of a target.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, Self

import keras
from keras import ops

from ..layers.keras_layers import dynamic_shape
from ..model.interface import Memory, TranslationModel

MINUS_INFINITY = -float("inf")
TOP_K_CHUNK = 50  # about the square root of a vocabulary's size: equal work between and within chunks


class Hypotheses(NamedTuple):
    """N hypotheses for each sentence.

    Beam search returns the best first, and truncated ones after those that ended, whatever their scores. Sampling
    returns them in the order in which they were drawn.

    - ids: int32 `(B, N, L)`, ending in EOS unless truncated, then PAD.
    - log_probabilities: float32 `(B, N, L)`, natural logarithms, one for each token, 0 for PAD.
    - scores: float32 `(B, N)`, what they are ranked by; minus infinity where a sentence has fewer than N.
    """

    ids: Any
    log_probabilities: Any
    scores: Any

    def select_best(self, count):
        """Keeps the `count` hypotheses of each sentence with the highest scores; ties go to the earlier one.

        Returns:
            `(hypotheses, indices)`: `Hypotheses` `(B, count, ...)`, and where each stood, int32 `(B, count)`.
        """
        scores, indices = ops.top_k(self.scores, count)
        ids, log_probabilities = (gather_columns(x, indices) for x in (self.ids, self.log_probabilities))
        return Hypotheses(ids, log_probabilities, scores), indices


class Search(Protocol):
    """A search: returns `Hypotheses` `(B, N, ...)`.

    Two searches that differ in their `numbers` alone share a graph, which takes the numbers as inputs.

    Attributes:
        numbers: settings that may be tensors, by name, as NumPy scalars.

    Call arguments:
        model: any `TranslationModel`.
        memory: what `model.encode` returned for the sources, `(B, ...)`.
        max_lengths: int32 `(B,)`, the maximum number of tokens of each target, EOS included.
        length: L, at least the largest of `max_lengths`.
        prefix: int32 `(B, L)`, the tokens with which each target begins, then PAD; by default none.
        required: `phrases.Requirements` of the sentences, which a beam alone can meet; by default none.
    """

    @property
    def numbers(self) -> dict[str, Any]: ...

    def with_numbers(self, numbers: Mapping[str, Any]) -> Self:
        """Returns the search with other values, such as tensors, in the place of its `numbers`."""
        ...

    def __call__(
        self, model: TranslationModel, memory: Memory, max_lengths, length, prefix=None, required=None
    ) -> Hypotheses: ...


def is_number(setting, number):
    """Returns whether a setting is this number; a tensor stands for any other number."""
    return isinstance(setting, int | float) and setting == number


# Loops and branches whose tensors change their shapes. TensorFlow's graphs and PyTorch have no trouble with that; JAX
# compiles a loop or a branch for one shape. There searches run step by step instead, as Python does, and not inside
# `jax.jit`.


def repeat_while(condition, body, state):
    """Does what `ops.while_loop` does, with tensors that may change their shapes from turn to turn.

    Args:
        condition: takes the tensors of `state`, and returns a boolean scalar.
        body: takes them, and returns the next ones.
        state: a tuple of nested structures of tensors.

    Raises:
        ValueError: it is traced by JAX.
    """
    if keras.backend.backend() != "jax":
        return ops.while_loop(condition, body, state)
    while _is_true(condition(*state)):
        state = body(*state)
    return state


def branch(condition, if_true, if_false):
    """Does what `ops.cond` does, with results whose shapes may differ.

    Raises:
        ValueError: it is traced by JAX.
    """
    if keras.backend.backend() != "jax":
        return ops.cond(condition, if_true, if_false)
    return if_true() if _is_true(condition) else if_false()


def _is_true(value):
    try:
        return bool(value)
    except TypeError:  # the error of JAX's tracers
        raise ValueError("searches cannot be traced by JAX: call them outside jax.jit") from None


# Gathers and joins of hypotheses.


def top_k_of_many(x, count):
    """Computes `ops.top_k` of rows `(A, M)` for a large M, in two stages.

    `ops.top_k` looks at one number after the other, a maximum at many at once. The largest numbers stand in the chunks
    with the largest maxima, since each of these holds one that ranks before any number of the other chunks. Both stages
    settle ties by position, so the result is the same as from `ops.top_k`.
    """
    rows, length = dynamic_shape(x)
    chunks = -(-length // TOP_K_CHUNK)
    if length % TOP_K_CHUNK:
        x = ops.pad(x, ((0, 0), (0, chunks * TOP_K_CHUNK - length)), constant_values=MINUS_INFINITY)
    x = ops.reshape(x, (rows, chunks, TOP_K_CHUNK))
    _, best_chunks = ops.top_k(ops.max(x, axis=2), min(count, chunks))
    best_chunks = ops.sort(best_chunks, axis=1)
    numbers, places = ops.top_k(ops.reshape(gather_columns(x, best_chunks), (rows, -1)), count)
    starts = ops.take_along_axis(best_chunks, places // TOP_K_CHUNK, axis=1) * TOP_K_CHUNK
    return numbers, starts + places % TOP_K_CHUNK


def fill_up(finished, live, where):
    """Puts live hypotheses into the free places after the finished ones, in the sentences where `where`, bool `(A,)`,
    is true."""
    size, most = (dynamic_shape(one.scores)[1] for one in (finished, live))
    places = ops.expand_dims(ops.arange(size, dtype="int32"), 0)
    count = ops.sum(ops.cast(ops.greater(finished.scores, MINUS_INFINITY), "int32"), axis=1, keepdims=True)
    takes_live = ops.logical_and(places >= count, places < count + most)
    takes_live = ops.logical_and(ops.expand_dims(where, 1), takes_live)
    indices = ops.where(takes_live, size + places - count, places)
    return Hypotheses(*(gather_columns(x, indices) for x in concatenate(finished, live)))


def concatenate(first, second):
    """Joins `Hypotheses` of the same sentences, the first ones before the second ones."""
    return Hypotheses(*(ops.concatenate(pair, axis=1) for pair in zip(first, second, strict=True)))


def write_at(x, step, values):
    """Writes `values` `(...)` at position `step` of the last axis of x `(..., L)`."""
    return ops.where(ops.equal(ops.arange(dynamic_shape(x)[-1], dtype="int32"), step), ops.expand_dims(values, -1), x)


def gather_columns(x, indices):
    """Gathers along the second axis: x `(A, N, ...)` and indices int `(A, M)` to `(A, M, ...)`."""
    rows, size, *rest = dynamic_shape(x)
    numbers = indices + size * ops.expand_dims(ops.arange(rows, dtype=indices.dtype), 1)
    return ops.take(ops.reshape(x, (-1, *rest)), numbers, axis=0)


def gather_rows(nested, rows):
    """Gathers along the first axis of every tensor of a nested structure; scalars stay as they are."""
    return keras.tree.map_structure(lambda x: ops.take(x, rows, axis=0) if len(x.shape) else x, nested)
