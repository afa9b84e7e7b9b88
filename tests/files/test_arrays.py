"""Parts come back as one array, from memory or from a file."""

import errno
import io

import numpy as np
import pytest

from qkv.files import arrays
from qkv.files.arrays import ArrayStore


@pytest.mark.parametrize("memory", [1 << 20, 10])
def test_parts_come_back_in_order_and_later_changes_of_a_part_do_not_matter(monkeypatch, memory):
    monkeypatch.setattr(arrays, "MEMORY_BYTES", memory)
    store = ArrayStore(np.int32)
    part = np.array([1, 2, 3])
    store.add(part)
    part[:] = 0
    store.add([])
    store.add([4])
    assert store.finish().tolist() == [1, 2, 3, 4]
    assert store.finish().dtype == np.int32 if memory > 100 else True
    assert ArrayStore(np.int64).finish().tolist() == []


def test_a_full_disk_is_named(monkeypatch):
    class Full(io.BytesIO):
        def __init__(self, **settings):
            super().__init__()

        def write(self, data):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(arrays, "MEMORY_BYTES", 1)
    monkeypatch.setattr(arrays.tempfile, "TemporaryFile", Full)
    with pytest.raises(OSError, match="No space left") as caught:
        ArrayStore(np.int64).add([1, 2])
    assert caught.value.filename == arrays.tempfile.gettempdir()
