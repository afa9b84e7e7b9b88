"""Arrays of a Marian folder; what a header of safetensors claims is not believed."""

import json

import numpy as np
import pytest

from qkv.exchange.marian_weights import open_safetensors
from tests.support.marian import MARIAN


def write(path, header, data=b"\0" * 16, length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + data)
    return path


def entry(dtype="F32", shape=(2, 2), place=(0, 16)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(place)}


@pytest.mark.parametrize(("dtype", "size"), [("F64", 8), ("F32", 4), ("F16", 2)])
def test_numbers_of_every_precision_become_float32(tmp_path, dtype, size):
    array = np.array([[1.5, -2.0], [0.25, 3.0]], f"<f{size}")
    header = {"__metadata__": {"format": "pt"}, "x": entry(dtype, place=(0, 4 * size))}
    file = open_safetensors(write(tmp_path / "file", header, array.tobytes()))
    assert [*file] == ["x"] and file["x"].shape == (2, 2) and file["x"].read().dtype == np.float32
    np.testing.assert_array_equal(file["x"].read(), array)


def test_bfloat16_is_the_upper_half_of_a_float32(tmp_path):
    array = np.array([1.5, -2.0, 0.25, 3.0], "<f4")
    halves = (array.view("<u4") >> 16).astype("<u2").tobytes()
    file = open_safetensors(write(tmp_path / "file", {"x": entry("BF16", (4,), (0, 8))}, halves))
    np.testing.assert_array_equal(file["x"].read(), array)


def test_the_second_array_begins_where_the_header_says(tmp_path):
    header = {"b": entry(shape=(1,), place=(12, 16)), "a": entry(shape=(3,), place=(0, 12))}
    file = open_safetensors(write(tmp_path / "file", header, np.arange(4, dtype="<f4").tobytes()))
    assert file["a"].read().tolist() == [0, 1, 2] and file["b"].read().tolist() == [3]


WRONG = {
    "arrays that overlap": ({"x": entry(), "y": entry()}, {}),
    "bytes of no array": ({"x": entry(shape=(3,), place=(0, 12))}, {}),
    "no JSON": (b"{", {}),
    "no object": ([1], {}),
    "no entry": ({"x": 3}, {}),
    "no shape": ({"x": {"dtype": "F32", "data_offsets": [0, 16]}}, {}),
    "a huge shape": ({"x": entry(shape=(1 << 40, 1 << 20))}, {}),
    "a product that overflows 64 bits": ({"x": entry(shape=(1 << 61, 8))}, {}),
    "a negative shape": ({"x": entry(shape=(-2, -2))}, {}),
    "a shape of truth values": ({"x": entry(shape=(True, 4))}, {}),
    "numbers of another type": ({"x": entry("I64", place=(0, 32))}, {"data": b"\0" * 32}),
    "a place after the end": ({"x": entry(place=(16, 32))}, {}),
    "a place that ends before it begins": ({"x": entry(place=(16, 0))}, {}),
    "a header longer than the file": ({}, {"length": 1 << 40}),
    "an empty header": ({}, {"length": 0}),
    "nested": (b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}", {}),
}


@pytest.mark.parametrize("kind", WRONG)
def test_damaged_and_hostile_headers_are_refused(tmp_path, kind):
    header, others = WRONG[kind]
    with pytest.raises(ValueError):
        open_safetensors(write(tmp_path / "file", header, **others))


def test_any_truncation_is_refused(tmp_path):
    whole = (MARIAN / "model.safetensors").read_bytes()
    for length in (0, 4, 8, 500, len(whole) // 2, len(whole) - 1):
        (tmp_path / "file").write_bytes(whole[:length])
        with pytest.raises(ValueError):
            open_safetensors(tmp_path / "file")
