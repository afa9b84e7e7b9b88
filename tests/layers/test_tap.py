"""Hooks read and replace values, and a function that is no hook is refused by its name."""

import numpy as np
import pytest
from keras import ops

from qkv.attention import SelfAttention
from qkv.layers.tap import tapped

X = np.random.default_rng(1).normal(size=(2, 3, 8)).astype("float32")


def test_hooks_are_called_one_after_the_other_and_end_with_the_block():
    layer, parts = SelfAttention(2, 4), []
    before, _ = layer(X)

    def double(layer, part, value, **inputs):
        parts.append(part)
        return 2 * value if part == "output" else value

    with tapped(double), tapped(double):
        context, _ = layer(X)
    np.testing.assert_allclose(context, 4 * ops.convert_to_numpy(before), rtol=1e-5)
    assert parts.count("output") == 2 and {"queries", "keys", "values", "scores", "weights", "heads"} <= {*parts}
    np.testing.assert_array_equal(layer(X)[0], before)


def forgets_to_return(layer, part, value, **inputs):
    pass


def takes_no_inputs(layer, part, value):
    return value


def test_a_hook_that_returns_nothing_is_named():
    with tapped(forgets_to_return), pytest.raises(TypeError, match="forgets_to_return: expected a hook that returns"):
        SelfAttention(2, 4)(X)


@pytest.mark.parametrize("hook", [takes_no_inputs, lambda layer: layer, 5])
def test_a_function_with_other_arguments_is_refused_before_the_block(hook):
    with pytest.raises(TypeError, match=r"expected a hook\(layer, part, value, \*\*inputs\)"), tapped(hook):
        raise AssertionError("the block was entered")
