"""Every part of the model keeps the contract of layers."""

import pytest

from tests.support.layer_cases import PART_CASES
from tests.support.layer_contract import LAYER_CHECKS, compiled


@pytest.mark.parametrize("check", [*LAYER_CHECKS, compiled], ids=lambda check: check.__name__)
@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in PART_CASES.items()])
def test_part_of_the_model_keeps_the_contract_of_layers(case, check):
    check(case)
