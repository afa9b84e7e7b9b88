"""Base classes that let users subclass the layers and models like Keras' own, and the seeds of a layer's parts.

`ConstructorConfig` makes a config of the constructor's arguments. `ReplaceableLayers` lets attributes with layers be
replaced.
"""

import inspect
import random
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from typing import Any, Self

import keras


class ConstructorConfig:
    """Base class, listed before `keras.Layer` or `keras.Model`, that adds the constructor's arguments to `get_config`.

    The config contains all arguments of the call that made the object: the parameters that its class names, including
    defaults, and the arguments in `*args` and `**kwargs`, which its class passes to the base class. `from_config` calls
    the same constructor with them. So a subclass needs no `get_config`, but may add entries to `super().get_config()`.
    Arguments that a subclass chooses for its base class are not in the config, because its constructor chooses them
    again.

    Keras' entries, such as `name`, `trainable` and `dtype`, are omitted if the constructor does not accept them.
    """

    _constructor_call: inspect.BoundArguments

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
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


def parameter_names(cls: type) -> tuple[list[str], set[str] | None]:
    """Returns the names of the arguments of a class, including the arguments that its base classes name.

    A constructor is assumed to pass `*args` and `**kwargs` to the constructor of its base class.

    Args:
        cls: a subclass of `ConstructorConfig`.

    Returns:
        `(positional, keywords)`: a list of the arguments that may be given by position, and the set of the arguments
        that may be given by name. `keywords` is None if all constructors have `**kwargs`: then Keras' constructor gets
        the arguments that no other constructor names.
    """
    bases = cls.__mro__[: cls.__mro__.index(ConstructorConfig)]
    positional: list[str] = []
    keywords: set[str] = set()
    takes_args = takes_kwargs = True
    for constructor in (vars(base)["__init__"] for base in bases if "__init__" in vars(base)):
        _, *parameters = inspect.signature(constructor).parameters.values()
        if takes_args:
            names = [x.name for x in parameters if x.kind in (x.POSITIONAL_ONLY, x.POSITIONAL_OR_KEYWORD)]
            # If the subclass names an argument too, it passes the argument before `*args`.
            positional += [name for name in names if name not in positional]
        if takes_kwargs:
            keywords.update(x.name for x in parameters)
        takes_args = takes_args and any(x.kind is x.VAR_POSITIONAL for x in parameters)
        takes_kwargs = takes_kwargs and any(x.kind is x.VAR_KEYWORD for x in parameters)
    return positional, None if takes_kwargs else keywords


def copy_containers(x: Any) -> Any:
    """Returns a copy of nested dicts, lists and tuples. Other values, within them or given as x, are not copied."""
    if isinstance(x, Mapping):
        return {name: copy_containers(value) for name, value in x.items()}
    return type(x)(map(copy_containers, x)) if type(x) in (list, tuple) else x


class ReplaceableLayers:
    """Base class, listed before `keras.Layer` or `keras.Model`, of layers and models that contain other layers.

    An attribute with layers can be assigned again until the object is built. The new layers replace the old layers in
    `layers` and `weights`, at the same index. Keras alone would keep the old layers as well.
    """

    _layers: list[keras.Layer]
    _tracker: Any

    def __setattr__(self, name: str, value: Any) -> None:
        replaced = getattr(self, name, None)
        count = len(vars(self).get("_layers", ()))
        super().__setattr__(name, value)
        if any(True for _ in layers_within(replaced)) and not self._tracker.locked:
            self._forget_replaced_layers(new=self._layers[count:])

    def _forget_replaced_layers(self, new: list[keras.Layer]) -> None:
        """Removes the layers that no attribute holds any more from Keras' lists, and moves `new` to their index."""
        # Without the lists that Keras and TensorFlow keep.
        attributes = [x for name, x in vars(self).items() if name != "_layers" and not name.startswith("_self_")]
        held = {id(layer) for layer in layers_within(attributes)}
        if old := [layer for layer in self._layers if id(layer) not in held]:
            start = self._layers.index(old[0])
            del self._layers[len(self._layers) - len(new) :]  # Keras has appended the new layers
            self._layers[start:start] = new
            for layer in old:
                self._tracker.untrack(layer)


def build_once(layer: keras.Layer | None, *shapes: Any, **named_shapes: Any) -> None:
    """Builds a layer for inputs of these shapes, unless it is None or is built already, for example by another model.

    A layer without a method `build`, which Keras builds at its first call, is called with symbolic inputs.
    """
    if layer is None or layer.built:
        return
    if type(layer).build is keras.Layer.build:
        layer(*(keras.KerasTensor(shape, layer.compute_dtype) for shape in shapes))
    else:
        layer.build(*shapes, **named_shapes)


def build_added_layers(layer: keras.Layer, *shapes: Any, dtype: Any = None) -> None:
    """Builds the layers that a subclass has added to a layer, as Keras would: by a symbolic call.

    Call it at the end of `layer.build`. Without such layers, nothing is called.

    Args:
        layer: the layer or model.
        *shapes: the shapes of its inputs.
        dtype: the type of its inputs; by default the layer's compute dtype.
    """
    if not all(part.built for part in layer._flatten_layers(include_self=False)):
        symbols = (keras.KerasTensor(shape, dtype or layer.compute_dtype) for shape in shapes)
        keras.Operation.compute_output_spec(layer, *symbols)  # the class's own method need not call the layer


def layers_within(x: Any) -> Iterator[keras.Layer]:
    """Yields the layers in nested dicts, lists and tuples; x itself if x is a layer."""
    if isinstance(x, keras.Layer):
        yield x
    elif isinstance(x, Mapping | list | tuple):
        for value in x.values() if isinstance(x, Mapping) else x:
            yield from layers_within(value)


def to_json_value(x: Any) -> Any:
    """Converts an argument to a value for a config.

    Args:
        x: any argument of a constructor.

    Returns:
        A dict of converted values for a dict or a dataclass; Keras' config for a layer, an initializer or a
        regularizer; otherwise x unchanged.
    """
    x = vars(x) if is_dataclass(x) else x
    if isinstance(x, Mapping):
        return {name: to_json_value(value) for name, value in x.items()}
    is_keras_object = isinstance(x, keras.Layer | keras.Initializer | keras.Regularizer)
    return keras.saving.serialize_keras_object(x) if is_keras_object else x


def seed_of(part: str, seed: int | None) -> int | None:
    """Derives the seed of a part of a layer from the layer's seed, so that parts draw different random numbers.

    Args:
        part: the name of the part, such as "query".
        seed: the seed of the layer, an int, or None.

    Returns:
        An int from 0 to 2**31 - 1, always the same for the same arguments; None if `seed` is None.
    """
    return None if seed is None else random.Random(f"{part} {seed}").randrange(2**31)


def seeded(initializer: Any, seed: int | None) -> Any:
    """Sets the seed of an initializer.

    Args:
        initializer: a name, the config of an initializer, or an initializer.
        seed: an int, or None.

    Returns:
        A new initializer with the seed. If `seed` is None, `initializer` unchanged. If the initializer has a seed
        already or is not random, that initializer without a change.
    """
    if seed is None:
        return initializer
    initializer = keras.initializers.get(initializer)
    config = initializer.get_config()
    return type(initializer).from_config({**config, "seed": seed}) if config.get("seed", 0) is None else initializer
