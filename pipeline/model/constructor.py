"""A config made of what the constructor was given, so that no class lists its arguments a third time."""

import inspect
from collections.abc import Mapping
from typing import Any

import keras


class ConstructorConfig:
    """Stands before `keras.Layer` or `keras.Model` among the bases, and adds to `get_config` what `__init__` was given.

    Arguments with defaults are among them. What `**kwargs` takes is Keras' own and in the config by itself.
    """

    def __new__(cls, *args, **kwargs):
        instance = super().__new__(cls, *args, **kwargs)
        signature = inspect.signature(cls.__init__)
        bound = signature.bind(instance, *args, **kwargs)
        bound.apply_defaults()
        of_keras = [name for name, argument in signature.parameters.items() if argument.kind is argument.VAR_KEYWORD]
        arguments = {name: plain(x) for name, x in bound.arguments.items() if name not in ("self", *of_keras)}
        # Past Keras, which would look for layers in it and wrap it.
        object.__setattr__(instance, "_constructor_arguments", arguments)
        return instance

    def get_config(self) -> dict[str, Any]:
        config: dict[str, Any] = super().get_config()  # type: ignore[misc]
        return {**config, **self._constructor_arguments}  # type: ignore[attr-defined]


def plain(x):
    """Returns what can be written as JSON: a copy of a dict, or the config of a layer."""
    if isinstance(x, Mapping):
        return {name: plain(value) for name, value in x.items()}
    return keras.saving.serialize_keras_object(x) if isinstance(x, keras.Layer) else x
