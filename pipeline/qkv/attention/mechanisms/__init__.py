"""The mechanisms by name: what is done with the scores."""

from ..by_name import describe_layer
from ..scores import SCORE_CLASSES
from .blockwise import Blockwise
from .fixed_weights import Last, OneHot, Uniform
from .linformer import Linformer
from .lsh import LSH
from .softmax import Mechanism, Sink, Softmax

MECHANISM_CLASSES: dict[str, type[Mechanism]] = {
    "softmax": Softmax,
    "sink": Sink,
    "blockwise": Blockwise,
    "linformer": Linformer,
    "lsh": LSH,
    "one_hot": OneHot,
    "uniform": Uniform,
    "last": Last,
}


def describe_mechanism(mechanism, score="scaled_dot", dropout=0.0):
    """Describes a mechanism as the config of an attention layer stores it; see `describe_layer`.

    Score and dropout are arguments of the attention layer, so the description does not contain them.

    Raises:
        ValueError: no mechanism has that name, or a mechanism that is given as a layer has another score or dropout.
    """
    description = describe_layer("mechanism", MECHANISM_CLASSES, mechanism)
    if isinstance(description, str):
        return description
    config = {"score": "scaled_dot", "dropout": 0.0, **description["config"]}
    of_mechanism = {
        "score": describe_layer("score", SCORE_CLASSES, config.pop("score")),
        "dropout": config.pop("dropout"),
    }
    of_layer = {"score": describe_layer("score", SCORE_CLASSES, score), "dropout": dropout}
    for name, default in {"score": "scaled_dot", "dropout": 0.0}.items():
        if of_mechanism[name] not in (default, of_layer[name]):
            both = f"the layer has {of_layer[name]!r}, its mechanism {of_mechanism[name]!r}"
            raise ValueError(f"{name}: {both}; give {name} to the layer alone")
    return {**description, "config": config}
