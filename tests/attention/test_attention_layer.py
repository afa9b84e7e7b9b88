"""What all attention layers share: how their inputs are given."""

import keras
import numpy as np
import pytest

from pipeline.attention import AdditiveAttention, CrossAttention, MultiHeadAttention, SelfAttention

X = np.ones((1, 3, 8), "float32")


@pytest.mark.parametrize(
    ("layer", "inputs"),
    [
        (MultiHeadAttention(2, 4), 2),
        (MultiHeadAttention(2, 4), 3),
        (AdditiveAttention(4), 3),
        (CrossAttention(2, 4), 3),
        (SelfAttention(2, 4), 2),
    ],
)
def test_keys_and_values_by_position_are_refused_because_keras_has_them_the_other_way_round(layer, inputs):
    with pytest.raises(TypeError, match=rf"{type(layer).__name__}: .* found {inputs} .*layer\(query, key=..., value="):
        layer(*[X] * inputs)
    with pytest.raises(TypeError, match="positional"):
        layer.build(*[X.shape] * 4)


def test_keys_and_values_by_name_come_in_any_order():
    layer = MultiHeadAttention(2, 4)
    key, value = (np.random.default_rng(seed).normal(size=(1, 5, 8)).astype("float32") for seed in (0, 1))
    for one, other in zip(layer(X, key=key, value=value), layer(value=value, key=key, query=X), strict=True):
        np.testing.assert_array_equal(one, other)
    symbols = {name: keras.Input(x.shape[1:]) for name, x in {"query": X, "key": key, "value": value}.items()}
    assert layer(**symbols)[1].shape == (None, 2, 3, 5)
