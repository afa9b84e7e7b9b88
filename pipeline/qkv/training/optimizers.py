"""The optimizers, which turn gradients into updates of the weights.

Adam takes one operation for each variable. Muon orthogonalises all matrices of one shape together.
"""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from ..runtime.devices import sizes


def mean_and_clip(sums, tokens, clip_norm, *, joined=False):
    """Divides sums of gradients by the number of tokens, and scales them down if their norm is too large.

    Args:
        sums: the gradient of each variable, summed over tokens.
        tokens: the number of tokens, a scalar.
        clip_norm: the maximum norm over all variables; 0 for no limit.
        joined: whether all gradients are computed as one vector. A GPU waits longer for the start of an operation on a
            small gradient than it computes, and a Transformer has dozens of them.

    Returns:
        The gradients, and their norm before they were scaled, a scalar.
    """
    shapes = [gradient.shape for gradient in sums]
    if joined:
        sums = [join(sums)]
    gradients = [gradient / tokens for gradient in sums]
    norm = tf.linalg.global_norm(gradients)
    if clip_norm:
        gradients, _ = tf.clip_by_global_norm(gradients, clip_norm, use_norm=norm)
    return split(gradients[0], shapes) if joined else gradients, norm


def join(tensors):
    """Joins tensors of one type, of any shapes, to a vector."""
    return tf.concat([tf.reshape(tensor, (-1,)) for tensor in tensors], 0)


def split(vector, shapes):
    """Splits a vector into tensors of these shapes: the inverse of `join`."""
    parts = tf.split(vector, [shape.num_elements() for shape in shapes])
    return [tf.reshape(part, shape) for part, shape in zip(parts, shapes, strict=True)]


class FusedAdam(keras.optimizers.Adam):
    """Adam, with the same updates as `keras.optimizers.Adam` (Kingma and Ba 2015, section 2, last paragraph), faster.

    Keras composes an update of about ten operations, each of which reads and writes the whole variable, and sums the
    gradients over replicas. Here one operation updates a variable. The gradients must be equal on all replicas already,
    and each replica updates its copy of the variables.

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
    """Returns whether a variable is a matrix other than token embeddings, by the rule of `keras.optimizers.Muon`."""
    return len(variable.shape) == 2 and "embedding" not in variable.path.lower()


def adam_scalars(learning_rate, updates_before, beta_1, beta_2, epsilon):
    """Computes the scalars of an update of Adam, which are equal for all variables.

    Args:
        learning_rate: the learning rate.
        updates_before: number of updates made before.
        beta_1, beta_2, epsilon: see `keras.optimizers.Adam`.

    Returns:
        Float32 scalars by their names in `tf.raw_ops.ResourceApplyAdam`.
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
    """Updates a variable and its moments by Adam.

    Args:
        variable: the float32 variable, of Keras or TensorFlow.
        mean: the moving average of the gradient, a variable of the same shape.
        square: the moving average of the squared gradient, a variable of the same shape.
        gradient: the gradient, a tensor of the same shape.
        scalars: see `adam_scalars`.
    """
    tf.raw_ops.ResourceApplyAdam(var=_handle(variable), m=_handle(mean), v=_handle(square), grad=gradient, **scalars)


def _handle(variable):
    return (variable.value if isinstance(variable, keras.Variable) else variable).handle


