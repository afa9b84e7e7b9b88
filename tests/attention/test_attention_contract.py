"""Every attention layer and every score function keeps the contract."""

import pytest

from tests.support.layer_cases import ATTENTION_CASES, MASKED_CASES, SCORE_CASES
from tests.support.layer_contract import (
    ATTENTION_CHECKS,
    LAYER_CHECKS,
    batch_order,
    compiled,
    gradients,
    symbolic_shapes,
)


def pairs(cases, checks, exempt=False):
    """Each case with each check that it must keep, or with each that it is exempt from; XLA takes its time."""
    return [
        pytest.param(case, check, id=f"{name}-{check.__name__}", marks=[pytest.mark.minutes] * (check is compiled))
        for name, case in cases.items()
        for check in checks
        if (check.__name__ in case.exempt) == exempt
    ]


@pytest.mark.parametrize(("case", "check"), pairs(SCORE_CASES, [*LAYER_CHECKS, compiled]))
def test_score_keeps_the_contract_of_layers(case, check):
    check(case)


@pytest.mark.parametrize(("case", "check"), pairs(ATTENTION_CASES, LAYER_CHECKS))
def test_attention_keeps_the_contract_of_layers(case, check):
    check(case)


OF_CALLS = [symbolic_shapes, gradients, compiled, batch_order]
"""The checks of what a call does; a mask is no part of a layer's config, weights or dtypes."""


@pytest.mark.parametrize(("case", "check"), pairs(MASKED_CASES, OF_CALLS))
def test_attention_with_a_mask_keeps_the_contract_of_layers(case, check):
    check(case)


@pytest.mark.parametrize(("case", "check"), pairs(ATTENTION_CASES, ATTENTION_CHECKS))
def test_attention_keeps_the_contract_of_attention(case, check):
    check(case)


@pytest.mark.parametrize(("case", "check"), pairs(ATTENTION_CASES, LAYER_CHECKS + ATTENTION_CHECKS, exempt=True))
def test_what_a_case_is_exempt_from_does_not_hold_for_it(case, check):
    with pytest.raises((AssertionError, ValueError)):
        check(case)


def test_exemptions_name_checks():
    names = {check.__name__ for check in LAYER_CHECKS + ATTENTION_CHECKS}
    assert all(set(case.exempt) <= names for case in (ATTENTION_CASES | MASKED_CASES).values())
