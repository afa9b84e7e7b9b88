"""Changes of the cross-attention in Python, beside which those of the page's engine are laid."""

import numpy as np
from keras import ops

from qkv.inspection.experiments.changed_mechanism import MECHANISM_CHANGES
from qkv.layers.tap import tapped
from qkv.text.tokens.special_tokens import BOS

SITES = {"cross": "decoder.{}.cross", "encoder_self": "encoder.{}.self", "decoder_self": "decoder.{}.self"}
"""The name of a layer at each site of the engine, but for its number."""


def changed_model(run, names):
    """A copy of a run's model with the projections of the named changes of Python."""
    model = type(run.model).from_config(run.model.get_config())
    model.build()
    model.set_weights(run.model.get_weights())
    for layer in model.attention_layers()["cross"]:
        for name in names:
            MECHANISM_CHANGES[name].projections(layer, np.random.default_rng(0))
    return model


def forced(model, source, target, factor):
    """The log-probabilities of the target and the weights of the cross-attention, with scores times a factor."""
    layers = set(model.attention_layers()["cross"])
    mechanisms = {layer.mechanism for layer in layers}

    def replace(layer, part, value, mask=None, **inputs):
        if part == "scores" and layer in mechanisms and factor is not None and np.isfinite(factor):
            return value * factor
        if part == "weights" and layer in layers and factor == np.inf:
            return MECHANISM_CHANGES["one-hot"].weights(value, ops.ones_like(value, "bool"), None)
        return value

    with tapped(replace):
        output = model.decode(np.array([[BOS, *target[:-1]]]), model.encode(np.array([source])))
    scores = ops.convert_to_numpy(ops.log_softmax(output.logits[0]))
    return scores[np.arange(len(target)), target], [ops.convert_to_numpy(layer)[0] for layer in output.cross]
