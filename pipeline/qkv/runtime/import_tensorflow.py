"""Imports TensorFlow silently, in a checked environment, with native libraries set up for small models."""

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import InputError
from .cluster import read_cluster
from .machine import CORE_GROUPS, has_nvidia_device, usable_cores

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

THREADS = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS")
MOST_THREADS = 10_000
LEAST_ADDRESS_SPACE = 4 << 30  # TensorFlow takes 2 GiB before it computes anything
UNUSED_BY_KERAS = ("IPython", "jax", "matplotlib", "pandas")
OWN_KERAS = {"KERAS_BACKEND": "tensorflow", "KERAS_HOME": os.devnull, "KERAS_NNX_ENABLED": "0"}
"""What Keras is told in the place of variables of other projects, and of `keras.json` in `KERAS_HOME`."""


@contextmanager
def importing_tensorflow() -> Iterator[None]:
    """Prepares a block that imports TensorFlow and modules that need it, and does nothing else.

    Within it, TensorFlow's messages are silenced. oneDNN's kernels are switched on: by default TensorFlow uses them on
    some processors only, and on others they took an eighth off the time of an update; where a GPU computes, that is
    left alone. TensorFlow takes memory of a GPU as it needs it, not all at once. Each product gets a share of the
    cores, not all of them as by default, because products are small here and several are computed in parallel. A
    container's quota counts as so many cores. Keras computes by TensorFlow, with its own defaults: `OWN_KERAS`.
    Libraries that Keras would load for its own pictures, tables and other engines are hidden from it, a quarter of the
    start. Nothing that is imported becomes garbage, so none is looked for, an eighth of the rest.

    TF_ENABLE_ONEDNN_OPTS, TF_FORCE_GPU_ALLOW_GROWTH, TF_NUM_INTRAOP_THREADS, TF_NUM_INTEROP_THREADS and
    TF_CPP_MIN_LOG_LEVEL are kept if they are set.

    Raises:
        InputError: the environment is wrong, an import fails, Keras was imported with another backend, or as
            `refuse_after_fork`.
    """
    refuse_after_fork()
    check_environment()
    if "keras" not in sys.modules:
        os.environ.update(OWN_KERAS)
    if not has_nvidia_device():
        os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", str(-(-usable_cores() // CORE_GROUPS)))
    os.environ.setdefault("TF_NUM_INTEROP_THREADS", str(usable_cores()))  # TensorFlow does not know of quotas
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        with silenced_stderr(), without_garbage_collection():
            with hidden(*UNUSED_BY_KERAS):
                import keras
            if (backend := keras.config.backend()) != "tensorflow":
                raise InputError(
                    f"Keras was imported before, with the backend {backend}; expected tensorflow: start Python again "
                    "and set KERAS_BACKEND=tensorflow before the first import of Keras"
                )
            yield
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"TensorFlow or its libraries cannot be loaded: {' '.join(str(error).split())}; expected versions that "
            "fit together: python -m pip install -r requirements.txt"
        ) from error


@contextmanager
def hidden(*libraries: str) -> Iterator[None]:
    """Makes imports of libraries fail within the block, unless they are loaded already."""
    missing = {name: None for name in libraries if name not in sys.modules}
    sys.modules.update(missing)  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in missing:
            del sys.modules[name]


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Looks for no garbage within the block."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def silenced_stderr() -> Iterator[None]:
    """Discards what the process writes to standard error within the block. Exceptions are raised as usual.

    TensorFlow reports that there is no GPU whatever its settings; TF_CPP_MIN_LOG_LEVEL silences what comes later.
    """
    sys.stderr.flush()
    standard_error = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(standard_error, 2)
        os.close(standard_error)
        os.close(nowhere)


def check_environment() -> None:
    """Raises an `InputError` if numbers of threads, `TF_CONFIG` or the limit of the address space are wrong."""
    for name in THREADS:
        for value in filter(None, os.environ.get(name, "").split(",")):  # OpenMP takes a number for each level
            if not value.strip().isdecimal() or len(value) > 9 or int(value) > MOST_THREADS:
                raise InputError(f"{name}: expected a number of threads up to {MOST_THREADS}, found {value[:40]!r}")
    read_cluster()
    limit = resource.getrlimit(resource.RLIMIT_AS)[0] if resource else -1
    if resource and limit != resource.RLIM_INFINITY and limit < LEAST_ADDRESS_SPACE:
        raise InputError(
            f"the address space is limited to {limit >> 20} MiB; TensorFlow needs at least "
            f"{LEAST_ADDRESS_SPACE >> 20}: ulimit -v unlimited"
        )


# TensorFlow's threads do not survive a fork: in the child, its first operation waits for ever.
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
