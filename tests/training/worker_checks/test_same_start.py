"""Several workers start from the same settings, text, tokenizer and checkpoint."""

import keras
import numpy as np
import pytest

from qkv.errors import InputError
from qkv.runtime.cluster import Cluster
from qkv.training.checkpoints import Checkpoints
from qkv.training.progress import Progress
from qkv.training.worker_checks import (
    SingleProcess,
    check_equal_settings,
    check_equal_text,
    restore_together,
    wait_for_text,
)


class TwoWorkers:
    """Two workers as one of them sees them.

    Args:
        index: which one this is.
        says: what the other one says, by key.
        chief: what the chief says to all, for the other worker.
    """

    def __init__(self, index, says, chief=None):
        self.cluster = Cluster(("a:1", "b:2"), ("worker 0", "worker 1"), index)
        self.is_chief, self.says, self.chief, self.received = index == 0, says, chief, []

    def exchange(self, key, value, for_what):
        both = [value, self.says[key]]
        return both if self.is_chief else both[::-1]

    def receive(self, index, key, for_what):
        self.received.append((index, key))

    def broadcast_from_chief(self, value, for_what):
        return value if self.is_chief else self.chief


@pytest.mark.parametrize("index", [0, 1])
def test_settings_that_differ_are_named_with_their_workers(index):
    theirs = {"run.seed": 1, "model.dropout": 0.2}
    check_equal_settings(TwoWorkers(index, {"settings": theirs}), dict(theirs))
    mine = {"run.seed": 1, "model.dropout": 0.1}
    values = (0.1, 0.2) if index == 0 else (0.2, 0.1)
    expected = rf"config: model.dropout is {values[1]} on worker 1 \(b:2\), expected {values[0]} as on worker 0 \(a:1\)"
    with pytest.raises(InputError, match=expected):
        check_equal_settings(TwoWorkers(index, {"settings": theirs}), mine)


@pytest.mark.parametrize("index", [0, 1])
def test_a_file_that_differs_is_named_and_one_that_a_worker_lacks_is_not(index):
    check_equal_text(TwoWorkers(index, {"text": {"train.en": "1"}}), {"train.en": "1", "train.de": "2"})
    check_equal_text(TwoWorkers(index, {"text": {"train.en": "1", "train.de": "2"}}), {"train.en": "1"})
    with pytest.raises(InputError, match=r"train\.de: worker 1 \(b:2\) has another file than worker 0 \(a:1\)"):
        check_equal_text(
            TwoWorkers(index, {"text": {"train.en": "1", "train.de": "2"}}), {"train.en": "1", "train.de": "3"}
        )


def test_only_other_workers_wait_for_the_text():
    for index, received in ((0, []), (1, [(0, "text")])):
        workers = TwoWorkers(index, {})
        wait_for_text(workers)
        assert workers.received == received
    wait_for_text(SingleProcess())


@pytest.fixture
def saved(tmp_path):
    """A checkpoint of a model of one number."""
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False, name="number")], name="one")
    model.trainable_variables[0].assign([[5.0]])
    optimizer = keras.optimizers.Adam()
    optimizer.build(model.trainable_variables)
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    checkpoints.save_interim(model, optimizer, Progress(update=3, epoch=1))
    model.trainable_variables[0].assign([[0.0]])
    return checkpoints, model, optimizer


NEWEST = "passing-00000003.npz"


def test_every_worker_loads_the_chiefs_checkpoint(saved):
    model, digest = saved[1], {}
    for workers, started in (
        (SingleProcess(), True),
        (TwoWorkers(0, {"checkpoint": digest}), True),
        (TwoWorkers(1, {"checkpoint": digest}, chief=NEWEST), False),
    ):
        model.trainable_variables[0].assign([[0.0]])
        assert restore_together(workers, *saved, started).update == 3
        np.testing.assert_array_equal(model.trainable_variables[0], [[5.0]])
    assert restore_together(TwoWorkers(1, {}, chief=None), *saved, started=True) == Progress()


def test_another_checkpoint_or_none_on_one_worker_is_an_error_that_names_it(saved):
    with pytest.raises(InputError, match=rf"checkpoints/{NEWEST}: worker 1 \(b:2\) has another file than worker 0"):
        restore_together(TwoWorkers(0, {"checkpoint": {f"checkpoints/{NEWEST}": "0123"}}), *saved, started=True)
    with pytest.raises(InputError, match=r"00009\.npz: worker 1 \(b:2\) does not have the checkpoint .* share"):
        restore_together(TwoWorkers(1, {}, chief="update-00000009.npz"), *saved, started=False)
