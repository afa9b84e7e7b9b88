"""What of a test is left to `make test-slow`."""

import pytest


def first_at_once(cases, ids=None):
    """Cases for `parametrize`, of which all but the first are left to `make test-slow`."""
    cases = [*cases]
    marks = [(), *[pytest.mark.minutes] * (len(cases) - 1)]
    ids = ids or [None] * len(cases)
    return [pytest.param(case, id=name, marks=mark) for case, name, mark in zip(cases, ids, marks, strict=True)]