class StackedMuon(keras.optimizers.Muon):
    """Muon, with the same updates as `keras.optimizers.Muon` (Jordan et al. 2024), faster.

    A matrix is updated by its momentum, which is orthogonalised and scaled as Adam's updates are (Liu et al. 2025,
    section 2.2). All matrices of one shape are orthogonalised together: a Transformer has dozens of small matrices, and
    a product of a small matrix takes longer to start than to compute. Embeddings and vectors are updated by
    `apply_adam`. As in `FusedAdam`, the gradients must be equal on all replicas already.

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
        pairs_by_shape = defaultdict(list)
        adam_rate = learning_rate * self.adam_lr_ratio
        scalars = adam_scalars(adam_rate, self.iterations, self.adam_beta_1, self.adam_beta_2, self.epsilon)
        for gradient, variable in zip(grads, trainable_variables, strict=True):
            index = self._get_variable_index(variable)
            if self.adam_velocities[index] is None:
                pairs_by_shape[tuple(variable.shape)].append((gradient, variable))
            else:
                apply_adam(variable, self.momentums[index], self.adam_velocities[index], gradient, scalars)
        groups = sizes().matrix_groups
        for pairs in pairs_by_shape.values():
            for group in range(min(groups, len(pairs))):  # groups are computed in parallel
                self._apply_orthogonal(pairs[group::groups], learning_rate)

    def _apply_orthogonal(self, pairs, learning_rate):
        """Updates matrices of one shape by Muon. Each item of `pairs` has a gradient and its variable."""
        directions = tf.stack([self._direction(gradient, variable) for gradient, variable in pairs])
        # The scale of Adam's updates (Liu et al. 2025, section 2.2).
        step = learning_rate * self.rms_rate * max(directions.shape[1:]) ** 0.5
        for update, (_, variable) in zip(tf.unstack(step * self._orthogonal(directions)), pairs, strict=True):
            if self.matrix_decay:
                update += self.matrix_decay * learning_rate * variable
            self.assign_sub(variable, update)

    def _direction(self, gradient, variable):
        """Updates the momentum of a matrix, and returns its Nesterov momentum, before it is orthogonalised."""
        momentum = self.momentums[self._get_variable_index(variable)]
        self.assign(momentum, self.momentum * momentum + gradient)
        return gradient + self.momentum * momentum

    def _orthogonal(self, x):
        """Orthogonalises matrices `(matrices, rows, columns)` by the Newton-Schulz iteration."""
        a = self.muon_a
        b = self.muon_b
        c = self.muon_c
        is_wide = x.shape[1] <= x.shape[2]
        x = x if is_wide else tf.linalg.matrix_transpose(x)
        x = x / (tf.norm(x, axis=(1, 2), keepdims=True) + 1e-7)
        for _ in range(self.ns_steps):
            square = tf.matmul(x, x, transpose_b=True)
            x = a * x + tf.matmul(b * square + c * tf.matmul(square, square), x)
        return x if is_wide else tf.linalg.matrix_transpose(x)

    def get_config(self):
        config = super().get_config()
        renamed = {"beta_1": config.pop("adam_beta_1"), "beta_2": config.pop("adam_beta_2")}
        for fixed in ("weight_decay", "adam_weight_decay"):
            del config[fixed]
        return {**config, **renamed, "matrix_decay": self.matrix_decay}


OPTIMIZER_CLASSES: dict[str, Callable[..., keras.optimizers.Optimizer]] = {"adam": FusedAdam, "muon": StackedMuon}
"""The class of each optimizer in `config.choices.training.OPTIMIZER_MEANINGS`. It takes a schedule, `beta_1`, `beta_2`,
`epsilon`, `matrix_decay` and `name`."""


def make_optimizer(
    schedule: Any, *, optimizer: str, beta_1: float, beta_2: float, epsilon: float, weight_decay: float = 0.0
) -> keras.optimizers.Optimizer:
    """Makes an optimizer.

    Args:
        schedule: the learning rate, a number or a Keras schedule.
        optimizer: a key of `OPTIMIZER_CLASSES`.
        beta_1, beta_2, epsilon: see `keras.optimizers.Adam`.
        weight_decay: each update shrinks every matrix by this number times the learning rate (Loshchilov and Hutter
            2019). Token embeddings and vectors are not decayed.
    """
    return OPTIMIZER_CLASSES[optimizer](
        schedule, beta_1=beta_1, beta_2=beta_2, epsilon=epsilon, matrix_decay=weight_decay, name=optimizer
    )
