"""What every change of a head of two layers costs, computed once."""

import pytest

from qkv.inspection.experiments.perturbation import perturbation_effects
from qkv.text.tokens.special_tokens import EOS
from tests.support.tiny_models import shared_transformer


@pytest.fixture(scope="package")
def pairs():
    return [([5, 9, 4], [7, 10, EOS]), ([8], [4, 5, 6, 7, EOS]), ([11, 12, 13, 14, 15, 4], [9, EOS])]


@pytest.fixture(scope="package")
def effects(pairs):
    return perturbation_effects(shared_transformer(decoder_layers=2), pairs, batch_tokens=10, threads=2).table()
