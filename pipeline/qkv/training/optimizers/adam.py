"""Adam, with one operation for the update of a variable."""

import keras
import tensorflow as tf


class FusedAdam(keras.optimizers.Adam):
    """Makes the same updates as `keras.optimizers.Adam` (Kingma and Ba 2015, section 2, last paragraph), faster.

    Keras composes an update of about ten operations, each of which reads and writes the whole variable, and sums the
    gradients over replicas. Here they must be the same on all replicas already, and each replica updates its own copy.

    Args:
        learning_rate: a number or a schedule.
        matrix_decay: each update shrinks every matrix by this number times the learning rate (Loshchilov and Hutter
            2019, algorithm 2). Keras' own `weight_decay` shrinks token embeddings and vectors too.
        **settings: those of `keras.optimizers.Adam`.
    """

    def __init__(self, learning_rate, *, matrix_decay=0.0, **settings):
        super().__init__(learning_rate, **settings)
        self.matrix_decay = matrix_decay

    def _backend_update_step(self, grads, trainable_variables, learning_rate):
        scalars = adam_scalars(learning_rate, self.iterations, self.beta_1, self.beta_2, self.epsilon)
        for gradient, variable in zip(grads, trainable_variables, strict=True):
            index = self._get_variable_index(variable)
            if self.matrix_decay and is_matrix(variable):
                self.assign_sub(variable, self.matrix_decay * learning_rate * variable)
            apply_adam(variable, self._momentums[index], self._velocities[index], gradient, scalars)


def is_matrix(variable):
    """Returns whether a variable is a matrix, and not of token embeddings: what `keras.optimizers.Muon` updates so."""
    return len(variable.shape) == 2 and "embedding" not in variable.path.lower()


def adam_scalars(learning_rate, updates_before, beta_1, beta_2, epsilon):
    """Returns what the updates of all variables have in common, as `ResourceApplyAdam` takes it.

    Args:
        learning_rate: a scalar.
        updates_before: number of updates made so far.
        beta_1: the decay of the moving averages of gradients.
        beta_2: the decay of the moving averages of squared gradients.
        epsilon: added to the root of the latter before it divides.
    """
    updates = tf.cast(updates_before + 1, tf.float32)
    beta1, beta2 = tf.cast(beta_1, tf.float32), tf.cast(beta_2, tf.float32)
    return {
        "beta1_power": tf.pow(beta1, updates),
        "beta2_power": tf.pow(beta2, updates),
        "lr": tf.cast(learning_rate, tf.float32),
        "beta1": beta1,
        "beta2": beta2,
        "epsilon": tf.cast(epsilon, tf.float32),
    }


def apply_adam(variable, mean, square, gradient, scalars):
    """Updates a variable, and the moving averages of its gradient and of the squared gradient.

    Args:
        variable: a float32 variable of Keras or TensorFlow.
        mean: the moving average of the gradient, a variable of the same shape.
        square: the moving average of the squared gradient, a variable of the same shape.
        gradient: a tensor of the same shape.
        scalars: from `adam_scalars`.
    """
    tf.raw_ops.ResourceApplyAdam(var=_handle(variable), m=_handle(mean), v=_handle(square), grad=gradient, **scalars)


def _handle(variable):
    return (variable.value if isinstance(variable, keras.Variable) else variable).handle
