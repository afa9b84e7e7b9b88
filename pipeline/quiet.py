"""Keeps the chatter of native libraries off the screen of a person who cannot do anything about it."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def native_chatter_silenced() -> Iterator[None]:
    """Sends the process's standard error nowhere for the time of a block; exceptions pass as ever.

    TensorFlow tells at every start that there is no GPU, partly in lines that no setting of its own silences. Those
    that come later are silenced by TF_CPP_MIN_LOG_LEVEL, which is left alone where it is set.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
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
