"""What of a test is left to `make test-slow`."""

import pytest


def first_at_once(cases, ids=None):
    """Cases for `parametrize`, of which all but the first are left to `make test-slow`."""
    named = zip(cases, ids or [None] * len(cases), strict=True)
    return [pytest.param(case, id=name, marks=[pytest.mark.minutes] * (n > 0)) for n, (case, name) in enumerate(named)]
