"""Cross-attention of several rows of queries to one memory, as the hypotheses of a beam have it."""

import numpy as np
import pytest

from qkv.attention import CrossAttention
from tests.support.layer_contract import stir

B, N, T, S, HEADS = 2, 3, 2, 5, 2


@pytest.mark.parametrize("masked", [False, True])
def test_rows_that_share_a_memory_get_what_each_would_get_with_a_copy_of_its_own(masked):
    generator = np.random.default_rng(0)
    x = generator.normal(size=(B * N, T, 8)).astype("float32")
    memory = generator.normal(size=(B, S, 6)).astype("float32")
    mask = np.array([[True] * 5, [True] * 3 + [False] * 2])[:, None, None] if masked else None
    layer = CrossAttention(HEADS, 4)
    layer(x, np.repeat(memory, N, 0))
    stir(layer)
    key, value = layer.project_memory(memory, memory)
    context, weights = layer.attend_from_rows(layer.project_query(x), key, value, mask)
    copies = np.repeat(mask, N, 0) if masked else None
    expected_context, expected_weights = layer(x, np.repeat(memory, N, 0), attention_mask=copies)
    assert weights.shape == (B * N, HEADS, T, S)
    np.testing.assert_allclose(weights, expected_weights, atol=1e-6)
    np.testing.assert_allclose(context, expected_context, atol=1e-5)
