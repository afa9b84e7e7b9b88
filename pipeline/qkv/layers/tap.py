"""The tap: layers pass values through it, so that experiments can read and replace them without touching a layer."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from keras import ops

Visit = Callable[..., Any]
"""Takes a layer, the name of a part, its value and, by name, what else is known there; returns the value to go on with.

A visit returns the very object that it is given where it changes nothing, so that nothing is added to a graph.
"""

_VISITS: ContextVar[tuple[Visit, ...]] = ContextVar("visits", default=())


def tap(layer, part, value, **seen):
    """Returns the value, or what the visits of this thread that are open make of it.

    | layer | part | value |
    |---|---|---|
    | attention layers | queries, keys, values | `(B, heads, tokens, size)`, projected |
    | | weights | float32 `(B, H, T, S)`; seen: `mask` |
    | | heads | `(B, H, T, V)`, what each head reads |
    | | output | `(B, T, D)`; seen: `weights`, `values` `(B, H, S, V)` |
    | mechanisms that score each pair | scores | `(B, H, T, S)`, also of keys that the mask hides |
    | `Residual` | residual | `(B, T, D)` |
    | `FeedForward` | output | `(B, T, D)` |
    | `TokenEmbedding` | vectors | `(B, T, D)` |
    | decoders of recurrent models | states, read_out | `(B, T, N)`, or `(B, N)` for each step of a loop |
    | models | by their whole names, such as encoder.embedding and logits | |

    Args:
        layer: the layer that computes it.
        part: the name of the value within the layer.
        value: the value.
        **seen: what else a visit may need.
    """
    for visit in _VISITS.get():
        value = visit(layer, part, value, **seen)
    return value


@contextmanager
def tapped(visit: Visit) -> Iterator[None]:
    """Calls a visit with every value of this thread within the block, after the visits that are open already.

    A graph follows the visits that are open when it is traced, so open the block inside the function that is traced.
    Replicas of `tf.distribute` run in threads of their own, which follow none.
    """
    token = _VISITS.set((*_VISITS.get(), visit))
    try:
        yield
    finally:
        _VISITS.reset(token)


def where_changed(changed, before, new, own):
    """Returns `new` in the rows in which a visit changed something, and in the others `own`, whose bits stay."""
    return ops.where(ops.any(ops.not_equal(changed, before), axis=-1, keepdims=True), new, own)
