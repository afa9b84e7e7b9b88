"""Feed-forward network and residual, against their formulas."""

import numpy as np
import pytest

from qkv.model.transformer import FeedForward, Residual
from tests.support import oracles
from tests.support.layer_contract import stir


def test_feed_forward_is_two_projections_around_the_activation():
    layer = FeedForward(2, 3)
    layer.build((None, None, 2))
    layer.set_weights(
        [np.float32([[1, 0, -1], [0, 1, 0]]), np.float32([0, 1, 0]), np.ones((3, 2), "float32"), np.float32([0, 10])]
    )
    # relu(1, -2 + 1, -1) = (1, 0, 0); its sum is 1
    np.testing.assert_allclose(layer(np.float32([[[1, -2]]])), [[[1, 11]]])


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_residual_normalises_where_its_name_says(norm):
    generator = np.random.default_rng(0)
    x, y = (generator.normal(size=(2, 3, 6)).astype("float32") for _ in range(2))
    layer = Residual(norm)
    layer(x, y)
    stir(layer)
    gamma, beta = layer.normalization.get_weights()
    entered, left = (
        (x, oracles.layer_norm(x + y, gamma, beta)) if norm == "post" else (oracles.layer_norm(x, gamma, beta), x + y)
    )
    np.testing.assert_allclose(layer.enter(x), entered, atol=1e-5)
    np.testing.assert_allclose(layer.leave(x, y), left, atol=1e-5)


def test_residual_drops_out_the_sublayer_and_never_the_input():
    x, y = np.full((1, 100, 4), 5, "float32"), np.ones((1, 100, 4), "float32")
    assert set(np.ravel(Residual("pre", dropout=0.5)(x, y, training=True))) == {5, 7}


def test_an_unknown_norm_is_refused():
    with pytest.raises(ValueError, match=r"norm.*found 'sandwich'"):
        Residual("sandwich")
