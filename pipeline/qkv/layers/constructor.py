"""Makes a layer's config from the arguments of its constructor, so that no class lists them a third time."""

import inspect
from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Any

import keras


class ConstructorConfig:
    """A base class, listed before `keras.Layer` or `keras.Model`, that adds the arguments of `__init__` to
    `get_config`. Arguments left at their defaults are included. Keras adds the arguments in `**kwargs` itself.
    """

    def __new__(cls, *args, **kwargs):
        instance = super().__new__(cls, *args, **kwargs)
        signature = inspect.signature(cls.__init__)
        bound = signature.bind(instance, *args, **kwargs)
        bound.apply_defaults()
        of_keras = [name for name, argument in signature.parameters.items() if argument.kind is argument.VAR_KEYWORD]
        arguments = {name: plain(x) for name, x in bound.arguments.items() if name not in ("self", *of_keras)}
        # Bypasses Keras, which would search it for layers and wrap it.
        object.__setattr__(instance, "_constructor_arguments", arguments)
        return instance

    def get_config(self) -> dict[str, Any]:
        config: dict[str, Any] = super().get_config()  # type: ignore[misc]
        return {**config, **self._constructor_arguments}  # type: ignore[attr-defined]


def plain(x):
    """Returns what can be written as JSON: a copy of a dict, the fields of a dataclass, or the config of a layer."""
    x = vars(x) if is_dataclass(x) else x
    if isinstance(x, Mapping):
        return {name: plain(value) for name, value in x.items()}
    return keras.saving.serialize_keras_object(x) if isinstance(x, keras.Layer) else x
