"""A trained model with one thing about its cross-attention changed, and nothing learnt anew.

Letters: B batch, H heads, T target positions, S source positions, D model width, K key size, V value size.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import keras
import numpy as np
import pandas as pd
from keras import ops

from ...errors import InputError
from ...layers.keras_layers import dynamic_shape
from ...layers.tap import tapped
from ...model.transformer import Transformer
from ...text.tokens.special_tokens import PAD
from .intervention import changeable_layers, uniform


def _one_hot(weights, allowed):
    return ops.one_hot(ops.argmax(weights, axis=-1), dynamic_shape(weights)[-1])


def _last(weights, allowed):
    last = ops.sum(ops.cast(allowed, "int32"), axis=-1) - 1
    return ops.one_hot(last, dynamic_shape(weights)[-1])


def _copy(source: Any, target: Any) -> None:
    """Gives one projection the weights of another one."""
    if [x.shape for x in source.weights] != [x.shape for x in target.weights]:
        raise InputError("keys and values have different sizes, so neither can stand for the other")
    target.set_weights(source.get_weights())


def _pass_on(*projections: Any) -> None:
    """Makes projections pass on what they are given."""
    for projection in projections:
        rows, columns = projection.kernel.shape
        if rows != columns:
            raise InputError(f"a projection from {rows} to {columns} numbers cannot be left out")
        projection.set_weights([np.eye(rows), *(np.zeros(x.shape) for x in projection.weights[1:])])


class MechanismChange(NamedTuple):
    """A change of the cross-attention of all layers.

    - meaning: the change, in a few words.
    - weights: takes weights and where they are allowed, both `(B, H, T, S)`, and returns other weights, or the same.
    - projections: changes the projections of an attention layer in place, or nothing.
    """

    meaning: str
    weights: Callable[[Any, Any], Any] = lambda weights, allowed: weights
    projections: Callable[[Any], None] = lambda layer: None


MECHANISM_CHANGES = {
    "as it is": MechanismChange("the trained model"),
    "one-hot": MechanismChange("each row's largest weight becomes 1: retrieving instead of mixing", _one_hot),
    "raw vectors": MechanismChange(
        "no W_Q and W_K: states are compared as they are",
        projections=lambda layer: _pass_on(layer.query_projection, layer.key_projection),
    ),
    "uniform": MechanismChange("the same weight for every source token: a bag of words", uniform),
    "keys := values": MechanismChange(
        "W_K becomes W_V: words are found by what they say",
        projections=lambda layer: _copy(layer.value_projection, layer.key_projection),
    ),
    "without W_O": MechanismChange(
        "the heads' contexts are added side by side as they are",
        projections=lambda layer: _pass_on(layer.output_projection),
    ),
    "values := keys": MechanismChange(
        "W_V becomes W_K: the keys are read as well as searched",
        projections=lambda layer: _copy(layer.key_projection, layer.value_projection),
    ),
    "last word": MechanismChange("all weight on the end of the source: one context vector for every word", _last),
}

Batch = tuple[Any, Any, Any]
"""Source `(B, S)`, target from BOS on and target up to EOS `(B, T)`, ids with padding."""


def measure_changes(model: keras.Model, batches: Iterable[Batch]) -> pd.DataFrame:
    """Counts how many target tokens a model still gets right, given the reference's tokens before each, when its
    cross-attention is changed.

    Args:
        model: a Transformer whose cross-attention computes contexts from weights, with `projection` and
            `value_projection`; it is not changed.
        batches: the pairs that it reads.

    Returns:
        A row for each change that the sizes of the model allow: `change`, `meaning`, `tokens` and the share `right` of
        tokens to which the model gives the highest probability.

    Raises:
        InputError: another architecture or mechanism, or layers without projections.
    """
    if not isinstance(model, Transformer) or "cross" not in changeable_layers(model):
        raise InputError("expected a Transformer whose cross-attention computes contexts from weights")
    if not all(layer.spec.projection and layer.spec.value_projection for layer in model.attention_layers()["cross"]):
        raise InputError("expected cross-attention with projections, found some without; there is nothing to change")
    batches = list(batches)
    rows = []
    for name, change in MECHANISM_CHANGES.items():
        changed = type(model).from_config(model.get_config())
        changed.build()
        changed.set_weights(model.get_weights())
        layers = set(changed.attention_layers()["cross"])
        try:
            for layer in layers:
                change.projections(layer)
        except InputError:
            continue
        tokens, right = _count_right(changed, layers, change.weights, batches)
        rows.append((name, change.meaning, tokens, right / max(tokens, 1)))
    return pd.DataFrame(rows, columns=["change", "meaning", "tokens", "right"])


def _count_right(model, layers, replace, batches) -> tuple[int, int]:
    def visit(layer, part, value, mask=None, **seen):
        if part != "weights" or layer not in layers:
            return value
        return replace(value, ops.broadcast_to(True if mask is None else mask, dynamic_shape(value)))

    tokens = right = 0
    for source, target_input, target_output in batches:
        with tapped(visit):
            output = model.decode(target_input, model.encode(source, training=False), training=False)
        found = ops.convert_to_numpy(ops.argmax(output.logits, axis=-1))
        counted = target_output != PAD
        tokens += int(counted.sum())
        right += int((found == target_output)[counted].sum())
    return tokens, right
