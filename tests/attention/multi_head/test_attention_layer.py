"""What all attention layers share: how their inputs are given."""

import keras
import numpy as np
import pytest

from qkv.attention import AdditiveAttention, CrossAttention, MultiHeadAttention, SelfAttention
from qkv.attention.mechanisms import MECHANISM_CLASSES
from tests.support.layer_contract import assert_close

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
    with pytest.raises(TypeError, match=rf"{type(layer).__name__}: .* found {inputs}.*layer\(query, value=..., key="):
        layer(*[X] * inputs)
    with pytest.raises(TypeError, match="positional"):
        layer.build(*[X.shape] * 4)


def test_keys_and_values_by_name_come_in_any_order():
    layer = MultiHeadAttention(2, 4)
    key, value = (np.random.default_rng(seed).normal(size=(1, 5, 8)).astype("float32") for seed in (0, 1))
    assert_close(layer(X, key=key, value=value), layer(value=value, key=key, query=X), 0)
    symbols = {name: keras.Input(x.shape[1:]) for name, x in {"query": X, "key": key, "value": value}.items()}
    assert layer(**symbols)[1].shape == (None, 2, 3, 5)


@pytest.mark.parametrize("width", [6, 10])
def test_without_projection_a_width_that_is_not_that_of_the_heads_is_refused(width):
    x = np.ones((1, 3, width), "float32")
    for kind, inputs in ((SelfAttention, (x,)), (CrossAttention, (x, X))):
        with pytest.raises(ValueError, match=f"must be num_heads . size = 8, found {width}"):
            kind(2, 4, projection=False)(*inputs)


def test_without_value_projection_the_context_is_as_wide_as_the_values_of_all_heads():
    assert SelfAttention(2, 4, value_dim=3, value_projection=False)(X[..., :6])[0].shape == (1, 3, 6)
    assert SelfAttention(2, 4, value_dim=3, output_dim=5)(X)[0].shape == (1, 3, 5)
    with pytest.raises(ValueError, match=r"output_dim: expected 6 \(H \* V\) without value projection, found 5"):
        SelfAttention(2, 4, value_dim=3, output_dim=5, value_projection=False)


@pytest.mark.parametrize("name", sorted(MECHANISM_CLASSES))
def test_mechanisms_drop_nothing_unless_asked_to_and_guess_no_axis_of_a_mask(name):
    mechanism = MECHANISM_CLASSES[name](**{"max_length": 9} if name == "linformer" else {})
    assert mechanism.dropout.rate == 0
    if name not in ("softmax", "sink"):  # which leave it to NumPy's rules
        with pytest.raises(ValueError, match=r"mask: .*found .*\(5, 5\)"):
            mechanism(*np.ones((3, 1, 1, 5, 4), "float32"), mask=np.ones((5, 5), bool))
