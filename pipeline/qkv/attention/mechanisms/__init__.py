"""The mechanisms by name: what is done with the scores."""

from ..by_name import describe_layer
from ..scores import SCORES
from .blockwise import Blockwise
from .fixed_weights import Last, OneHot, Uniform
from .linformer import Linformer
from .lsh import LSH
from .softmax import Mechanism, Sink, Softmax

MECHANISMS: dict[str, type[Mechanism]] = {
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
    description = describe_layer("mechanism", MECHANISMS, mechanism)
    if isinstance(description, str):
        return description
    own = description["config"]
    expected = {"score": describe_layer("score", SCORES, score), "dropout": dropout}
    for name, default in {"score": "scaled_dot", "dropout": 0.0}.items():
        found = own.get(name, default)
        if found not in (default, expected[name]):
            given = f"the layer has {expected[name]!r}, its mechanism {found!r}"
            raise ValueError(f"{name}: {given}; give {name} to the layer alone")
    return {**description, "config": {name: value for name, value in own.items() if name not in expected}}
