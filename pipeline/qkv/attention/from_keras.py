"""Converts the weights of Keras' own multi-head attention to the form of the attention layers here."""

import keras
import numpy as np

OTHERS = {"use_gate": False, "sliding_window": None, "attention_axes": (1,)}
"""Features of Keras' layer that the layers here do not have, with the setting that switches each off."""


def read_keras_attention(layer):
    """Reads a built `keras.layers.MultiHeadAttention`.

    Args:
        layer: the layer. Its kernels are `(D, H, K)`, and `(H, V, D)` that of the output.

    Returns:
        `(arguments, widths, weights)`: arguments of `MultiHeadAttention`, the widths of the inputs "query", "key" and
        "value", and for each of them and for "output" the arrays of a `Dense`: kernel `(D, H * K)` and, if there is
        one, bias.

    Raises:
        ValueError: the layer is of another class, is not built, or uses a feature that the layers here do not have.
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
    weights = {}
    for side, part in dense.items():
        arrays = [keras.ops.convert_to_numpy(weight) for weight in part.weights]
        inner = (-1, arrays[0].shape[-1]) if side == "output" else (arrays[0].shape[0], -1)
        weights[side] = [arrays[0].reshape(inner), *(bias.reshape(-1) for bias in arrays[1:])]
    arguments = {name: config[name] for name in ("num_heads", "key_dim", "value_dim", "use_bias", "dropout")}
    arguments["output_dim"] = weights["output"][0].shape[1]
    return arguments, {side: weights[side][0].shape[0] for side in ("query", "key", "value")}, weights
