"""Mechanisms, which compute the context of each head from its queries, keys and values, and their table by name.

The modules, in reading order:

- `softmax`: the interface of mechanisms, the softmax, and the softmax with a learnt sink
- `fixed_weights`: all weight on one key, or equal weights
- `blockwise`: the softmax in bounded memory
- `linformer`: attention to a fixed number of mixtures of the keys
- `lsh`: attention among positions with similar vectors, found by hashing
"""

from collections.abc import Mapping
from typing import Any

from ..by_name import describe_layer
from ..scores import SCORE_CLASSES, ScoreArgument
from .blockwise import Blockwise
from .fixed_weights import Last, OneHot, Uniform
from .linformer import Linformer
from .lsh import LSH
from .softmax import Mechanism, Sink, Softmax

__all__ = [
    "LSH",
    "MECHANISM_CLASSES",
    "Blockwise",
    "Last",
    "Linformer",
    "Mechanism",
    "OneHot",
    "Sink",
    "Softmax",
    "Uniform",
    "describe_mechanism",
]

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
"""The mechanisms by name."""

MechanismArgument = str | Mapping[str, Any] | Mechanism
"""A mechanism, its name or its config; plugins may register other names."""


def describe_mechanism(
    mechanism: MechanismArgument, score: ScoreArgument = "scaled_dot", dropout: float = 0.0
) -> str | dict[str, Any]:
    """Describes a mechanism by a value that the config of an attention layer can store.

    Score and dropout are arguments of the attention layer, so the description does not contain them.

    Args:
        mechanism: a name, a config or a layer without weights, as for `attention.by_name.describe_layer`.
        score: the score function of the attention layer, in the same forms.
        dropout: the dropout of the attention layer, from 0 to 1.

    Returns:
        A name, or a dict of class name and arguments; see `describe_layer`.

    Raises:
        ValueError: no mechanism has that name; or the mechanism has an explicit score or dropout that differs from the
            attention layer's.
    """
    description = describe_layer("mechanism", MECHANISM_CLASSES, mechanism)
    if isinstance(description, str):
        return description
    config = {"score": "scaled_dot", "dropout": 0.0, **description["config"]}
    mechanism_values = {
        "score": describe_layer("score", SCORE_CLASSES, config.pop("score")),
        "dropout": config.pop("dropout"),
    }
    layer_values = {"score": describe_layer("score", SCORE_CLASSES, score), "dropout": dropout}
    for name, default in {"score": "scaled_dot", "dropout": 0.0}.items():
        if mechanism_values[name] not in (default, layer_values[name]):
            both = f"the layer has {layer_values[name]!r}, its mechanism {mechanism_values[name]!r}"
            raise ValueError(f"{name}: {both}; give {name} to the layer alone")
    return {**description, "config": config}
