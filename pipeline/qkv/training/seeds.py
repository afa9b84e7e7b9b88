"""Every replica draws random numbers of its own: with equal ones, all would drop the same units."""

import keras
import tensorflow as tf

STRIDE = 1_000_000_007
"""Between the seeds of two replicas: more than Keras' largest seed, so that none is that of another layer."""


def give_replicas_own_seeds(model: keras.Model, strategy: tf.distribute.Strategy) -> None:
    """Moves the seeds of each replica apart, by its number; those of the first stay.

    Checkpoints hold the first replica's. Call this once after a model was built, and after each that was loaded.
    """
    if strategy.num_replicas_in_sync == 1:
        return
    states = [variable.value for variable in model.variables if variable.name == "seed_generator_state"]

    def shift():
        replica = tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.int64)
        for state in states:
            state.assign_add(tf.cast([STRIDE * replica, 0], state.dtype))

    tf.function(lambda: strategy.run(shift), autograph=False)()


DRAWS = 1 << 12
"""Random draws that an update is given: more than its layers of dropout need."""
