"""What of a test is left to `make test-slow`, and to `make all-cases`."""

import os

import pytest

ALL_CASES = bool(os.environ.get("ALL_CASES"))
by_hand = pytest.mark.skipif(not ALL_CASES, reason="run by hand: make all-cases")
"""Marks further cases of a test that takes minutes: its first case is always run. Also marks a short pass of what has a
target or a workflow of its own: `make long`, `make fuzz`, `.ci/smoke.py`."""


def first_at_once(cases, ids=None):
    """Cases for `parametrize`, of which all but the first are left to `make test-slow`."""
    named = zip(cases, ids or [None] * len(cases), strict=True)
    return [pytest.param(case, id=name, marks=[pytest.mark.minutes] * (n > 0)) for n, (case, name) in enumerate(named)]
