"""A Transformer some of whose heads are changed, wherever it is used: in a search, and in a forced pass."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import keras

from ..attention.multi_head import AttentionLayer
from ..config.names.model import ATTENTION_SITES, MECHANISMS
from .intervention import Intervention, intervene


def changeable_layers(model: keras.Model) -> dict[str, Sequence[AttentionLayer]]:
    """Returns the attention layers whose heads can be changed, for each of `names.model.ATTENTION_SITES` that has any.

    They are those of a Transformer whose weights are shares; other architectures have none.
    """
    encoder, decoder = (getattr(model, f"{side}_blocks", ()) for side in ("encoder", "decoder"))
    if not encoder or not decoder:
        return {}
    layers = (
        [block.self_attention for block in encoder],
        [block.self_attention for block in decoder],
        [block.cross_attention for block in decoder],
    )
    return {site: found for site, found in zip(ATTENTION_SITES, layers, strict=True) if all(map(_gives_shares, found))}


def _gives_shares(layer: AttentionLayer) -> bool:
    name = layer.spec.mechanism
    name = name if isinstance(name, str) else name["class_name"]
    return name in MECHANISMS and MECHANISMS[name].gives_shares


class ChangedModel:
    """Computes what a Transformer computes when heads are changed, with the interface of `TranslationModel`.

    The weights are those of the model itself. Where nothing is changed, outputs are those of the model bit for bit.

    Args:
        model: the Transformer.
        interventions: for each of `names.model.ATTENTION_SITES`, what is replaced there; their parts may be variables,
            so that a graph that was traced once follows them.
    """

    def __init__(self, model: keras.Model, interventions: Mapping[str, Intervention]) -> None:
        self._model = model
        layers = changeable_layers(model)
        self._changes = [(layers[site], intervention) for site, intervention in interventions.items()]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def encode(self, source_ids, training=None):
        """See `TranslationModel.encode`."""
        with self._changed():
            return self._model.encode(source_ids, training=training)

    def decode(self, target_ids, memory, cache=None, training=None):
        """See `TranslationModel.decode`."""
        with self._changed():
            return self._model.decode(target_ids, memory, cache=cache, training=training)

    def _changed(self) -> AbstractContextManager:
        stack = ExitStack()
        for layers, intervention in self._changes:
            stack.enter_context(intervene(layers, intervention))
        return stack
