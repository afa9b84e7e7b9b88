"""An update: batches that are accumulated and batches computed in slices give the update of the whole batch."""

from functools import partial

import keras
import numpy as np
import pytest
import tensorflow as tf

from qkv.errors import InputError
from qkv.text.batch import Batch
from qkv.text.tokens.special_tokens import PAD
from qkv.training.accumulation import Accumulation
from qkv.training.progress import Progress
from qkv.training.step import BATCH_SIGNATURE, TrainStep
from tests.support import training
from tests.support.packing import ROWS, alone, pack
from tests.support.training import assert_equal_weights, batch_of

make_step = partial(training.make_step, r_drop=1.0)


@pytest.fixture(scope="module")
def shared():
    """Two equal models with a step each, of the whole batch and of two slices; traced once for batches of any size."""
    models, steps = zip(*(make_step(clip_norm=0.5, slices=slices) for slices in (1, 2)), strict=True)
    return models, steps, models[0].get_weights()


@pytest.fixture
def whole_and_sliced(shared):
    """Those two, as they were made."""
    models, steps, start = shared
    for model in models:
        model.set_weights(start)
    return models, steps


def test_an_update_is_the_mean_gradient_clipped_and_applied(whole_and_sliced):
    (model, _), (step, _) = whole_and_sliced
    batch = Batch(*(tf.constant(ids) for ids in batch_of([0, 1, 2]).ids))
    before = [variable.numpy() for variable in model.trainable_variables]
    with tf.GradientTape() as tape:
        _, total = step.loss(batch)
    tokens = int((batch.target_output.numpy() != PAD).sum())
    gradients = [
        np.zeros(variable.shape) if gradient is None else tf.convert_to_tensor(gradient).numpy() / tokens
        for gradient, variable in zip(tape.gradient(total, model.trainable_variables), before, strict=True)
    ]
    norm = np.sqrt(sum((gradient**2).sum() for gradient in gradients))
    assert norm > 0.5
    metrics = step(batch)
    np.testing.assert_allclose(metrics, (total, tokens, norm), rtol=1e-5)
    for variable, start, gradient in zip(model.trainable_variables, before, gradients, strict=True):
        np.testing.assert_allclose(variable, start - 0.1 * gradient * 0.5 / norm, atol=1e-6)


@pytest.mark.minutes
def test_accumulated_batches_count_as_one_batch_by_their_tokens(whole_and_sliced):
    (whole_model, model), (whole, step) = whole_and_sliced
    accumulation = Accumulation(step)
    for rows in ([1], [3, 0], [2]), ([0, 1], [2]), ([3],), ([1, 2], [0]):  # what was added before does not count again
        expected = whole(batch_of([row for batch in rows for row in batch]))
        metrics = accumulation.make([batch_of(batch) for batch in rows], Progress())
        np.testing.assert_allclose(metrics, expected, rtol=1e-5)
    assert_equal_weights(model, whole_model, atol=1e-5)


@pytest.mark.minutes
@pytest.mark.parametrize("rows", [[0, 1, 2, 3], [2, 0, 3], [1]])
def test_a_batch_in_slices_gives_the_update_of_the_whole_batch(rows, whole_and_sliced):
    (whole_model, model), (whole, sliced) = whole_and_sliced
    for _ in range(2):
        np.testing.assert_allclose(sliced(batch_of(rows)), whole(batch_of(rows)), rtol=1e-5)
    assert_equal_weights(model, whole_model, atol=1e-5)


SOURCE, TARGET = (tf.TensorSpec((3, length), tf.int32) for length in (20, 15))
THREE = [ROWS, [[3], [], [1, 0]], [[2, 3], [0], []]]  # the pairs in each row of three batches
PACKED = Batch(SOURCE, TARGET, TARGET, source_segments=SOURCE, target_segments=TARGET)


@pytest.mark.minutes
def test_a_compiled_update_of_packed_rows_is_that_of_the_graph_of_their_sentences():
    """With R-Drop, dropout 0, a row of padding, and updates that are made in one call or several."""
    (model, graph), (compiled_model, compiled) = (
        make_step(clip_norm=0.5, xla=xla, signature=signature)
        for xla, signature in ((False, BATCH_SIGNATURE), (True, PACKED))
    )
    assert compiled.takes_several and not graph.takes_several
    batches = [(pack(rows), alone([number for row in rows for number in row])) for rows in THREE]
    expected = [graph(sentences) for _, sentences in batches]
    metrics = compiled.make_several([packed for packed, _ in batches])
    np.testing.assert_allclose(metrics, np.transpose(expected), rtol=1e-5)
    assert_equal_weights(compiled_model, model, atol=1e-5)


def make_numbered(groups, **settings):
    """The weights, generators and metrics after nine updates that are divided into calls of these sizes."""
    model, step = make_step(dropout=0.3, clip_norm=0.5, signature=PACKED, **settings)
    batches = [pack(rows) for rows in THREE * 3]
    metrics, first = [], 0
    for size in groups:
        metrics += zip(*map(np.array, step.make_several(batches[first : first + size])), strict=True)
        first += size
    return [*map(keras.ops.convert_to_numpy, model.variables)], metrics


@pytest.mark.minutes
def test_the_division_of_updates_into_calls_changes_no_bit():
    straight = make_numbered([1] * 9)
    np.testing.assert_equal(make_numbered([9]), straight)
    np.testing.assert_equal(make_numbered([1, 4, 2, 2]), straight)


def test_xla_on_several_devices_is_refused():
    _, step = make_step()
    strategy = type("Two", (), {"num_replicas_in_sync": 2})()
    with pytest.raises(InputError, match=r"training\.xla: compiles for one device; expected --run\.devices 1"):
        TrainStep(step.loss, step.optimizer, strategy, xla=True)


def test_on_several_devices_each_calls_the_graph():
    _, step = make_step()
    calls = []

    class Devices:
        def run(self, function, args):
            calls.append(args)
            return function(*args)

    for replicas in (1, 2):
        step.replicas, step.strategy = replicas, Devices()
        assert step.graph(lambda x: x + 1, [tf.TensorSpec([])])(1.0) == 2
        assert bool(calls) == (replicas > 1)
