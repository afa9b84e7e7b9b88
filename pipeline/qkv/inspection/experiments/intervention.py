"""Interventions: attention weights of single heads or rows are replaced in a teacher-forced pass or a search.

Letters: B batch, H heads, T target (query) positions, S source (key) positions.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import keras
from keras import ops

from ...attention.cross_attention import CrossAttention
from ...attention.multi_head import AttentionLayer
from ...config.choices.inspection import SITES
from ...config.choices.model import MECHANISM_INFO
from ...layers.keras_layers import dynamic_shape
from ...layers.tap import Hook, tapped
from ...model.transformer import Transformer

# Functions of the weights and of the allowed keys (bool), both `(B, H, T, S)`, that return new weights.


def zeroed(weights, allowed):
    """Returns zeros, so that the head adds nothing."""
    return ops.zeros_like(weights)


def uniform(weights, allowed):
    """Returns equal weights for all allowed keys, which sum to 1 in each row."""
    equal = ops.cast(allowed, "float32")
    return equal / ops.maximum(ops.sum(equal, axis=-1, keepdims=True), 1.0)


def permuted(weights, allowed, seed=0):
    """Permutes the weights of each row among its allowed keys.

    The permutation depends only on the seed, the head and the positions of the allowed keys. So a row is permuted in
    the same way by a step of a search and by a pass over the whole target.
    """
    keys = dynamic_shape(weights)[-1]
    noise = ops.transpose(keras.random.uniform((keys, weights.shape[1]), seed=seed))[:, None]
    return permuted_by(weights, allowed, noise)


def permuted_by(weights, allowed, noise):
    """Permutes the weights of each row among its allowed keys, by the order of the numbers `noise`, from 0 to 1.

    `noise` is broadcastable to the weights.
    """
    # The allowed keys' weights come first, in random order; the n-th allowed key gets the n-th of them.
    shuffled = ops.take_along_axis(weights, ops.argsort(ops.where(allowed, noise, 2.0), axis=-1), axis=-1)
    number = ops.maximum(ops.cumsum(ops.cast(allowed, "int32"), axis=-1) - 1, 0)
    return ops.where(allowed, ops.take_along_axis(shuffled, number, axis=-1), 0.0)


def without_top(weights, allowed):
    """Sets the largest weight of each row to 0 and scales the other weights to a sum of 1.

    If the other weights are all 0, they become equal. A row with a single allowed key keeps its weight.
    """
    is_top = ops.one_hot(ops.argmax(weights, axis=-1), dynamic_shape(weights)[-1], dtype="bool")
    remaining = ops.logical_and(allowed, ops.logical_not(is_top))
    rest = ops.where(remaining, weights, 0.0)
    total = ops.sum(rest, axis=-1, keepdims=True)
    rest = ops.where(total > 1e-9, rest / ops.maximum(total, 1e-9), uniform(weights, remaining))
    return ops.where(ops.any(remaining, axis=-1, keepdims=True), rest, weights)


CHANGES = {"zeroed": zeroed, "uniform": uniform, "permuted": permuted, "without_top": without_top}
"""The replacements by name. The live page has words for each, in words.csv."""

UNCHANGED = -1


class Intervention(NamedTuple):
    """Replacements of weights in a list of attention layers. All fields may be tensors: one graph serves all values.

    - changes: int `(layers, H)`, for each head an index into `CHANGES`, or `UNCHANGED`.
    - row: int `(3,)`, the layer, head and query of a row that gets the weights `weights`. No row is replaced if `row`
      is None or its layer is -1.
    - weights: float32 `(S,)`, the weights of that row; None if `row` is None.
    """

    changes: Any
    row: Any = None
    weights: Any = None


def one_head(layers: int, heads: int, layer, head, change):
    """Makes the `changes` of an `Intervention` in a single head.

    Args:
        layers: the number of layers.
        heads: the number of heads of each layer.
        layer: the index of the changed layer, a number or tensor; -1 to change nothing.
        head: the index of the changed head, a number or tensor.
        change: an index into `CHANGES`, a number or tensor.

    Returns:
        int32 `(layers, heads)`.
    """
    is_head = ops.equal(ops.reshape(ops.arange(layers * heads), (layers, heads)), layer * heads + head)
    return ops.where(ops.logical_and(is_head, ops.greater_equal(layer, 0)), change, UNCHANGED)


def intervene(layers: Sequence[AttentionLayer], intervention: Intervention) -> AbstractContextManager[None]:
    """Returns a context manager that applies an intervention; see `tapped` for threads and graphs.

    Within the block, the layers return the new weights and compute their outputs from them. Rows whose weights do not
    change keep their outputs bit for bit.

    Args:
        layers: the attention layers that the indices in `intervention` refer to. Their weights must be shares of a row
            (not negative, with a sum of at most 1), see `changeable_layers`.
        intervention: the replacements.
    """
    return tapped(_make_hook({layer: (number, intervention) for number, layer in enumerate(layers)}))


def _make_hook(interventions: Mapping[AttentionLayer, tuple[int, Intervention]]) -> Hook:
    """Makes the hook that replaces weights.

    Args:
        interventions: layer -> `(index, intervention)`. The index is that of the layer in `Intervention.changes`.
    """

    def hook(layer, part, value, mask=None, **inputs):
        if part != "weights" or layer not in interventions:
            return value
        number, intervention = interventions[layer]
        return _replace(value, mask, number, intervention)

    return hook


def _replace(weights, mask, number, intervention: Intervention):
    """Returns the weights of a layer after the intervention, `(B, H, T, S)`.

    Args:
        weights: the weights of the layer, `(B, H, T, S)`.
        mask: bool, True for allowed keys, broadcastable to the weights; None if all keys are allowed.
        number: the index of the layer in `Intervention.changes`.
        intervention: the replacements.
    """
    allowed = ops.broadcast_to(True if mask is None else mask, dynamic_shape(weights))
    changes = ops.reshape(intervention.changes[number], (-1, 1, 1))
    original = weights
    for index, replace in enumerate(CHANGES.values()):
        weights = ops.where(ops.equal(changes, index), replace(original, allowed), weights)
    if intervention.row is None:
        return weights
    layer, head, query = (intervention.row[i] for i in range(3))
    heads = ops.arange(dynamic_shape(weights)[1])
    queries = ops.arange(dynamic_shape(weights)[2])
    is_row = ops.logical_and(ops.equal(heads[:, None, None], head), ops.equal(queries[None, :, None], query))
    is_row = ops.logical_and(is_row, ops.equal(layer, number))
    return ops.where(is_row, intervention.weights, weights)


def changeable_layers(model: keras.Model) -> dict[str, list[AttentionLayer]]:
    """Returns the attention layers whose weights can be replaced.

    Weights can be replaced if they are shares of a row: not negative, with a sum of at most 1. This depends on the
    mechanism: the table `MECHANISM_INFO` must state it. The layers must be a Transformer's.

    Returns:
        site -> layers, for the sites of `config.choices.model.ATTENTION_SITES` whose weights are shares of a row. Empty
        if the model is not a Transformer.
    """
    if not isinstance(model, Transformer):
        return {}

    def gives_shares(layer: AttentionLayer) -> bool:
        mechanism = layer.spec.mechanism
        name = mechanism if isinstance(mechanism, str) else mechanism["class_name"]
        return name in MECHANISM_INFO and MECHANISM_INFO[name].gives_shares

    return {
        SITES[site].weighed_at: layers
        for site, layers in model.attention_layers().items()
        if all(map(gives_shares, layers))
    }


class ChangedModel:
    """A Transformer under interventions, with the interface of `TranslationModel`.

    It shares its weights with the model. If no attention weight changes, its outputs are the model's bit for bit.

    Args:
        model: the Transformer.
        interventions: the intervention at each site, one of the keys of `changeable_layers`. Its fields may be
            variables: a traced graph then reads their current values.
    """

    def __init__(self, model: keras.Model, interventions: Mapping[str, Intervention]) -> None:
        self._model = model
        layers = changeable_layers(model)
        by_layer: dict[AttentionLayer, tuple[int, Intervention]] = {}
        for site, intervention in interventions.items():
            by_layer |= {layer: (number, intervention) for number, layer in enumerate(layers[site])}
        self._hook = _make_hook(by_layer)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def encode(self, source_ids, training=None):
        """See `TranslationModel.encode`."""
        with tapped(self._hook):
            return self._model.encode(source_ids, training=training)

    def decode(self, target_ids, memory, cache=None, training=None):
        """See `TranslationModel.decode`."""
        with tapped(self._hook):
            return self._model.decode(target_ids, memory, cache=cache, training=training)


def cross_attention_layers(model: keras.Model) -> list[CrossAttention]:
    """Returns the cross-attention layer of each decoder layer; an empty list if the model is not a Transformer."""
    return model.attention_layers()["cross"] if isinstance(model, Transformer) else []
