"""Imports TensorFlow and Keras: checks the environment, silences messages, and sets up libraries for small models."""

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

THREAD_VARIABLES = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS")
MOST_THREADS = 10_000
LEAST_ADDRESS_SPACE = 4 << 30  # bytes; TensorFlow takes 2 GiB before it computes anything
UNUSED_BY_KERAS = ("IPython", "jax", "matplotlib", "pandas")  # Keras imports them if they are installed
KERAS_VARIABLES = {"KERAS_BACKEND": "tensorflow", "KERAS_HOME": os.devnull, "KERAS_NNX_ENABLED": "0"}
"""Environment variables for Keras. They replace those of the user, and the file `keras.json` in `KERAS_HOME`."""


@contextmanager
def importing_tensorflow() -> Iterator[None]:
    """Sets up TensorFlow and Keras, then runs the block, which should only import them and modules that need them.

    Environment variables are set as follows. All but those of Keras keep their value if they are set already.

    - TF_CPP_MIN_LOG_LEVEL: silences TensorFlow's messages.
    - TF_ENABLE_ONEDNN_OPTS: switches on oneDNN's kernels if there is no GPU. By default TensorFlow uses them on some
      processors only; on others they made an update an eighth faster.
    - TF_FORCE_GPU_ALLOW_GROWTH: memory of a GPU is allocated as it is needed, not all at once.
    - TF_NUM_INTRAOP_THREADS: a product uses a share of the cores. By default it uses all, but products are small here
      and several are computed in parallel.
    - TF_NUM_INTEROP_THREADS: the number of usable cores, which accounts for the CPU quota of a container.
    - `KERAS_VARIABLES`: Keras uses TensorFlow, with default settings.

    Within the block, standard error is silenced. The garbage collector is disabled, because imports produce no garbage:
    this saves an eighth of the start-up time. IPython, JAX, matplotlib and pandas are hidden while Keras is imported:
    this saves a quarter.

    Raises:
        InputError: an environment variable or the limit of the address space is wrong (`check_environment`), or an
            import fails, or Keras was imported before with another backend, or TensorFlow cannot work in this forked
            process (`refuse_after_fork`).
    """
    refuse_after_fork()
    check_environment()
    if "keras" not in sys.modules:
        os.environ.update(KERAS_VARIABLES)
    if not has_nvidia_device():
        os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", str(-(-usable_cores() // CORE_GROUPS)))
    os.environ.setdefault("TF_NUM_INTEROP_THREADS", str(usable_cores()))  # TensorFlow does not know of quotas
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        with silenced_stderr(), without_garbage_collection():
            with hidden_libraries(*UNUSED_BY_KERAS):
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
def hidden_libraries(*libraries: str) -> Iterator[None]:
    """Makes imports of these libraries fail within the block, except for libraries that are imported already."""
    missing = {name: None for name in libraries if name not in sys.modules}
    sys.modules.update(missing)  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in missing:
            del sys.modules[name]


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Disables the garbage collector within the block."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def silenced_stderr() -> Iterator[None]:
    """Discards the text that the process writes to standard error within the block. Exceptions are raised as usual.

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
    """Raises an `InputError` if TensorFlow would crash or hang in this environment.

    It checks the variables in `THREAD_VARIABLES`, `TF_CONFIG`, and the limit of the address space (`ulimit -v`).
    """
    for name in THREAD_VARIABLES:
        for value in filter(None, os.environ.get(name, "").split(",")):  # OpenMP allows a number for each nesting level
            if not value.strip().isdecimal() or len(value) > 9 or int(value) > MOST_THREADS:
                raise InputError(f"{name}: expected a number of threads up to {MOST_THREADS}, found {value[:40]!r}")
    read_cluster()
    limit = resource.getrlimit(resource.RLIMIT_AS)[0] if resource else -1
    if resource and limit != resource.RLIM_INFINITY and limit < LEAST_ADDRESS_SPACE:
        raise InputError(
            f"the address space is limited to {limit >> 20} MiB; TensorFlow needs at least "
            f"{LEAST_ADDRESS_SPACE >> 20}: ulimit -v unlimited"
        )


# True if this process was forked after TensorFlow had computed. TensorFlow's threads do not survive a fork: in the
# child process, its first operation waits for ever.
_is_unusable = False


def refuse_after_fork() -> None:
    """Raises an `InputError` if this process was forked from one in which TensorFlow had already computed."""
    if _is_unusable:
        raise InputError(
            "this process was forked after TensorFlow had computed in its parent, and TensorFlow would wait here for "
            "ever; load the run after the fork, in each process and not before in the parent, or start processes with "
            'multiprocessing.get_context("spawn")'
        )


def _note_fork() -> None:
    """Sets `_is_unusable` in a process that has just been forked, if TensorFlow has computed in its parent."""
    global _is_unusable
    module = sys.modules.get("tensorflow.python.eager.context")
    context = module.context_safe() if module else None
    _is_unusable = _is_unusable or (context is not None and context._initialized)


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_note_fork)
