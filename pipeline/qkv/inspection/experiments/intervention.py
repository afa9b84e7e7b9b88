"""Attention with the weights of some heads replaced, to see whether they mattered to the model, in a forced pass or a
search.

Letters: B batch, H heads, T target (query) positions, S source (key) positions, K key size, V value size.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import keras
from keras import ops

from ...attention.cross_attention import CrossAttention
from ...attention.multi_head import AttentionLayer
from ...config.names.inspection import SITES
from ...config.names.model import MECHANISMS
from ...layers.keras_layers import dynamic_shape
from ...layers.tap import Visit, tapped
from ...model.transformer import Transformer


def zeroed(weights, allowed):
    """Gives no key any weight: the head adds nothing."""
    return ops.zeros_like(weights)


def uniform(weights, allowed):
    """Gives every allowed key the same weight."""
    equal = ops.cast(allowed, "float32")
    return equal / ops.maximum(ops.sum(equal, axis=-1, keepdims=True), 1.0)


def permuted(weights, allowed, seed=0):
    """Shuffles the weights of each row among its allowed keys; the same seed gives the same order. The order depends on
    the head and on which keys are allowed alone, so that a search, step by step, finds what a whole pass finds."""
    keys = dynamic_shape(weights)[-1]
    noise = ops.transpose(keras.random.uniform((keys, weights.shape[1]), seed=seed))[:, None]
    # The allowed keys' weights come first, in random order; the n-th allowed key gets the n-th of them.
    shuffled = ops.take_along_axis(weights, ops.argsort(ops.where(allowed, noise, 2.0), axis=-1), axis=-1)
    place = ops.maximum(ops.cumsum(ops.cast(allowed, "int32"), axis=-1) - 1, 0)
    return ops.where(allowed, ops.take_along_axis(shuffled, place, axis=-1), 0.0)


def without_top(weights, allowed):
    """Removes the largest weight of each row and scales the others up; where they are zero, they become equal."""
    top = ops.one_hot(ops.argmax(weights, axis=-1), dynamic_shape(weights)[-1], dtype="bool")
    others = ops.logical_and(allowed, ops.logical_not(top))
    rest = ops.where(others, weights, 0.0)
    total = ops.sum(rest, axis=-1, keepdims=True)
    rest = ops.where(total > 1e-9, rest / ops.maximum(total, 1e-9), uniform(weights, others))
    return ops.where(ops.any(others, axis=-1, keepdims=True), rest, weights)  # a single key keeps its weight


class Change(NamedTuple):
    """A way to change the weights of a head.

    - replace: takes weights and where they are allowed, both `(B, H, T, S)`, and returns other weights.
    - label: on a switch.
    - meaning: in a sentence about the head.
    """

    replace: Callable[[Any, Any], Any]
    label: str
    meaning: str


CHANGES = {
    "zeroed": Change(zeroed, "off", "the head adds nothing"),
    "uniform": Change(uniform, "even", "the same weight for every word"),
    "permuted": Change(permuted, "shuffled", "the same weights, on other words"),
    "without_top": Change(without_top, "without its top", "without each row's largest weight"),
}

UNCHANGED = -1


class Intervention(NamedTuple):
    """The weights that are replaced in some layers of a model. All of it may be tensors, so that one graph serves all.

    - changes: int `(layers, H)`, for each head an index into `CHANGES`, or `UNCHANGED`.
    - row: int `(3,)`, layer, head and query of one row whose weights are given; layer -1 or None for no such row.
    - weights: float32 `(S,)`, the weights of that row; None without one.
    """

    changes: Any
    row: Any = None
    weights: Any = None


def one_head(layers: int, heads: int, layer, head, change):
    """Returns the `changes` of an `Intervention` in one head alone, int32 `(layers, heads)`. The indices of the layer,
    -1 for none, of its head and of the change, into `CHANGES`, may be tensors."""
    here = ops.equal(ops.reshape(ops.arange(layers * heads), (layers, heads)), layer * heads + head)
    return ops.where(ops.logical_and(here, ops.greater_equal(layer, 0)), change, UNCHANGED)


def intervene(layers: Sequence[AttentionLayer], intervention: Intervention) -> AbstractContextManager[None]:
    """Replaces weights of the heads of some layers, whose mechanism holds all weights, within the block; the layers
    return the new weights. Rows that are not changed keep their outputs bit for bit."""
    return tapped(_change({layer: (number, intervention) for number, layer in enumerate(layers)}))


def _change(changes: Mapping[AttentionLayer, tuple[int, Intervention]]) -> Visit:
    """Makes the visit that changes layers, given for each its number among the layers of an intervention."""

    def visit(layer, part, value, mask=None, **seen):
        return _replace(value, mask, *changes[layer]) if part == "weights" and layer in changes else value

    return visit


def _replace(weights, mask, number, intervention: Intervention):
    """Returns the weights of layer `number` after the intervention."""
    allowed = ops.broadcast_to(True if mask is None else mask, dynamic_shape(weights))
    changes = ops.reshape(intervention.changes[number], (-1, 1, 1))
    original = weights
    for index, change in enumerate(CHANGES.values()):
        weights = ops.where(ops.equal(changes, index), change.replace(original, allowed), weights)
    if intervention.row is None:
        return weights
    layer, head, query = (intervention.row[i] for i in range(3))
    heads, queries = (ops.arange(dynamic_shape(weights)[axis]) for axis in (1, 2))
    here = ops.logical_and(ops.equal(heads[:, None, None], head), ops.equal(queries[None, :, None], query))
    here = ops.logical_and(here, ops.equal(layer, number))
    return ops.where(here, intervention.weights, weights)


def changeable_layers(model: keras.Model) -> dict[str, list[AttentionLayer]]:
    """Returns the attention layers whose heads can be changed, for each of `names.model.ATTENTION_SITES` that has any.

    A Transformer has them where weights are shares; other architectures have none.
    """
    if not isinstance(model, Transformer):
        return {}

    def gives_shares(layer: AttentionLayer) -> bool:
        name = layer.spec.mechanism
        name = name if isinstance(name, str) else name["class_name"]
        return name in MECHANISMS and MECHANISMS[name].gives_shares

    layers = model.attention_layers().items()
    return {SITES[site].weighed_at: found for site, found in layers if all(map(gives_shares, found))}


class ChangedModel:
    """Computes what a Transformer computes when heads are changed, with the interface of `TranslationModel`.

    It shares the weights of the model. Where nothing is changed, outputs are the model's bit for bit.

    Args:
        model: the Transformer.
        interventions: for each of `names.model.ATTENTION_SITES`, what is replaced there; their parts may be variables,
            so that a graph that was traced once follows them.
    """

    def __init__(self, model: keras.Model, interventions: Mapping[str, Intervention]) -> None:
        self._model = model
        layers = changeable_layers(model)
        changes: dict[AttentionLayer, tuple[int, Intervention]] = {}
        for site, intervention in interventions.items():
            changes |= {layer: (number, intervention) for number, layer in enumerate(layers[site])}
        self._visit = _change(changes)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def encode(self, source_ids, training=None):
        """See `TranslationModel.encode`."""
        with tapped(self._visit):
            return self._model.encode(source_ids, training=training)

    def decode(self, target_ids, memory, cache=None, training=None):
        """See `TranslationModel.decode`."""
        with tapped(self._visit):
            return self._model.decode(target_ids, memory, cache=cache, training=training)


def cross_attention_layers(model: keras.Model) -> list[CrossAttention]:
    """Returns the cross-attention of each decoder layer of a Transformer; other architectures have none."""
    return model.attention_layers()["cross"] if isinstance(model, Transformer) else []
