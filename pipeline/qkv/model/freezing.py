"""The named parts of a model, whose weights training can leave as they are."""

import math
import re
from collections.abc import Sequence

import keras

from ..errors import InputError

_LAYERS = {
    "embeddings": r"(source|target|output)_embedding|((source|target)_)?positions",
    "encoder": r"encoder_\d+|encoder_norm|(forward|backward)_encoder",
    "decoder": r"decoder_\d+|decoder_norm|block_\d+|norm|bridge|attention|decoder",
    "self_attention": r"\w+/self_attention",
    "cross_attention": r"\w+/cross_attention|attention",
    "feed_forward": r"\w+/feed_forward",
    "normalizations": r"\w+/\w+_residual/norm|((encoder|decoder)_)?norm",
}
"""Patterns of the layers of a part in the paths of variables, behind the name of the model."""

PARTS = {name: re.compile(rf"[^/]+/({layers})/.+") for name, layers in _LAYERS.items()}


def weights_of_part(model: keras.Model, part: str) -> list[keras.Variable]:
    """Returns the weights of a part of a model, one of `config.choices.model.MODEL_PARTS`."""
    return [variable for variable in model.weights if PARTS[part].fullmatch(variable.path)]


def freeze_parts(model: keras.Model, parts: Sequence[str]) -> None:
    """Takes the weights of some parts from `model.trainable_variables`; before an optimizer is built for those.

    Raises:
        InputError: a part of this model has no weights.
    """
    for part in parts:
        if not (weights := weights_of_part(model, part)):
            raise InputError(f"training.freeze: {part} has no weights in this model; leave it out")
        for variable in weights:
            variable.trainable = False


def describe_parameters(model: keras.Model) -> str:
    """Returns the number of parameters in words, and of those that are trained where some are not."""
    count, trained = (sum(math.prod(x.shape) for x in xs) for xs in (model.weights, model.trainable_variables))
    return f"{count:,} parameters" + (f", {trained:,} of them trained" if trained < count else "")
