"""Every part of the model keeps the contract of layers."""

import pytest

from tests.support.layer_cases import DECODER_CASES, PART_CASES
from tests.support.layer_contract import LAYER_CHECKS, save_and_reload, symbolic_shapes

# A decoder layer without a cache returns None for one, which Keras allows everywhere but in a functional model.
DECODER_CHECKS = [check for check in LAYER_CHECKS if check not in (symbolic_shapes, save_and_reload)]


@pytest.mark.parametrize("check", LAYER_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in PART_CASES.items()])
def test_part_of_the_model_keeps_the_contract_of_layers(case, check):
    check(case)


@pytest.mark.parametrize("check", DECODER_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in DECODER_CASES.items()])
def test_decoder_layer_keeps_the_contract_of_layers(case, check):
    check(case)
