"""Keras' own multi-head attention as one of the attention layers here."""

import keras
import numpy as np

from .cross_attention import CrossAttention
from .multi_head import MultiHeadAttention

OTHERS = {"use_gate": False, "sliding_window": None, "attention_axes": (1,)}
"""Features of Keras' layer that the layers here do not have, with the setting that switches each off."""


def from_keras(layer, kind=CrossAttention, **kwargs):
    """Makes an attention layer that computes the same as a built `keras.layers.MultiHeadAttention`.

    Masks work alike, but a query that may attend to nothing gets zeros here.

    Args:
        layer: the layer. Its kernels are `(D, H, K)`, and the output's is `(H, V, D)`.
        kind: `CrossAttention`, or `MultiHeadAttention` where keys and values are made from different sequences.
        **kwargs: arguments of `keras.Layer`, such as `name`; the dtype is the layer's if not given.

    Raises:
        ValueError: the layer is of another class, is not built, or uses a feature that the layers here do not have; or
            keys and values have different widths, which `CrossAttention` makes from one memory.
    """
    if type(layer) is not keras.layers.MultiHeadAttention:
        raise ValueError(f"layer: expected a keras.layers.MultiHeadAttention, found {type(layer).__name__}")
    if not layer.built:
        raise ValueError("layer: expected a built layer, found one without weights; call it once first")
    config = layer.get_config()
    for name, neutral in OTHERS.items():
        found = config.get(name)
        if found not in (None, neutral) and tuple(np.atleast_1d(found)) != neutral:
            raise ValueError(f"layer: expected {name}={neutral}, found {found!r}, which layers here do not have")
    dense = {side: getattr(layer, f"{side}_dense") for side in ("query", "key", "value", "output")}
    if len(dense["output"].kernel.shape) != 3:
        raise ValueError(f"layer: expected an output_shape of one axis, found {config['output_shape']}")

    names = ("num_heads", "key_dim", "value_dim", "use_bias", "dropout", "kernel_regularizer", "seed")
    arguments = {name: config[name] for name in (*names, "kernel_initializer", "bias_initializer")}
    output_dim = dense["output"].kernel.shape[-1]
    ours = kind(**arguments, output_dim=output_dim, **{"dtype": layer.dtype_policy, **kwargs})
    query, key, value = ((None, None, dense[side].kernel.shape[0]) for side in ("query", "key", "value"))
    if kind is MultiHeadAttention:
        ours.build(query, key_shape=key, value_shape=value)
    elif key == value:
        ours.build(query, key)
    else:
        wide = f"keys of width {key[-1]} and values of width {value[-1]}"
        raise ValueError(f"layer: CrossAttention makes both of one memory, found {wide}; take kind=MultiHeadAttention")
    for side, part in dense.items():
        kernel, *bias = (keras.ops.convert_to_numpy(weight) for weight in part.weights)
        inner = (-1, output_dim) if side == "output" else (kernel.shape[0], -1)
        arrays = [kernel.reshape(inner), *(x.reshape(-1) for x in bias)]
        getattr(ours, f"{side}_projection").set_weights(arrays)
    return ours
