"""Named parts of a model, which training can freeze."""

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
"""For each part, the pattern of its layers in the path of a variable, after the name of the model."""

PARTS = {name: re.compile(rf"[^/]+/({layers})/.+") for name, layers in _LAYERS.items()}
"""For each part of `config.choices.model.MODEL_PARTS`, the pattern of the paths of its variables."""


def weights_of_part(model: keras.Model, part: str) -> list[keras.Variable]:
    """Returns the weights of a part of a model.

    Args:
        model: a built model.
        part: one of `config.choices.model.MODEL_PARTS`.

    Returns:
        The variables in the order of `model.weights`; an empty list if the model lacks the part.
    """
    return [variable for variable in model.weights if PARTS[part].fullmatch(variable.path)]


def freeze_parts(model: keras.Model, parts: Sequence[str]) -> None:
    """Freezes parts of a model. Call it before an optimizer is built.

    Args:
        model: a built model.
        parts: names from `config.choices.model.MODEL_PARTS`.

    Raises:
        InputError: a part has no weights in this model.
    """
    for part in parts:
        if not (weights := weights_of_part(model, part)):
            raise InputError(f"training.freeze: {part} has no weights in this model; leave it out")
        for variable in weights:
            variable.trainable = False


def describe_parameters(model: keras.Model) -> str:
    """Returns a text with the number of parameters; if some are frozen, also the number of trained parameters."""
    count = sum(math.prod(weight.shape) for weight in model.weights)
    trained = sum(math.prod(weight.shape) for weight in model.trainable_variables)
    return f"{count:,} parameters" + (f", {trained:,} of them trained" if trained < count else "")
