"""Measures how much a trained model depends on each part of its cross-attention: a part is changed without retraining.

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
    """Returns 1 for the largest weight of each row and 0 for all other keys."""
    return ops.one_hot(ops.argmax(weights, axis=-1), dynamic_shape(weights)[-1])


def _last(weights, allowed):
    """Returns 1 for the last allowed key of each row, which is EOS, and 0 for all other keys."""
    last = ops.sum(ops.cast(allowed, "int32"), axis=-1) - 1
    return ops.one_hot(last, dynamic_shape(weights)[-1])


def _copy_weights(source: Any, target: Any) -> None:
    """Copies the weights of the projection `source` to `target`; raises an `InputError` if their shapes differ."""
    if [x.shape for x in source.weights] != [x.shape for x in target.weights]:
        raise InputError("keys and values have different sizes, so neither can stand for the other")
    target.set_weights(source.get_weights())


def _make_identity(*projections: Any) -> None:
    """Sets the kernels of projections to the identity and biases to 0; raises an `InputError` if one is not square."""
    for projection in projections:
        rows, columns = projection.kernel.shape
        if rows != columns:
            raise InputError(f"a projection from {rows} to {columns} numbers cannot be left out")
        projection.set_weights([np.eye(rows), *(np.zeros(x.shape) for x in projection.weights[1:])])


class MechanismChange(NamedTuple):
    """A change of the cross-attention of all layers.

    - meaning: the change in a few words.
    - weights: a function of the weights and of the allowed keys (bool), both `(B, H, T, S)`, that returns the new
      weights. By default they are unchanged.
    - projections: a function that changes the projections of an attention layer in place. It raises an `InputError` if
      their shapes do not allow the change. By default it changes nothing.
    """

    meaning: str
    weights: Callable[[Any, Any], Any] = lambda weights, allowed: weights
    projections: Callable[[Any], None] = lambda layer: None


MECHANISM_CHANGES = {
    "as it is": MechanismChange("the trained model"),
    "one-hot": MechanismChange("each row's largest weight becomes 1: retrieving instead of mixing", _one_hot),
    "raw vectors": MechanismChange(
        "no W_Q and W_K: states are compared as they are",
        projections=lambda layer: _make_identity(layer.query_projection, layer.key_projection),
    ),
    "uniform": MechanismChange("the same weight for every source token: a bag of words", uniform),
    "keys := values": MechanismChange(
        "W_K becomes W_V: words are found by what they say",
        projections=lambda layer: _copy_weights(layer.value_projection, layer.key_projection),
    ),
    "without W_O": MechanismChange(
        "the heads' contexts are added side by side as they are",
        projections=lambda layer: _make_identity(layer.output_projection),
    ),
    "values := keys": MechanismChange(
        "W_V becomes W_K: the keys are read as well as searched",
        projections=lambda layer: _copy_weights(layer.key_projection, layer.value_projection),
    ),
    "last word": MechanismChange("all weight on the end of the source: one context vector for every word", _last),
}
"""The changes by name."""

PairArrays = tuple[Any, Any, Any]
"""The ids of sentence pairs, with padding: source `(B, S)`, target from BOS on `(B, T)`, target up to EOS `(B, T)`."""


def measure_changes(model: keras.Model, batches: Iterable[PairArrays]) -> pd.DataFrame:
    """Measures the accuracy of a model's next-token predictions under each of `MECHANISM_CHANGES`.

    The model reads the reference (teacher forcing). Each change is made in a copy of the model.

    Args:
        model: a Transformer whose cross-attention computes contexts from weights, with `projection` and
            `value_projection`.
        batches: the sentence pairs.

    Returns:
        A row for each change that the shapes of the projections allow: `change` (its name), `meaning`, `tokens` (the
        number of target tokens, without padding) and `right` (the share of them to which the model gives the highest
        probability; 0 if there are none).

    Raises:
        InputError: the model is not a Transformer, the weights of its cross-attention cannot be replaced (see
            `inspection.experiments.intervention.changeable_layers`), or its cross-attention lacks projections.
    """
    if not isinstance(model, Transformer) or "cross" not in changeable_layers(model):
        raise InputError("expected a Transformer whose cross-attention computes contexts from weights")
    if not all(layer.spec.projection and layer.spec.value_projection for layer in model.attention_layers()["cross"]):
        raise InputError("expected cross-attention with projections, found some without; there is nothing to change")
    batches = list(batches)  # read once for each change
    rows = []
    for name, change in MECHANISM_CHANGES.items():
        changed_model = type(model).from_config(model.get_config())
        changed_model.build()
        changed_model.set_weights(model.get_weights())
        layers = set(changed_model.attention_layers()["cross"])
        try:
            for layer in layers:
                change.projections(layer)
        except InputError:
            continue
        tokens, right = _count_right(changed_model, layers, change.weights, batches)
        rows.append((name, change.meaning, tokens, right / max(tokens, 1)))
    return pd.DataFrame(rows, columns=["change", "meaning", "tokens", "right"])


def _count_right(model, layers, replace, batches) -> tuple[int, int]:
    """Returns the number of target tokens and the number of right predictions.

    Args:
        model: the Transformer.
        layers: the attention layers whose weights are replaced.
        replace: the replacement, see `MechanismChange.weights`.
        batches: a list of `PairArrays`.
    """

    def replace_weights(layer, part, value, mask=None, **inputs):
        if part != "weights" or layer not in layers:
            return value
        return replace(value, ops.broadcast_to(True if mask is None else mask, dynamic_shape(value)))

    tokens = 0
    right = 0
    for source, target_input, target_output in batches:
        with tapped(replace_weights):
            output = model.decode(target_input, model.encode(source, training=False), training=False)
        likeliest = ops.convert_to_numpy(ops.argmax(output.logits, axis=-1))
        is_token = target_output != PAD
        tokens += int(is_token.sum())
        right += int((likeliest == target_output)[is_token].sum())
    return tokens, right
