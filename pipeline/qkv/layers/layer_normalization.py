"""Layer normalisation with its gradient written out."""

import keras
from keras import ops

from .row_product import row_product


@keras.saving.register_keras_serializable(package="qkv")
class LayerNormalization(keras.layers.LayerNormalization):
    """`(x - mean) / sqrt(variance + epsilon) * gamma + beta` over the last axis (Ba et al. 2016, equation 4).

    Keras differentiates `keras.layers.LayerNormalization` operation by operation; here the gradient is written out,
    which takes about half as many passes over memory.

    Args: those of `keras.layers.LayerNormalization`; `axis` and `rms_scaling` must keep their defaults.

    Call arguments:
        inputs: float `(..., D)`.

    Returns:
        float `(..., D)`, in the compute dtype; calculated in float32 or higher precision.

    Example:
        >>> LayerNormalization(epsilon=0.0)(keras.ops.array([[1.0, 3.0]])).numpy().tolist()
        [[-1.0, 1.0]]
    """

    def call(self, inputs):
        wide = "float32" if keras.backend.standardize_dtype(inputs.dtype) in ("bfloat16", "float16") else inputs.dtype
        inputs, gamma, beta = (ops.cast(x, wide) for x in (inputs, self.gamma, self.beta))
        return ops.cast(_normalize(self.epsilon)(inputs, gamma, beta), self.compute_dtype)


def _normalize(epsilon):
    """Returns the function of x `(..., D)`, gamma and beta `(D,)`, which has its own gradient."""

    @ops.custom_gradient
    def normalize(x, gamma, beta):
        centred = x - ops.mean(x, -1, keepdims=True)
        inverse = ops.rsqrt(ops.mean(ops.square(centred), -1, keepdims=True) + epsilon)
        normal = centred * inverse

        def gradient(*received, upstream=None):
            upstream = received[-1] if upstream is None else upstream  # PyTorch's backend passes it by name
            # Through gamma, less what moves the mean and what moves the variance.
            aligned = upstream * normal
            column = ops.expand_dims(gamma, -1) / x.shape[-1]
            along_mean, along_normal = row_product(upstream, column), row_product(aligned, column)
            of_x = (upstream * gamma - along_mean - normal * along_normal) * inverse
            rows = list(range(len(x.shape) - 1))
            return of_x, ops.sum(aligned, rows), ops.sum(upstream, rows)

        return normal * gamma + beta, gradient

    return normalize
