"""Models that are loaded begin with zeros, and those that are built afterwards with random numbers again."""

import numpy as np

from qkv.model.transformer import Transformer
from qkv.model.unset_values import unset_values
from tests.tiny_transformer import SIZES, SOURCE, TARGET, shared_transformer


def test_a_model_built_within_the_block_is_zero_and_takes_the_weights_of_another():
    with unset_values():
        model = Transformer(**SIZES)
        model.build((None, None), (None, None))
    assert not any(np.any(variable.numpy()) for variable in model.trainable_variables)
    model.set_weights(shared_transformer().get_weights())
    np.testing.assert_array_equal(model(SOURCE, TARGET), shared_transformer()(SOURCE, TARGET))
    other = Transformer(**SIZES)
    other.build((None, None), (None, None))
    assert all(np.any(v.numpy()) for v in other.trainable_variables if v.name in ("kernel", "table", "gamma"))
