"""Builds a model from the settings of a config. No other module of this package reads settings."""

from typing import Any

from ..config.attention import AttentionSettings
from ..config.choices.model import MECHANISM_INFO
from ..config.model import (
    ArchitectureSettings,
    BlocksSettings,
    DecoderOnlySettings,
    ModelSettings,
    RecurrentSettings,
    TransformerSettings,
)
from .decoder_only import DecoderOnly
from .interface import TranslationModel
from .recurrent import Recurrent
from .transformer import Transformer

MODELS: dict[type[ArchitectureSettings], Any] = {
    TransformerSettings: Transformer,
    RecurrentSettings: Recurrent,
    DecoderOnlySettings: DecoderOnly,
}
"""The class of the model for each class of settings. Plugins add rows."""


def build_model(settings: ModelSettings, vocabulary_size: int, precision: str = "float32") -> TranslationModel:
    """Makes and builds the model that the `model` section of a config describes, with random weights.

    Args:
        settings: the `model` section.
        vocabulary_size: the number of tokens in the vocabulary.
        precision: the name of the Keras dtype policy in which the model computes, such as "mixed_bfloat16".
    """
    arguments = settings.model_dump(exclude={"architecture", "attention"})
    if isinstance(settings, BlocksSettings):
        for site in type(settings.attention).model_fields:
            arguments[site] = _attention_arguments(getattr(settings.attention, site), settings.max_positions)
    model: TranslationModel = MODELS[type(settings)](
        vocabulary_size, **arguments, dtype=precision, name=settings.architecture
    )
    model.build()
    return model


def _attention_arguments(settings: AttentionSettings, max_positions: int) -> dict[str, Any]:
    """Returns the arguments of an attention layer for its settings, without arguments that have no value."""
    mechanism_arguments = settings.model_dump(include=set(MECHANISM_INFO[settings.mechanism].settings))
    if settings.mechanism == "linformer":
        mechanism_arguments["max_length"] = max_positions
    names = {"mechanism", "score", "key_dim", "value_dim", "key_value_heads", "projection", "value_projection"}
    arguments = settings.model_dump(include=names)
    if not MECHANISM_INFO[settings.mechanism].compares:  # then no queries and keys are needed
        arguments["projection"] = False
    if mechanism_arguments:
        arguments["mechanism"] = {"class_name": settings.mechanism, "config": mechanism_arguments}
    return {key: value for key, value in arguments.items() if value is not None}
