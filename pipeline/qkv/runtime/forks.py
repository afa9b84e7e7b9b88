"""Processes that were forked. TensorFlow's threads do not survive a fork: in the child, its first operation waits for
ever."""

import os
import sys

from ..errors import InputError

_is_unusable = False


def refuse_after_fork() -> None:
    """Raises an `InputError` if this process was forked from one in which TensorFlow had already computed."""
    if _is_unusable:
        raise InputError(
            "this process was forked after TensorFlow had computed in its parent, and TensorFlow would wait here for "
            "ever; load the run after the fork, in each process and not before in the parent, or start processes with "
            'multiprocessing.get_context("spawn")'
        )


def _look_at_parent() -> None:
    global _is_unusable
    module = sys.modules.get("tensorflow.python.eager.context")
    context = module.context_safe() if module else None
    _is_unusable = _is_unusable or (context is not None and context._initialized)


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_look_at_parent)
