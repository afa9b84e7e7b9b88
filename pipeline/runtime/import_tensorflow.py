"""How TensorFlow's native libraries are loaded."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import InputError
from .cores import CORE_GROUPS, usable_cores


@contextmanager
def importing_tensorflow() -> Iterator[None]:
    """Around the import of TensorFlow: silences it, asks for oneDNN's kernels and says how many cores share a product.

    The block is to hold imports alone. TensorFlow takes oneDNN's kernels by itself on some processors only; where it
    does not, they took an eighth off the time of an update. Products are small here: cores are better given one each
    than a part of each, which is what TensorFlow does by itself. TF_ENABLE_ONEDNN_OPTS, TF_NUM_INTRAOP_THREADS and
    TF_CPP_MIN_LOG_LEVEL are left alone where they are set.

    Raises:
        InputError: something in the block cannot be loaded.
    """
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", str(-(-usable_cores() // CORE_GROUPS)))
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        with silenced_stderr():
            yield
    except Exception as error:
        raise InputError(
            f"TensorFlow or what belongs to it cannot be loaded: {' '.join(str(error).split())}; the versions must fit "
            "together: python -m pip install -r requirements.txt"
        ) from error


@contextmanager
def silenced_stderr() -> Iterator[None]:
    """Sends the process's standard error nowhere for the time of a block; exceptions pass as ever.

    TensorFlow tells at every start that there is no GPU, partly in lines that no setting of its own silences. Those
    that come later are silenced by TF_CPP_MIN_LOG_LEVEL.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
