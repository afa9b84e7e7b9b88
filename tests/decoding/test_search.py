"""On JAX a search's loops and branches are Python's: shapes may change, and tracing is refused."""

import jax
import keras
import numpy as np
import pytest

from qkv.decoding.search import branch, repeat_while


@pytest.fixture
def on_jax(monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")


def grow(count, x):
    return count + 1, np.concatenate([x, [count]])


def test_what_is_carried_through_a_loop_may_grow(on_jax):
    count, x = repeat_while(lambda count, x: count < 3, grow, (0, np.zeros(0)))
    assert (count, x.tolist()) == (3, [0, 1, 2])


def test_a_branch_alone_is_computed_and_may_have_another_shape(on_jax):
    assert branch(np.array(True), lambda: np.zeros(2), lambda: 1 / 0).shape == (2,)
    assert branch(np.array(False), lambda: 1 / 0, lambda: np.zeros(3)).shape == (3,)


@pytest.mark.parametrize(
    "function",
    [
        lambda n: repeat_while(lambda n: n < 3, lambda n: (n + 1,), (n,)),
        lambda n: branch(n > 1, lambda: n, lambda: n + 1),
    ],
    ids=["loop", "branch"],
)
def test_tracing_by_jax_is_refused_by_name(on_jax, function):
    with pytest.raises(ValueError, match=r"searches cannot be traced by JAX: call them outside jax\.jit"):
        jax.jit(function)(0)
