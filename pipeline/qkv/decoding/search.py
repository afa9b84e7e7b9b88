"""The interface and the result of all searches, and the loops, sorts and gathers that they share.

Letters: A sentences still searched, B batch, N hypotheses of a sentence, L maximum length of a target.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, Self

import keras
import numpy as np
from keras import ops

from ..layers.keras_layers import dynamic_shape, reshape
from ..model.interface import Memory, TranslationModel
from ..text.batch_plan import round_up

MINUS_INFINITY = -float("inf")
LENGTH_MULTIPLE = 8
"""The widths of batches are multiples of this number, so that a search has few shapes."""
TOP_K_CHUNK = 50  # about the square root of a vocabulary's size: equal work between and within chunks


class Hypotheses(NamedTuple):
    """The N hypotheses of each sentence.

    Beam search returns the best hypothesis first. Truncated hypotheses come after those that ended, whatever their
    scores. Sampling returns hypotheses in the order in which they were drawn.

    - ids: the tokens, int32 `(B, N, L)`. A hypothesis ends in EOS unless it is truncated; PAD follows.
    - log_probabilities: the natural logarithm of each token's probability, float32 `(B, N, L)`; 0 for PAD.
    - scores: the scores by which hypotheses are ranked, float32 `(B, N)`. If a sentence has fewer than N hypotheses,
      the scores of the missing ones are minus infinity.
    """

    ids: Any
    log_probabilities: Any
    scores: Any

    def select_best(self, count):
        """Returns the `count` hypotheses of each sentence with the highest scores, the highest first.

        Ties go to the hypothesis with the lower index.

        Returns:
            `(hypotheses, indices)`: `Hypotheses` `(B, count, ...)`, and the index that each had among the N, int32
            `(B, count)`.
        """
        scores, indices = ops.top_k(self.scores, count)
        ids = gather_columns(self.ids, indices)
        log_probabilities = gather_columns(self.log_probabilities, indices)
        return Hypotheses(ids, log_probabilities, scores), indices


class Search(Protocol):
    """The interface of searches. A call finds the hypotheses of a batch of sentences.

    Two searches that differ only in the values of `numbers` share a graph, which takes these values as inputs.

    Call arguments:
        model: any `TranslationModel`.
        memory: the result of `model.encode` for the sources, `(B, ...)`.
        max_lengths: the maximum number of tokens of each target, EOS included, int32 `(B,)`.
        length: L, at least the largest of `max_lengths`.
        prefix: the tokens with which each target begins, then PAD, int32 `(B, L)`; None if there are no prefixes.
        required: the phrases that each target must contain, as the translator prepares them; None if there are none.

    Returns:
        `Hypotheses` `(B, N, ...)`.

    Raises:
        ValueError: phrases are required, and the search is not a beam search; or JAX traces the call.
    """

    @property
    def count(self) -> int:
        """The number of hypotheses of a sentence that are extended at each step."""
        ...

    @property
    def numbers(self) -> dict[str, Any]:
        """The settings that a graph takes as inputs, by name; each value is a NumPy scalar."""
        ...

    def with_numbers(self, numbers: Mapping[str, Any]) -> Self:
        """Returns a copy of the search with other values of settings.

        Args:
            numbers: the new values, NumPy scalars or tensors, by the name of the setting.
        """
        ...

    def __call__(
        self, model: TranslationModel, memory: Memory, max_lengths, length, prefix=None, required=None
    ) -> Hypotheses: ...


def padded_width(tokens, max_positions=None):
    """Returns the width of an array whose longest row has `tokens` tokens.

    It is the next multiple of `LENGTH_MULTIPLE`, but at most `max_positions`; None for no limit.
    """
    width = round_up(tokens, LENGTH_MULTIPLE)
    return width if max_positions is None else min(width, max_positions)


def is_number(setting, number):
    """Returns whether a setting is a Python number equal to `number`. False for a tensor, whose value is unknown."""
    return isinstance(setting, int | float) and setting == number


# Loops and branches whose tensors change their shapes. TensorFlow's graphs and PyTorch support them, but JAX compiles a
# loop or a branch for one shape. With JAX they are Python loops and branches, which cannot run inside `jax.jit`.


def repeat_while(condition, body, state):
    """Repeats `body` while `condition` is true, as `ops.while_loop` does. The shapes of the tensors may change.

    Args:
        condition: takes the items of `state`, and returns a boolean scalar.
        body: takes the items of `state`, and returns the next state.
        state: a tuple of nested structures of tensors.

    Returns:
        The last state.

    Raises:
        ValueError: JAX traces the function.
    """
    if keras.backend.backend() != "jax":
        return ops.while_loop(condition, body, state)
    while _is_true(condition(*state)):
        state = body(*state)
    return state


def branch(condition, if_true, if_false):
    """Returns `if_true()` if `condition` is true, else `if_false()`, as `ops.cond` does.

    The shapes of the two results may differ.

    Raises:
        ValueError: JAX traces the function.
    """
    if keras.backend.backend() != "jax":
        return ops.cond(condition, if_true, if_false)
    return if_true() if _is_true(condition) else if_false()


def _is_true(value):
    """Returns a boolean scalar as a Python bool; raises a `ValueError` if JAX traces it."""
    try:
        return bool(value)
    except TypeError:  # the error of JAX's tracers
        raise ValueError("searches cannot be traced by JAX: call them outside jax.jit") from None


# Sorts, gathers and joins.


def log_sum_exp(x):
    """Returns the logarithm of the sum of the exponentials of each row of x, float32 `(R, V) -> (R, 1)`.

    On a CPU a softmax of TensorFlow takes half the time of `ops.logsumexp` and of `ops.log_softmax`. The largest
    probability of a row is the exponential of its largest number, divided by the sum.
    """
    largest_probability = ops.max(ops.softmax(x), axis=-1, keepdims=True)
    return ops.max(x, axis=-1, keepdims=True) - ops.log(largest_probability)


def top_k_of_many(x, count, offsets=None, banned=()):
    """Returns the largest of many numbers, in two stages, which is faster than `ops.top_k` of all of them.

    `ops.top_k` compares the numbers one by one, but a maximum is computed in parallel. So the first stage takes the
    maximum of each chunk of a row, and the second sorts only the chunks with the largest maxima. No other chunk can
    hold one of the largest numbers. In both stages ties go to the lower index, so `ops.top_k` would return the same
    result. Offsets are added to maxima and to the chosen chunks only, since x is large.

    Args:
        x: N rows of M numbers for each of A sentences, float32 `(A, N, M)`.
        count: the number of elements to return for each sentence.
        offsets: a number to add to each row, float32 `(A, N)`; 0 if not given.
        banned: the columns that count as minus infinity, ints less than `TOP_K_CHUNK`.

    Returns:
        `(numbers, indices)`, each `(A, count)`: the largest numbers of each sentence, the largest first, and their
        indices `row * M + column`, int32. If there are fewer than `count` numbers, minus infinity follows.
    """
    _, rows, columns = dynamic_shape(x)
    chunks = max(-(-columns // TOP_K_CHUNK), -(-count // TOP_K_CHUNK))  # of a row
    if chunks * TOP_K_CHUNK > columns:
        padding = (0, chunks * TOP_K_CHUNK - columns)
        x = ops.pad(x, ((0, 0), (0, 0), padding), constant_values=MINUS_INFINITY)
    x = reshape(x, (-1, rows * chunks, TOP_K_CHUNK))
    maxima = ops.max(x, axis=2)
    if offsets is not None:
        maxima = reshape(maxima, (-1, rows, chunks)) + ops.expand_dims(offsets, 2)
        maxima = reshape(maxima, (-1, rows * chunks))
    # The banned numbers may be the largest ones of the first chunk of each row.
    chosen = count + rows if banned else count
    chosen = min(chosen, rows * chunks) if isinstance(rows, int) else ops.minimum(chosen, rows * chunks)
    best_chunks = ops.sort(ops.top_k(maxima, chosen)[1], axis=1)
    numbers = gather_columns(x, best_chunks)
    if offsets is not None:
        numbers = numbers + ops.expand_dims(gather_columns(offsets, best_chunks // chunks), 2)
    if banned:
        is_banned = np.isin(np.arange(TOP_K_CHUNK), banned)
        is_first = ops.expand_dims(ops.equal(best_chunks % chunks, 0), 2)
        numbers = ops.where(ops.logical_and(is_first, is_banned), MINUS_INFINITY, numbers)
    numbers, positions = ops.top_k(reshape(numbers, (-1, chosen * TOP_K_CHUNK)), count)
    chunk = gather_columns(best_chunks, positions // TOP_K_CHUNK)
    column = ops.minimum(chunk % chunks * TOP_K_CHUNK + positions % TOP_K_CHUNK, columns - 1)
    return numbers, chunk // chunks * columns + column


def fill_with_live(finished, live, is_truncated):
    """Replaces the missing finished hypotheses of truncated sentences by live hypotheses, the best first.

    Args:
        finished: `Hypotheses` `(A, P, ...)`, the best first. A missing hypothesis has the score minus infinity.
        live: `Hypotheses` `(A, K, ...)`, the best first.
        is_truncated: True for a sentence that has reached its maximum length, bool `(A,)`. Others are unchanged.

    Returns:
        `Hypotheses` `(A, P, ...)`: the finished hypotheses, then as many live hypotheses as fit.
    """
    finished_size = dynamic_shape(finished.scores)[1]
    live_size = dynamic_shape(live.scores)[1]
    positions = ops.expand_dims(ops.arange(finished_size, dtype="int32"), 0)
    count = ops.sum(ops.cast(ops.greater(finished.scores, MINUS_INFINITY), "int32"), axis=1, keepdims=True)
    takes_live = ops.logical_and(positions >= count, positions < count + live_size)
    takes_live = ops.logical_and(ops.expand_dims(is_truncated, 1), takes_live)
    indices = ops.where(takes_live, finished_size + positions - count, positions)
    return Hypotheses(*(gather_columns(x, indices) for x in join_hypotheses(finished, live)))


def join_hypotheses(first, second):
    """Joins the `Hypotheses` of the same sentences, `(A, N, ...)` and `(A, M, ...)`, to `(A, N + M, ...)`."""
    return Hypotheses(*(ops.concatenate(pair, axis=1) for pair in zip(first, second, strict=True)))


def write_at(x, step, values):
    """Returns x `(..., L)` with `values` `(...)` at index `step` of the last axis."""
    return ops.where(ops.equal(ops.arange(dynamic_shape(x)[-1], dtype="int32"), step), ops.expand_dims(values, -1), x)


# The indices are 0 or more. Keras allows negative ones, which makes 5 to 25 small operations of a graph of each gather.


def gather_columns(x, indices):
    """Takes elements of x, `(A, N, ...)`, along the second axis: `(A, M, ...)`. `indices` is int `(A, M)`."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf  # a search needs no TensorFlow on other backends

        return tf.gather(x, indices, batch_dims=1)
    rows, size, *rest = dynamic_shape(x)
    numbers = indices + size * ops.expand_dims(ops.arange(rows, dtype=indices.dtype), 1)
    return ops.take(reshape(x, (-1, *rest)), numbers, axis=0)


def gather_rows(nested, rows):
    """Takes the rows with the indices `rows`, int `(A,)`, of every tensor `(B, ...)`. Scalars are unchanged."""

    def gather(x):
        if not len(x.shape):
            return x
        if keras.backend.backend() == "tensorflow":
            import tensorflow as tf  # a search needs no TensorFlow on other backends

            return tf.gather(x, rows)
        return ops.take(x, rows, axis=0)

    return keras.tree.map_structure(gather, nested)
