"""The examples in the docstrings run as they are printed."""

import doctest
import importlib

import pytest


@pytest.mark.parametrize(
    "name",
    [
        "additive",
        "core",
        "cross_attention",
        "fixed_weights",
        "linformer",
        "lsh",
        "mechanism",
        "scores",
        "self_attention",
    ],
)
def test_docstring_examples_hold(name):
    results = doctest.testmod(importlib.import_module(f"pipeline.attention.{name}"))
    assert results.attempted > 0
    assert results.failed == 0
