"""Score functions and mechanisms, made from a name, a config or an example layer."""

from collections.abc import Mapping
from typing import Any

import keras


def describe_layer(kind: str, table: Mapping[str, type], layer: Any) -> Any:
    """Describes a score function or a mechanism by a value that a config can store.

    Args:
        kind: "score" or "mechanism", for error messages.
        table: the classes by name.
        layer: a name of `table`; or a dict `{"class_name": ..., "config": ...}` with the arguments, whose class name is
            in `table` or registered with Keras; or a layer without weights, whose arguments are taken.

    Returns:
        `layer` unchanged if it is a name. Otherwise a dict of class name and arguments, without the arguments `name`,
        `trainable` and `dtype`.

    Raises:
        ValueError: no class has that name; or the layer has weights already, which a copy would not share.
    """
    if isinstance(layer, keras.Layer):
        if layer.weights:
            raise ValueError(f"{kind}: expected a layer without weights yet, found {layer.name}, which has some")
        layer = {"class_name": keras.saving.get_registered_name(type(layer)), "config": layer.get_config()}
    if isinstance(layer, Mapping):
        name = layer.get("class_name")
        config = {key: x for key, x in layer.get("config", {}).items() if key not in ("name", "trainable", "dtype")}
        if config.get("seed", 0) is None:  # then the attention layer sets the seed
            del config["seed"]
        if name not in table:
            name = layer.get("registered_name") or name
            name = next((short for short, class_ in table.items() if class_ is _find_class(table, name)), name)
        layer = {"class_name": name, "config": config}
    else:
        name = layer
    if not isinstance(name, str) or _find_class(table, name) is None:
        raise ValueError(f"{kind}: expected one of {', '.join(table)}, or a layer, found {name!r}")
    return layer


def make_layer(table: Mapping[str, type], description: Any, **arguments: Any) -> Any:
    """Makes the layer that a description stands for.

    Args:
        table: the classes by name.
        description: a result of `describe_layer`.
        **arguments: arguments of the layer, such as `name` and `dtype`. An argument in the description has precedence.

    Returns:
        A new layer.
    """
    if isinstance(description, str):
        return _find_class(table, description)(**arguments)
    return _find_class(table, description["class_name"])(**{**arguments, **description["config"]})


def _find_class(table: Mapping[str, type], name: Any) -> Any:
    """Returns the class of a name in the table, else the class registered with Keras; None if there is none."""
    return table.get(name) or keras.saving.get_registered_object(name)
