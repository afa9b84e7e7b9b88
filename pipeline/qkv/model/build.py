"""Builds a model from the settings of a config. No other module of this package reads settings."""

import inspect
from collections.abc import Mapping
from typing import Any

from ..attention.by_name import describe_layer
from ..attention.mechanisms import MECHANISM_CLASSES
from ..attention.scores import SCORE_CLASSES
from ..config.attention import AttentionSettings
from ..config.choices.model import MECHANISM_INFO, PARTS_MISSING, TAKES_SEGMENTS
from ..config.model import (
    ArchitectureSettings,
    BlocksSettings,
    DecoderOnlySettings,
    ModelSettings,
    RecurrentSettings,
    TransformerSettings,
)
from ..config.run import add_model_settings
from .decoder_only import DecoderOnly
from .interface import TranslationModel, has_segments
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


def add_architecture(
    name: str, meaning: str, settings: type[ArchitectureSettings] | None, model: type[TranslationModel]
) -> None:
    """Adds a model to `MODELS`, and its settings to the section `model` of configs. Plugins call it.

    Args:
        name: the value of `model.architecture`.
        meaning: a description, for help texts.
        settings: the class of the settings, or None for the settings of the base class.
        model: a subclass of a class in `MODELS`.

    Raises:
        ValueError: `model` is not such a subclass; `settings` belong to another base class; or no constructor has an
            argument for one of the settings.
    """
    bases = [base for base, base_model in MODELS.items() if issubclass(model, base_model)]
    if not bases:
        raise ValueError(f"{model.__name__}: expected a subclass of Transformer, DecoderOnly or Recurrent of qkv")
    if settings is not None and not issubclass(settings, bases[0]):
        raise ValueError(f"settings: expected a subclass of {bases[0].__name__}, found {settings.__name__}")
    settings = settings or bases[-1]
    constructors = [cls.__init__ for cls in model.__mro__ if "__init__" in vars(cls)]  # type: ignore[misc]
    arguments = {argument for constructor in constructors for argument in inspect.signature(constructor).parameters}
    if unknown := set(settings.model_fields) - arguments - {"architecture", "attention"}:
        raise ValueError(f"{model.__name__}: expected the setting {min(unknown)} as an argument of the constructor")
    MODELS[add_model_settings(name, meaning, settings)] = model
    TAKES_SEGMENTS[name] = has_segments(model)
    PARTS_MISSING[name] = PARTS_MISSING.get(bases[0].model_fields["architecture"].default, ())


def describe_model(model: TranslationModel) -> dict[str, Any]:
    """Returns the `model` section of a config that describes a model; the inverse of `build_model`.

    The arguments that affect only the initial weights are left out. A subclass of an architecture that is not in
    `MODELS` is described as the architecture, by the arguments that its config has.

    Args:
        model: a model of a class in `MODELS`, or of a subclass.

    Returns:
        The values of the settings by key, without a check; `architecture` is always among them.

    Raises:
        ValueError: the model is of another class.
    """
    classes: dict[type, Any] = {model_class: settings for settings, model_class in MODELS.items()}
    settings = next((classes[ancestor] for ancestor in type(model).__mro__ if ancestor in classes), None)
    if settings is None:
        names = ", ".join(model_class.__name__ for model_class in classes)
        raise ValueError(f"expected a model of class {names}, found {type(model).__name__}")
    arguments = model.get_config()
    section = {name: arguments[name] for name in settings.model_fields if name in arguments}
    section["architecture"] = settings.model_fields["architecture"].default
    if issubclass(settings, BlocksSettings):
        sites = settings.model_fields["attention"].default
        section["attention"] = {site: _describe_attention(arguments.get(site)) for site, _ in sites}
    return section


def _describe_attention(arguments: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns the settings of an attention layer for its arguments; the inverse of `_attention_arguments`."""
    ignored = ("kernel_initializer", "bias_initializer", "kernel_regularizer", "seed", "dropout")
    settings = {name: value for name, value in (arguments or {}).items() if name not in ignored}
    tables = {"mechanism": ("softmax", MECHANISM_CLASSES), "score": ("scaled_dot", SCORE_CLASSES)}
    for name, (default, table) in tables.items():
        description = describe_layer(name, table, settings.get(name, default))
        if not isinstance(description, str):
            settings |= {key: value for key, value in description["config"].items() if key not in ("max_length", name)}
            description = description["class_name"]
        settings[name] = description
    if settings.get("use_bias") is True:
        del settings["use_bias"]
    if settings.get("value_projection") is None:
        settings["value_projection"] = settings.get("projection", True)
    if settings["mechanism"] in MECHANISM_INFO and not MECHANISM_INFO[settings["mechanism"]].compares:
        settings.pop("projection", None)
    return settings
