"""Every replica draws random numbers of its own."""

from types import SimpleNamespace

import keras
import numpy as np
import tensorflow as tf

from qkv.layers.keras_layers import Dropout
from qkv.training.seeds import DRAWS, STRIDE, separate_replica_seeds, set_to_update

SEED = 3


class Replica:
    """One of two replicas, alone: tests have one device."""

    num_replicas_in_sync = 2

    def __init__(self, number):
        self.context = SimpleNamespace(replica_id_in_sync_group=number)

    def run(self, function):
        function()


def make_model():
    return keras.Sequential([keras.Input((400,)), Dropout(0.5, seed=SEED), keras.layers.Dense(1)])


def test_a_single_replica_keeps_its_seeds():
    model = make_model()
    before = [np.array(variable) for variable in model.variables]
    separate_replica_seeds(model, tf.distribute.get_strategy())
    np.testing.assert_equal([np.array(variable) for variable in model.variables], before)


def test_replicas_drop_different_units_and_the_first_those_of_a_single_one(monkeypatch):
    dropped = [make_model().layers[0](np.ones((1, 400)), training=True)]
    for number in (0, 1):
        replica, model = Replica(number), make_model()
        monkeypatch.setattr(tf.distribute, "get_replica_context", lambda replica=replica: replica.context)
        separate_replica_seeds(model, replica)
        dropout = model.layers[0]
        np.testing.assert_array_equal(dropout.seed_generator.state, [SEED + number * STRIDE, 0])
        resumed = make_model()
        resumed.layers[0].seed_generator.state.assign([SEED, 7])  # from the checkpoint, which is the first replica's
        separate_replica_seeds(resumed, replica)
        np.testing.assert_array_equal(resumed.layers[0].seed_generator.state, [SEED + number * STRIDE, 7])
        split = make_model()
        set_to_update(split, 5, replica)  # after a batch that did not fit into memory
        np.testing.assert_array_equal(split.layers[0].seed_generator.state, [SEED + number * STRIDE, 5 * DRAWS])
        dropped.append(dropout(np.ones((1, 400)), training=True))
    alone, first, second = (np.array(values) != 0 for values in dropped)
    np.testing.assert_array_equal(alone, first)
    assert 0.4 < np.mean(first != second) < 0.6  # as of two tosses of a coin


def test_no_seed_of_a_replica_is_that_of_another_layer():
    assert STRIDE > 10**9  # Keras draws seeds up to that
