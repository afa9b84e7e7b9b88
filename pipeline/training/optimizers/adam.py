"""Adam's update of a variable in one operation."""

import keras
import tensorflow as tf


class FusedAdam(keras.optimizers.Adam):
    """Makes the updates that `keras.optimizers.Adam` makes (Kingma and Ba 2015, section 2, last paragraph).

    Keras composes an update of about ten operations, each of which goes through memory. With several replicas it is
    Keras' own.
    """

    def update_step(self, gradient, variable, learning_rate):
        if self._distribution_strategy.num_replicas_in_sync > 1:
            super().update_step(gradient, variable, learning_rate)
            return
        index = self._get_variable_index(variable)
        state = self._momentums[index], self._velocities[index]
        decays = self.beta_1, self.beta_2
        apply_adam(variable, *state, gradient, learning_rate, self.iterations, *decays, self.epsilon)


def apply_adam(variable, mean, square, gradient, learning_rate, updates_before, beta_1, beta_2, epsilon):
    """Brings a variable up to date, and the moving averages of its gradient and of that squared.

    Args:
        variable: float32, of Keras or of TensorFlow.
        mean: the average of gradients, of the same shape.
        square: the average of squared gradients.
        gradient: a tensor of that shape.
        learning_rate: a number.
        updates_before: how many there were.
        beta_1: decay of `mean`.
        beta_2: decay of `square`.
        epsilon: is added to the root of `square`.
    """
    updates = tf.cast(updates_before + 1, tf.float32)
    tf.raw_ops.ResourceApplyAdam(
        var=_handle(variable),
        m=_handle(mean),
        v=_handle(square),
        beta1_power=tf.pow(tf.cast(beta_1, tf.float32), updates),
        beta2_power=tf.pow(tf.cast(beta_2, tf.float32), updates),
        lr=tf.cast(learning_rate, tf.float32),
        beta1=beta_1,
        beta2=beta_2,
        epsilon=epsilon,
        grad=gradient,
    )


def _handle(variable):
    return (variable.value if isinstance(variable, keras.Variable) else variable).handle
