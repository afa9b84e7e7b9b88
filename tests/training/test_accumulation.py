"""Updates: one that does not fit into memory is computed in parts, with the same sums."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from qkv.errors import InputError
from qkv.training.accumulation import Accumulation
from qkv.training.progress import Progress
from qkv.training.step import TrainStep
from tests.support.packing import PAIRS, pack
from tests.support.training import assert_equal_weights, batch_of, make_step

WIDTH = 6 + 5  # positions of a sentence of `batch_of`


class SmallMemory:
    """A device that holds a number of sentences: more make the step fail, some after a first change of the sums."""

    def __init__(self, monkeypatch, sentences):
        self.sentences = sentences
        self.failures = 0
        self.parts = []
        original = TrainStep.graph

        def graph(step, function, signature, xla=False):
            run = original(step, function, signature)

            def limited(*tensors):
                numbers = [int(x) for x in tensors if len(x.shape) == 0]
                part, parts = numbers or (0, 1)
                rows = [len(x) for x in tensors if len(x.shape) == 2][:1]
                held = rows[0] * (part + 1) // parts - rows[0] * part // parts if rows else 0
                if held > self.sentences:
                    self.failures += 1
                    raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")
                self.parts += [held] if rows else []
                return run(*tensors)

            return limited

        monkeypatch.setattr(TrainStep, "graph", graph)


def make_updates(dropout=0.0):
    model, step = make_step(dropout, clip_norm=0.5)
    return model, Accumulation(step)


@pytest.mark.minutes
def test_an_update_in_parts_is_the_update_of_the_whole_batch(monkeypatch, caplog):
    whole_model, whole = make_updates()
    groups = [[batch_of([0, 1, 2])], [batch_of([3]), batch_of([1, 2, 0, 3])], [batch_of([2])]]
    expected = [whole.make(group, Progress()) for group in groups]
    memory = SmallMemory(monkeypatch, sentences=1)
    model, updates = make_updates()
    progress = Progress()
    for group, metrics in zip(groups, expected, strict=True):
        np.testing.assert_allclose(updates.make(group, progress), metrics, rtol=1e-5)
        progress.update += 1
    assert_equal_weights(model, whole_model)
    # Three sentences failed, then two of them, after one that is computed again; after that all parts fit.
    assert memory.failures == 2
    assert max(memory.parts) == 1 and sum(memory.parts) == 1 + 3 + 1 + 4 + 1
    assert progress.split_updates == 2 and progress.split_positions == 2 * WIDTH
    said = [record.getMessage() for record in caplog.records if record.name.startswith("qkv")]
    assert [message.startswith("update 1: a batch of 33 positions") for message in said] == [True]


@pytest.mark.minutes
def test_packed_batches_in_parts_and_slices_give_the_update_of_all_their_pairs():
    """The rows of a batch are computed in parts of one or two, these in slices, and two batches are accumulated."""
    groups = [[pack([[0, 2], [3], []])], [pack([[1], [2, 3], []]), pack([[], [], [0]])]]
    signature = pack([[0]]).map(lambda ids: tf.TensorSpec([3, ids.shape[1]], tf.int32))
    models = []
    for slices, limit in ((1, None), (2, 71)):
        model, step = make_step(clip_norm=0.5, signature=signature, slices=slices)
        metrics = [Accumulation(step).make(group, Progress(split_positions=limit)) for group in groups]
        assert [int(one.tokens) for one in metrics] == [
            sum(len(PAIRS[number][1]) + 1 for number in numbers) for numbers in ((0, 2, 3), (1, 2, 3, 0))
        ]
        models.append((model, [float(one.loss) for one in metrics]))
    (whole, losses), (model, losses_in_parts) = models
    np.testing.assert_allclose(losses_in_parts, losses, rtol=1e-5)
    assert_equal_weights(model, whole)


def test_a_single_sentence_that_does_not_fit_is_reported(monkeypatch):
    SmallMemory(monkeypatch, sentences=0)
    _, updates = make_updates()
    with pytest.raises(InputError, match=r"update 8: a batch of shapes \(2, 6\).*lower batches\.batch_tokens"):
        updates.make([batch_of([0, 1])], Progress(update=7))


def test_several_machines_do_not_split(monkeypatch):
    """The others wait for sums that would never come."""
    SmallMemory(monkeypatch, sentences=1)
    _, updates = make_updates()
    monkeypatch.setattr(updates.step, "strategy", type("Workers", (), {"cluster_resolver": object()})())
    with pytest.raises(InputError, match="does not fit into memory"):
        updates.make([batch_of([0, 1])], Progress())


def test_what_is_dropped_in_parts_does_not_depend_on_how_far_a_failed_attempt_has_come(monkeypatch):
    """A resumed run repeats the attempts, and must draw as the run did that was never stopped."""
    SmallMemory(monkeypatch, sentences=1)
    model, updates = make_updates(dropout=0.5)
    start = [np.array(keras.ops.convert_to_numpy(variable)) for variable in model.variables]
    results = []
    for drawn in (0, 5):
        for variable, value in zip(model.variables, start, strict=True):
            variable.assign(value)
            if "seed_generator" in variable.path:
                variable.assign(value + np.array([0, drawn], np.uint32))
        updates.make([batch_of([0, 1, 2, 3])], Progress(update=4))
        results.append([np.array(keras.ops.convert_to_numpy(variable)) for variable in model.variables])
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)
    assert any((one != first).any() for one, first in zip(results[0], start, strict=True))
