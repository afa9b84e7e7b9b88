"""Divides a beam among hypotheses by how much they still need (Post and Vilar 2018, section 3.2)."""

from keras import ops

from ..layers.dynamic_shape import dynamic_shape
from .constraints import MINUS_INFINITY

MOST_BANKS = 8


def order_by_banks(totals, indices, then, longest, count, banks):
    """Orders extensions of a sentence's hypotheses: first the likeliest of each bank, then the second of each, and so
    on; within a round those that need least come first.

    Args:
        totals: float32 `(A, C)`, the log-probabilities of extensions.
        indices: int32 `(A, C)`, which they are; of equal ones the first counts.
        then: int32 `(A, C)`, how many tokens they still need.
        longest: int32 `(A,)`, the largest number of tokens that one can need; 0 puts all of them in one bank.
        count: how many are returned.
        banks: the number of banks.

    Returns:
        `(totals, indices)`, each `(A, count)`. Ties go to the lower index.
    """
    order = ops.argsort(indices, axis=1)  # stable
    totals, indices, then = (ops.take_along_axis(x, order, axis=1) for x in (totals, indices, then))
    is_repeated = ops.concatenate(
        [ops.zeros_like(indices[:, :1], "bool"), ops.equal(indices[:, 1:], indices[:, :-1])], axis=1
    )
    totals, order = ops.top_k(ops.where(is_repeated, MINUS_INFINITY, totals), dynamic_shape(totals)[1])
    longest = ops.expand_dims(ops.maximum(longest, 1), 1)
    bank = -(-ops.take_along_axis(then, order, axis=1) * (banks - 1) // longest)
    bank = ops.clip(bank, 0, banks - 1)
    is_of = ops.one_hot(bank, banks, dtype="int32")
    place = ops.sum(is_of * ops.cumsum(is_of, axis=1), axis=2) - 1
    positions = ops.expand_dims(ops.arange(dynamic_shape(totals)[1], dtype="int32"), 0)
    last = banks * dynamic_shape(totals)[1]
    rank = ops.where(ops.equal(totals, MINUS_INFINITY), last + positions, banks * place + bank)
    _, chosen = ops.top_k(-rank, count)
    return ops.take_along_axis(totals, chosen, axis=1), ops.take_along_axis(
        ops.take_along_axis(indices, order, axis=1), chosen, axis=1
    )
