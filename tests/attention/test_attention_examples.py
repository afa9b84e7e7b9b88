"""The examples in the docstrings run as they are printed."""

import doctest
import importlib

import pytest


@pytest.mark.parametrize(
    "name",
    [
        "additive",
        "multi_head",
        "cross_attention",
        "mechanisms.fixed_weights",
        "mechanisms.linformer",
        "mechanisms.lsh",
        "mechanisms.mechanism",
        "scores",
        "self_attention",
    ],
)
def test_docstring_examples_hold(name):
    results = doctest.testmod(importlib.import_module(f"pipeline.attention.{name}"))
    assert results.attempted > 0
    assert results.failed == 0
