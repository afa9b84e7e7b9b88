"""The random number generators of a model, for dropout: found, moved apart, and set to the number of an update."""

from collections.abc import Iterator
from contextlib import contextmanager

import keras
import numpy as np
import tensorflow as tf

STRIDE = 1_000_000_007
"""Between the seeds of two replicas: more than Keras' largest seed, so that none is another layer's."""

DRAWS = 1 << 12
"""Random draws that an update is given: more than its layers of dropout need."""


def generators(model: keras.Model) -> list[keras.Variable]:
    """Returns the states of the model's generators, each a seed and a number of draws."""
    return [variable for variable in model.variables if variable.name == "seed_generator_state"]


@contextmanager
def preserve_generators(model: keras.Model) -> Iterator[None]:
    """Sets the generators back, after the block, to where they are now."""
    states = [(variable, keras.ops.convert_to_numpy(variable)) for variable in generators(model)]
    yield
    for variable, state in states:
        variable.assign(state)


def set_to_update(model: keras.Model, number: int, strategy: tf.distribute.Strategy) -> None:
    """Sets the generators to where an update would find them if each one before it had taken `DRAWS`; each replica
    keeps its own seed."""
    for variable in generators(model):
        seed = int(keras.ops.convert_to_numpy(variable)[0])
        variable.assign(np.array([seed, number * DRAWS % 2**32], np.uint32))  # on every replica
    give_replicas_own_seeds(model, strategy)


def give_replicas_own_seeds(model: keras.Model, strategy: tf.distribute.Strategy) -> None:
    """Moves the seeds of each replica apart, by its number, or all would drop the same units; the first's stay.

    Checkpoints hold the first replica's. Call this once after a model was built, and after each that was loaded.
    """
    if strategy.num_replicas_in_sync == 1:
        return
    states = [variable.value for variable in generators(model)]

    def shift():
        replica = tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.int64)
        for state in states:
            state.assign_add(tf.cast([STRIDE * replica, 0], state.dtype))

    tf.function(lambda: strategy.run(shift), autograph=False)()
