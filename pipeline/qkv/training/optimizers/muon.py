"""Muon with fewer and larger products: matrices of one shape are orthogonalised together."""

from collections import defaultdict

import keras
import tensorflow as tf

from ...runtime.devices import sizes
from .adam import adam_scalars, apply_adam


class StackedMuon(keras.optimizers.Muon):
    """Makes the same updates as `keras.optimizers.Muon` (Jordan et al. 2024), faster.

    A Transformer has dozens of small matrices, and a product for each of them takes longer to start than to compute.
    Variables that are not matrices are updated by `apply_adam`. As in `FusedAdam`, gradients must be the same on all
    replicas already.

    Args:
        learning_rate: a number or a schedule.
        matrix_decay: each update shrinks every matrix by this number times the learning rate (Liu et al. 2025,
            equation 3).
        **settings: those of `keras.optimizers.Muon`.
    """

    def __init__(self, learning_rate, *, matrix_decay=0.0, **settings):
        super().__init__(learning_rate, weight_decay=None, adam_weight_decay=None, **settings)
        self.matrix_decay = matrix_decay

    def _backend_update_step(self, grads, trainable_variables, learning_rate):
        of_shape = defaultdict(list)
        decays = self.adam_beta_1, self.adam_beta_2
        scalars = adam_scalars(learning_rate * self.adam_lr_ratio, self.iterations, *decays, self.epsilon)
        for gradient, variable in zip(grads, trainable_variables, strict=True):
            if self.adam_velocities[self._get_variable_index(variable)] is None:
                of_shape[tuple(variable.shape)].append((gradient, variable))
            else:
                index = self._get_variable_index(variable)
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
