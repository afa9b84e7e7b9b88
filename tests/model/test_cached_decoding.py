"""A step with a cache says what the full pass says of that row."""

import numpy as np
import pytest
import tensorflow as tf

from tests.support.tiny_models import SOURCE, TARGET, shared_transformer

T = 5


def assert_rows_equal(output, full, first, tolerance=1e-5):
    """Compares the row that a cached step made with that of the full pass."""
    at = slice(first, first + 1)
    np.testing.assert_allclose(output.logits, full.logits[:, at], rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(output.states, full.states[:, at], rtol=tolerance, atol=tolerance)
    for found, expected in zip(output.cross, full.cross, strict=True):
        np.testing.assert_allclose(found, expected[:, :, at], rtol=tolerance, atol=tolerance)
    for found, expected in zip(output.decoder_self, full.decoder_self, strict=True):
        assert found.shape[-1] == at.stop
        np.testing.assert_allclose(found, expected[:, :, at, : at.stop], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("score", "settings", "tolerance"),
    [
        ("concat", {}, 1e-5),
        ("cosine", {"norm": "post", "positions": "learned"}, 1e-5),
        ("scaled_dot", {"dtype": "mixed_bfloat16"}, 0.1),
    ],
)
def test_every_step_equals_the_row_of_the_full_pass(score, settings, tolerance):
    model = shared_transformer(decoder_self={"score": score}, cross={"score": score}, **settings)
    memory = model.encode(SOURCE)
    full, cache = model.decode(TARGET, memory), model.start_cache(memory)
    assert (cache[0][0].dtype == tf.bfloat16) == ("dtype" in settings)
    for t in range(T):
        output = model.decode(TARGET[:, t : t + 1], memory, cache)
        assert_rows_equal(output, full, t, tolerance)
        cache = output.cache
    assert all(keys.shape[2] == values.shape[2] == T for keys, values in cache)


def test_a_step_leaves_the_cache_it_was_given_as_it_was():
    model = shared_transformer()
    memory = model.encode(SOURCE)
    start = model.start_cache(memory)
    once = model.decode(TARGET[:, :1], memory, start).logits
    model.decode(TARGET[:, 1:2], memory, start)
    np.testing.assert_array_equal(model.decode(TARGET[:, :1], memory, start).logits, once)


@pytest.mark.minutes
def test_a_compiled_step_is_traced_once_more_when_the_cache_grows_and_serves_every_position():
    model = shared_transformer()
    memory = model.encode(SOURCE)
    full, cache = model.decode(TARGET, memory), model.start_cache(memory)
    step = tf.function(
        lambda tokens, cache: model.decode(tokens, memory, cache), jit_compile=True, reduce_retracing=True
    )
    for t in range(T):
        output = step(tf.constant(TARGET[:, t : t + 1]), cache)
        assert_rows_equal(output, full, t, 2e-5)
        cache = output.cache
    assert step.experimental_get_tracing_count() == 2
