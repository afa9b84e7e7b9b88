"""Loops and branches of searches, whose tensors change their shapes.

TensorFlow's graphs and PyTorch have no trouble with that; JAX compiles a loop or a branch for one shape. There searches
run step by step instead, as Python does, and not inside `jax.jit`.
"""

import keras
from keras import ops


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
