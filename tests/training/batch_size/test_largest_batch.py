"""The largest batch that fits into a GPU: found by trying, without a trace in the model."""

from types import SimpleNamespace
from typing import NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from qkv.errors import InputError
from qkv.training import batch_size
from qkv.training.batch_size import (
    LEAST_BATCHES,
    MOST_BATCH_TOKENS,
    PROCESSOR_TOKENS,
    find_batch_tokens,
    largest_fitting,
)
from qkv.training.loss import TotalLoss
from qkv.training.step import BATCH_SIGNATURE, TrainStep
from tests.support.tiny_models import make_transformer

LONGEST = 7  # of a source with EOS: 8 at a multiple of 4


@given(fitting=st.integers(0, 5000), least=st.integers(1, 300), most=st.integers(300, 6000))
def test_the_search_ends_close_below_what_fits(fitting, least, most):
    tried = []

    def fits(number):
        tried.append(number)
        return number <= fitting

    found = largest_fitting(fits, least, most)
    assert all(least <= number <= most for number in tried) and len(tried) < 24
    if fitting < least:
        assert found == 0
    else:
        assert least <= found <= min(fitting, most)
        assert found == most or fitting < most
        assert found >= min(fitting, most) * 15 / 16 - 2


class Sentences(NamedTuple):
    lengths: np.ndarray

    def __len__(self):
        return len(self.lengths)


def batches_of(targets=10_000):
    sides = [Sentences(np.array(lengths)) for lengths in ([3, LONGEST - 1], [5] * targets)]
    pairs = SimpleNamespace(sides=sides, target=sides[1])
    rows = SimpleNamespace(longest_row=(8, 8))
    return SimpleNamespace(segmentations=[pairs], rows=rows, share_signature=BATCH_SIGNATURE)


def test_an_epoch_keeps_a_number_of_updates():
    assert batch_size.largest_useful(batches_of()) == 60_000 // LEAST_BATCHES
    assert batch_size.largest_useful(batches_of(10**6)) == MOST_BATCH_TOKENS
    assert batch_size.largest_useful(batches_of(1)) == 1


@pytest.fixture(scope="module")
def step():
    model = make_transformer(dropout=0.5)
    optimizer = keras.optimizers.SGD(0.1)
    optimizer.build(model.trainable_variables)
    return TrainStep(TotalLoss(model), optimizer, tf.distribute.get_strategy())


@pytest.fixture
def memory(step, monkeypatch):
    """Makes a GPU of a device that holds a number of sentences; returns what was tried."""
    monkeypatch.setattr(batch_size, "visible_gpus", lambda: ["a GPU"])

    def hold(most):
        tried = []
        original = TrainStep.graph

        def graph(step, function, signature, xla=False):
            run = original(step, function, signature)

            def limited(*tensors):
                assert {len(x) for x in tensors} == {len(tensors[0])} and {x.shape[1] for x in tensors} == {8}
                tried.append(len(tensors[0]))
                if len(tensors[0]) > most:
                    raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")
                return run(*tensors)

            return limited

        monkeypatch.setattr(TrainStep, "graph", graph)
        return tried

    return hold


def test_what_fits_is_found_less_a_reserve_and_the_model_stays(step, memory, caplog):
    before = [np.array(keras.ops.convert_to_numpy(variable)) for variable in step.model.variables]
    tried = memory(most=9)
    with caplog.at_level("INFO"):
        found = find_batch_tokens(step, batches_of(), limit=1000)
    assert 0.9 * 8 * 9 * 15 / 16 - 2 < found <= 0.9 * (8 * 9 + 7)
    assert min(tried) <= 9 < max(tried)
    assert f"batches.batch_tokens auto: {found:,}; kept in the run" in caplog.text
    for variable, value in zip(step.model.variables, before, strict=True):
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(variable), value)


def test_the_limit_is_taken_if_it_fits(step, memory):
    memory(most=10**6)
    assert find_batch_tokens(step, batches_of(), limit=50) == 50


def test_a_sentence_that_does_not_fit_is_reported(step, memory):
    memory(most=0)
    with pytest.raises(InputError, match=r"not even a row of 8 tokens fits .*lower data\.max_source_tokens"):
        find_batch_tokens(step, batches_of(), limit=1000)


def test_nothing_is_tried_on_a_processor(caplog):
    with caplog.at_level("INFO"):
        alone = SimpleNamespace(strategy=SimpleNamespace(cluster_resolver=None))
        assert find_batch_tokens(alone, batches_of(), limit=1000) == PROCESSOR_TOKENS
    assert "batches.batch_tokens auto: 4,096, since there is no GPU" in caplog.text


def test_several_machines_need_a_number():
    workers = SimpleNamespace(strategy=SimpleNamespace(cluster_resolver=object()))
    with pytest.raises(InputError, match=r"batches\.batch_tokens: expected a number .* found auto"):
        find_batch_tokens(workers, batches_of(), limit=1000)
