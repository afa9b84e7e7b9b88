"""The tap, a function through which layers pass their values. Hooks can read and replace the values there."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from keras import ops

__all__ = ["Hook", "tap", "tapped"]

Hook = Callable[..., Any]
"""A function `hook(layer, part, value, **inputs)` with the arguments of `tap`. It returns the value to continue with.

To change nothing, a hook returns the same object that it received. Then nothing is added to a graph, and the layer
keeps its result bit for bit.
"""

_HOOKS: ContextVar[tuple[Hook, ...]] = ContextVar("hooks", default=())


def tap(layer: Any, part: str, value: Any, **inputs: Any) -> Any:
    """Passes the value through all active hooks of this thread and returns the result.

    The tapped values, with B rows, T queries, S keys, H heads, K and V sizes of a head, D width of the layer:

    | layer | part | value |
    |---|---|---|
    | attention layers | queries, keys, values | `(B, heads, tokens, K or V)`, after their projections |
    | | weights | float32 `(B, H, T, S)`; input: `mask` |
    | | heads | `(B, H, T, V)`, the context of each head |
    | | output | `(B, T, D)`; inputs: `weights`, and `values` `(B, H, S, V)` |
    | mechanisms that score each pair | scores | `(B, H, T, S)`, including those of masked keys |
    | `Residual` | residual | `(B, T, D)` |
    | `FeedForward` | output | `(B, T, D)` |
    | `TokenEmbedding` | vectors | `(B, T, D)` |
    | decoders of recurrent models | states | `(B, hidden_dim)`, once for each step |
    | `BahdanauDecoder` | read_out | `(B, T, embedding_dim)` |
    | `LuongDecoder` | read_out | `(B, embedding_dim)`, once for each step |
    | models | full names, such as `encoder.embedding` and `logits` | |

    Args:
        layer: the layer or model that computes the value.
        part: the name of the value within the layer.
        value: a tensor.
        **inputs: tensors from which the value was computed, by name, for hooks that need them.

    Returns:
        The result of the last hook; `value` itself if there are no hooks.
    """
    for hook in _HOOKS.get():
        value = hook(layer, part, value, **inputs)
        if value is None:
            raise TypeError(f"{_name_of(hook)}: expected a hook that returns the value to continue with, found None")
    return value


@contextmanager
def tapped(hook: Hook) -> Iterator[None]:
    """Activates a hook for this thread until the block ends. It is called after the hooks that are already active.

    The block applies to models and layers that are called eagerly, such as `model(source_ids, target_ids)`. A graph
    contains the hooks that are active when it is traced, so open the block inside the traced function. The replicas of
    `tf.distribute` run in threads that have no hooks.

    Args:
        hook: the hook. `model.layer_names("decoder")` gives the names of the layers that it is called with. For the
            part `scores` the layer is `mechanism` of an attention layer.

    Raises:
        TypeError: the hook cannot be called as `hook(layer, part, value, **inputs)`.

    Example:
        >>> import keras
        >>> from qkv.attention import CrossAttention
        >>> def first_key_alone(layer, part, value, **inputs):
        ...     return value * keras.ops.array([1.0, 0.0]) if part == "weights" else value
        >>> layer, x = CrossAttention(num_heads=1, key_dim=4), keras.random.normal((1, 2, 4))
        >>> with tapped(first_key_alone):
        ...     context, weights = layer(x, x)
        >>> weights[0, 0, :, 1].numpy().tolist()
        [0.0, 0.0]
    """
    try:
        inspect.signature(hook).bind(None, "", None, mask=None, weights=None, values=None)
    except TypeError:
        raise TypeError(f"{_name_of(hook)}: expected a hook(layer, part, value, **inputs)") from None
    token = _HOOKS.set((*_HOOKS.get(), hook))
    try:
        yield
    finally:
        _HOOKS.reset(token)


def _name_of(hook: Hook) -> str:
    """Returns the name of a hook for messages."""
    return getattr(hook, "__name__", type(hook).__name__)


def where_changed(after: Any, before: Any, new: Any, old: Any) -> Any:
    """Returns `new` in the rows that a hook changed, and `old` in all other rows, bit for bit.

    Args:
        after: the value that the tap returned, `(..., n)`; a row is the last axis.
        before: the value that was passed to the tap, `(..., n)`.
        new: the result computed from `after`, `(..., m)`.
        old: the result computed from `before`, `(..., m)`.

    Returns:
        `(..., m)`.
    """
    return ops.where(ops.any(ops.not_equal(after, before), axis=-1, keepdims=True), new, old)
