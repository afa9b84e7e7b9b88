"""The optimizers, which turn gradients into updates: Adam with one operation a variable, and Muon, whose matrices of
one shape are orthogonalised together."""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from ..runtime.devices import sizes


class FusedAdam(keras.optimizers.Adam):
    """Makes the same updates as `keras.optimizers.Adam` (Kingma and Ba 2015, section 2, last paragraph), faster.

    Keras composes an update of about ten operations, each of which reads and writes the whole variable, and sums the
    gradients over replicas. Here they must be the same on all replicas already, and each replica updates its own copy.

    Args:
        learning_rate: a number or a schedule.
        matrix_decay: each update shrinks every matrix by this number times the learning rate (Loshchilov and Hutter
            2019, algorithm 2). Keras' own `weight_decay` shrinks token embeddings and vectors too.
        **settings: further arguments of `keras.optimizers.Adam`.
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

    def get_config(self):
        return {**super().get_config(), "matrix_decay": self.matrix_decay}


def is_matrix(variable):
    """Returns whether a variable is a matrix, and not of token embeddings, as `keras.optimizers.Muon` does."""
    return len(variable.shape) == 2 and "embedding" not in variable.path.lower()


def adam_scalars(learning_rate, updates_before, beta_1, beta_2, epsilon):
    """Returns the scalars of an update that all variables share, after so many updates, as `ResourceApplyAdam` takes
    them; the rest are Adam's arguments in Keras."""
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
    """Updates a float32 variable of Keras or TensorFlow, and the moving averages of its gradient and of the squared
    gradient, variables of the same shape, by the scalars of `adam_scalars`."""
    var, m, v = ((one.value if isinstance(one, keras.Variable) else one).handle for one in (variable, mean, square))
    tf.raw_ops.ResourceApplyAdam(var=var, m=m, v=v, grad=gradient, **scalars)


class StackedMuon(keras.optimizers.Muon):
    """Makes the same updates as `keras.optimizers.Muon` (Jordan et al. 2024), faster.

    Momentum is made orthogonal for matrices, in the scale of Adam's updates (Liu et al. 2025, section 2.2). A
    Transformer has dozens of small matrices, and a product for each of them takes longer to start than to compute.
    Embeddings and vectors are updated by `apply_adam`. As in `FusedAdam`, gradients must be the same on all replicas
    already.

    Args:
        learning_rate: a number or a schedule.
        beta_1: the decay per update of Adam's mean of the gradients.
        beta_2: the decay per update of Adam's mean of the squared gradients.
        matrix_decay: each update shrinks every matrix by this number times the learning rate (Liu et al. 2025,
            equation 3).
        **settings: further arguments of `keras.optimizers.Muon`.
    """

    def __init__(self, learning_rate, *, beta_1=0.9, beta_2=0.999, matrix_decay=0.0, **settings):
        super().__init__(
            learning_rate, weight_decay=None, adam_weight_decay=None, adam_beta_1=beta_1, adam_beta_2=beta_2, **settings
        )
        self.matrix_decay = matrix_decay

    def _backend_update_step(self, grads, trainable_variables, learning_rate):
        of_shape = defaultdict(list)
        adam_rate = learning_rate * self.adam_lr_ratio
        scalars = adam_scalars(adam_rate, self.iterations, self.adam_beta_1, self.adam_beta_2, self.epsilon)
        for gradient, variable in zip(grads, trainable_variables, strict=True):
            index = self._get_variable_index(variable)
            if self.adam_velocities[index] is None:
                of_shape[tuple(variable.shape)].append((gradient, variable))
            else:
                apply_adam(variable, self.momentums[index], self.adam_velocities[index], gradient, scalars)
        groups = sizes().matrix_groups
        for pairs in of_shape.values():
            for group in range(min(groups, len(pairs))):  # groups are computed side by side
                self._apply_orthogonal(pairs[group::groups], learning_rate)

    def _apply_orthogonal(self, pairs, learning_rate):
        """Updates variables of one shape by their gradients."""
        directions = tf.stack([self._direction(gradient, variable) for gradient, variable in pairs])
        # The scale of Adam's updates (Liu et al. 2025, section 2.2).
        step = learning_rate * self.rms_rate * max(directions.shape[1:]) ** 0.5
        for update, (_, variable) in zip(tf.unstack(step * self._orthogonal(directions)), pairs, strict=True):
            if self.matrix_decay:
                update += self.matrix_decay * learning_rate * variable
            self.assign_sub(variable, update)

    def _direction(self, gradient, variable):
        """Updates the momentum, and returns Nesterov's direction."""
        momentum = self.momentums[self._get_variable_index(variable)]
        self.assign(momentum, self.momentum * momentum + gradient)
        return gradient + self.momentum * momentum

    def _orthogonal(self, x):
        """Orthogonalises matrices `(matrices, rows, columns)` by the Newton-Schulz iteration."""
        a, b, c = self.muon_a, self.muon_b, self.muon_c
        wide = x.shape[1] <= x.shape[2]
        x = x if wide else tf.linalg.matrix_transpose(x)
        x = x / (tf.norm(x, axis=(1, 2), keepdims=True) + 1e-7)
        for _ in range(self.ns_steps):
            square = tf.matmul(x, x, transpose_b=True)
            x = a * x + tf.matmul(b * square + c * tf.matmul(square, square), x)
        return x if wide else tf.linalg.matrix_transpose(x)

    def get_config(self):
        config = super().get_config()
        renamed = {"beta_1": config.pop("adam_beta_1"), "beta_2": config.pop("adam_beta_2")}
        fixed = ("weight_decay", "adam_weight_decay")
        others = {name: x for name, x in config.items() if name not in fixed}
        return {**others, **renamed, "matrix_decay": self.matrix_decay}


OPTIMIZER_CLASSES: dict[str, Callable[..., keras.optimizers.Optimizer]] = {"adam": FusedAdam, "muon": StackedMuon}
"""The classes of `config.choices.training.OPTIMIZER_MEANINGS`: each takes a schedule, `beta_1`, `beta_2`, `epsilon`,
`matrix_decay` and `name`."""


def make_optimizer(
    schedule: Any, *, optimizer: str, beta_1: float, beta_2: float, epsilon: float, weight_decay: float = 0.0
) -> keras.optimizers.Optimizer:
    """Makes one of `OPTIMIZER_CLASSES` with Adam's arguments and a schedule of the learning rate, or a number.

    Each update shrinks every matrix by `weight_decay` times the learning rate (Loshchilov and Hutter 2019); token
    embeddings and vectors are not decayed.
    """
    return OPTIMIZER_CLASSES[optimizer](
        schedule, beta_1=beta_1, beta_2=beta_2, epsilon=epsilon, matrix_decay=weight_decay, name=optimizer
    )
