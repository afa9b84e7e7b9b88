"""Conversion of `keras.layers.MultiHeadAttention` to an attention layer of this package."""

import keras
import numpy as np

from .cross_attention import CrossAttention
from .multi_head import MultiHeadAttention

UNSUPPORTED = {"use_gate": False, "sliding_window": None, "attention_axes": (1,)}
"""Arguments of Keras' layer for features that the layers here lack, each with the value that switches it off."""


def from_keras(layer, kind=CrossAttention, **kwargs):
    """Makes an attention layer that computes the same as a built `keras.layers.MultiHeadAttention`.

    Masks have the same effect, except for a query without any allowed key: here its weights are zero.

    Args:
        layer: the built Keras layer. The kernels of its inputs have the shape `(D, H, K)`, and the output's kernel
            `(H, V, D)`.
        kind: the class of the result: `CrossAttention`, or `MultiHeadAttention` if keys and values are made from
            different sequences.
        **kwargs: arguments of `keras.Layer`, such as `name`. The default dtype is the dtype policy of `layer`.

    Returns:
        A new, built layer of the class `kind` with the same weights.

    Raises:
        ValueError: the layer is not a `keras.layers.MultiHeadAttention`, is not built, or uses a feature that the
            layers here lack; or `kind` is `CrossAttention`, and keys and values have different widths.
    """
    if type(layer) is not keras.layers.MultiHeadAttention:
        raise ValueError(f"layer: expected a keras.layers.MultiHeadAttention, found {type(layer).__name__}")
    if not layer.built:
        raise ValueError("layer: expected a built layer, found one without weights; call it once first")
    config = layer.get_config()
    for name, neutral in UNSUPPORTED.items():
        value = config.get(name)
        if value not in (None, neutral) and tuple(np.atleast_1d(value)) != neutral:
            raise ValueError(f"layer: expected {name}={neutral}, found {value!r}, which layers here do not have")
    dense = {side: getattr(layer, f"{side}_dense") for side in ("query", "key", "value", "output")}
    if len(dense["output"].kernel.shape) != 3:
        raise ValueError(f"layer: expected an output_shape of one axis, found {config['output_shape']}")

    names = (
        "num_heads",
        "key_dim",
        "value_dim",
        "use_bias",
        "dropout",
        "kernel_regularizer",
        "seed",
        "kernel_initializer",
        "bias_initializer",
    )
    arguments = {name: config[name] for name in names}
    output_dim = dense["output"].kernel.shape[-1]
    converted = kind(**arguments, output_dim=output_dim, **{"dtype": layer.dtype_policy, **kwargs})
    query, key, value = ((None, None, dense[side].kernel.shape[0]) for side in ("query", "key", "value"))
    if kind is MultiHeadAttention:
        converted.build(query, key_shape=key, value_shape=value)
    elif key == value:
        converted.build(query, key)
    else:
        widths = f"keys of width {key[-1]} and values of width {value[-1]}"
        raise ValueError(
            f"layer: CrossAttention makes keys and values from one memory, found {widths}; use kind=MultiHeadAttention"
        )
    for side, keras_projection in dense.items():
        kernel, *bias = (keras.ops.convert_to_numpy(weight) for weight in keras_projection.weights)
        shape = (-1, output_dim) if side == "output" else (kernel.shape[0], -1)
        arrays = [kernel.reshape(shape), *(x.reshape(-1) for x in bias)]
        getattr(converted, f"{side}_projection").set_weights(arrays)
    return converted
