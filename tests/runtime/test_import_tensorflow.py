"""What is done around the import of TensorFlow."""

import importlib
import sys

import pytest

from pipeline.runtime.import_tensorflow import hidden


def test_hidden_libraries_cannot_be_imported_until_the_block_ends(monkeypatch):
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    with hidden("colorsys", "json"):
        with pytest.raises(ImportError):
            importlib.import_module("colorsys")
        assert importlib.import_module("json") is sys.modules["json"]  # loaded already
    assert importlib.import_module("colorsys").rgb_to_hsv


def test_hidden_libraries_come_back_after_an_error(monkeypatch):
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    with pytest.raises(RuntimeError), hidden("colorsys"):
        raise RuntimeError
    assert importlib.import_module("colorsys").rgb_to_hsv
