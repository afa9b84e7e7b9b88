"""Base classes of layers and models that can be subclassed as Keras' own: a config of the constructor's arguments, and
layers that can be replaced. Seeds of parts."""

import inspect
import random
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from typing import Any

import keras


class ConstructorConfig:
    """A base class, listed before `keras.Layer` or `keras.Model`, that adds the arguments of the constructor to
    `get_config`.

    They are the arguments with which the object was made: those that its own class names, with their defaults, and
    those that its class takes in `*args` and `**kwargs` and passes on. `from_config` calls the same constructor with
    them. So a subclass needs no `get_config`, and may have one that adds entries to `super().get_config()`. Arguments
    that a subclass chooses for its base class are not in the config, because its constructor chooses them again.

    The entries `name`, `trainable` and `dtype` are left out if the constructor does not take them.
    """

    _constructor_call: inspect.BoundArguments

    def __new__(cls, *args, **kwargs):
        instance = super().__new__(cls, *args, **kwargs)
        call = inspect.signature(instance.__init__).bind(*args, **kwargs)  # type: ignore[misc]
        call.apply_defaults()
        # Copied, because the caller may change them later.
        call.arguments = {name: copy_containers(x) for name, x in call.arguments.items()}
        # Bypasses Keras, which would search it for layers and wrap it.
        object.__setattr__(instance, "_constructor_call", call)
        return instance

    def get_config(self) -> dict[str, Any]:
        config: dict[str, Any] = super().get_config()  # type: ignore[misc]
        positional, keywords = parameter_names(type(self))
        call = self._constructor_call
        arguments = dict(zip(positional, call.args, strict=False)) | call.kwargs
        config = {name: x for name, x in config.items() if keywords is None or name in keywords}
        # Keras' own entries, such as `trainable`, may have changed since.
        return config | {name: to_json_value(x) for name, x in arguments.items() if name not in config}


def parameter_names(cls):
    """Returns the names of a class' arguments by position, and of its arguments by name.

    What a constructor takes in `*args` and `**kwargs` it passes on to that of the base class. Keras' own constructors
    take the entries of Keras' own config by name: if all constructors have `**kwargs`, the second result is None.
    """
    ours = cls.__mro__[: cls.__mro__.index(ConstructorConfig)]
    positional: list[str] = []
    keywords: set[str] = set()
    takes_args = takes_kwargs = True
    for constructor in (vars(base)["__init__"] for base in ours if "__init__" in vars(base)):
        _, *parameters = inspect.signature(constructor).parameters.values()
        if takes_args:
            names = [x.name for x in parameters if x.kind in (x.POSITIONAL_ONLY, x.POSITIONAL_OR_KEYWORD)]
            # An argument that the subclass names as well is passed on before `*args`.
            positional += [name for name in names if name not in positional]
        if takes_kwargs:
            keywords.update(x.name for x in parameters)
        takes_args = takes_args and any(x.kind is x.VAR_POSITIONAL for x in parameters)
        takes_kwargs = takes_kwargs and any(x.kind is x.VAR_KEYWORD for x in parameters)
    return positional, None if takes_kwargs else keywords


def copy_containers(x):
    """Copies dicts, lists and tuples, also those within them, but nothing else that they hold."""
    if isinstance(x, Mapping):
        return {name: copy_containers(value) for name, value in x.items()}
    return type(x)(map(copy_containers, x)) if type(x) in (list, tuple) else x


class ReplaceableLayers:
    """A base class, listed before `keras.Layer` or `keras.Model`, of layers and models that hold other layers.

    An attribute that holds layers can be replaced until the object is built. The new layers take the place of the old
    ones in `layers` and `weights`. Keras alone would keep the old ones as well.
    """

    _layers: list[keras.Layer]
    _tracker: Any

    def __setattr__(self, name, value):
        replaced = getattr(self, name, None)
        count = len(vars(self).get("_layers", ()))
        super().__setattr__(name, value)
        if any(True for _ in layers_within(replaced)) and not self._tracker.locked:
            self._forget_replaced_layers(new=self._layers[count:])

    def _forget_replaced_layers(self, new):
        # Without the lists that Keras and TensorFlow keep.
        attributes = [x for name, x in vars(self).items() if name != "_layers" and not name.startswith("_self_")]
        held = {id(layer) for layer in layers_within(attributes)}
        if old := [layer for layer in self._layers if id(layer) not in held]:
            start = self._layers.index(old[0])
            del self._layers[len(self._layers) - len(new) :]  # where Keras has put them
            self._layers[start:start] = new
            for layer in old:
                self._tracker.untrack(layer)


def build_once(layer, *shapes, **named_shapes):
    """Builds a layer, unless it is built already, as a layer of another model is."""
    if not layer.built:
        layer.build(*shapes, **named_shapes)


def layers_within(x) -> Iterator[keras.Layer]:
    """Yields the layers in dicts, lists and tuples, and in those within them."""
    if isinstance(x, keras.Layer):
        yield x
    elif isinstance(x, Mapping | list | tuple):
        for value in x.values() if isinstance(x, Mapping) else x:
            yield from layers_within(value)


def to_json_value(x):
    """Returns what JSON can hold: a dict, a dataclass' fields, or a layer's, initializer's or regularizer's config."""
    x = vars(x) if is_dataclass(x) else x
    if isinstance(x, Mapping):
        return {name: to_json_value(value) for name, value in x.items()}
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
