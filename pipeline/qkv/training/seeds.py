"""The random number generators of a model, which draw for dropout."""

from collections.abc import Iterator
from contextlib import contextmanager

import keras
import numpy as np
import tensorflow as tf

STRIDE = 1_000_000_007
"""The difference of the seeds of two replicas. It exceeds Keras' largest seed, so that a replica's seed cannot equal
another layer's seed."""

DRAWS = 1 << 12
"""The number of draws that `set_to_update` reserves for an update: more than the layers of dropout need."""


def generators(model: keras.Model) -> list[keras.Variable]:
    """Returns the states of the model's generators: variables uint32 `(2,)`, the seed and the number of draws."""
    return [variable for variable in model.variables if variable.name == "seed_generator_state"]


@contextmanager
def preserve_generators(model: keras.Model) -> Iterator[None]:
    """Restores the states of the model's random number generators after the block."""
    states = [(variable, keras.ops.convert_to_numpy(variable)) for variable in generators(model)]
    yield
    for variable, state in states:
        variable.assign(state)


def set_to_update(model: keras.Model, number: int, strategy: tf.distribute.Strategy) -> None:
    """Sets the random number generators of a model to a state that depends only on their seeds and the update.

    It is the state after `number * DRAWS` draws. The seeds of the replicas stay different.

    Args:
        model: the model.
        number: the number of the update, from 1.
        strategy: the strategy that holds the replicas.
    """
    for variable in generators(model):
        seed = int(keras.ops.convert_to_numpy(variable)[0])
        variable.assign(np.array([seed, number * DRAWS % 2**32], np.uint32))  # on every replica
    separate_replica_seeds(model, strategy)


def separate_replica_seeds(model: keras.Model, strategy: tf.distribute.Strategy) -> None:
    """Adds a multiple of `STRIDE` to the seeds of each replica, so that dropout differs between replicas.

    The seeds of the first replica do not change: checkpoints hold them. Call this once after the model was built or
    loaded from a checkpoint.
    """
    if strategy.num_replicas_in_sync == 1:
        return
    states = [variable.value for variable in generators(model)]

    def shift():
        replica = tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.int64)
        for state in states:
            state.assign_add(tf.cast([STRIDE * replica, 0], state.dtype))

    tf.function(lambda: strategy.run(shift), autograph=False)()
