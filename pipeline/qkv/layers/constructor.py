"""The arguments of a layer's constructor: its config, so that no class lists them a third time, and seeds of parts."""

import inspect
import random
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
    """Returns what JSON can hold: a dict, a dataclass' fields, or a layer's, initializer's or regularizer's config."""
    x = vars(x) if is_dataclass(x) else x
    if isinstance(x, Mapping):
        return {name: plain(value) for name, value in x.items()}
    of_keras = isinstance(x, keras.Layer | keras.Initializer | keras.Regularizer)
    return keras.saving.serialize_keras_object(x) if of_keras else x


def seed_of(part, seed):
    """Returns the seed of a part of a layer, by its name, so that no two parts draw the same; None without a seed."""
    return None if seed is None else random.Random(f"{part} {seed}").randrange(2**31)


def seeded(initializer, seed):
    """Returns an initializer with a seed, unless there is none, or the initializer has its own or draws nothing.

    Args:
        initializer: a name, the config of an initializer, or an initializer.
        seed: an int or None.
    """
    if seed is None:
        return initializer
    initializer = keras.initializers.get(initializer)
    config = initializer.get_config()
    return type(initializer).from_config({**config, "seed": seed}) if config.get("seed", 0) is None else initializer
