"""Score functions and mechanisms by name, by config or by example."""

from collections.abc import Mapping

import keras


def describe_layer(kind, table, layer):
    """Describes a score function or mechanism as a config can store it.

    Args:
        kind: the word for it in error messages, "score" or "mechanism".
        table: the classes by name.
        layer: a name of `table`; `{"class_name": ..., "config": ...}` with a name of `table` or of a class registered
            with Keras, and its arguments; or a layer that was never called, whose arguments are taken.

    Returns:
        The name as it was given, or a dict of class name and arguments, without the arguments that every layer has.

    Raises:
        ValueError: there is no class of that name, or the layer has weights already, which a copy would not share.
    """
    if isinstance(layer, keras.Layer):
        if layer.weights:
            raise ValueError(f"{kind}: expected a layer without weights yet, found {layer.name}, which has some")
        layer = {"class_name": keras.saving.get_registered_name(type(layer)), "config": layer.get_config()}
    if isinstance(layer, Mapping):
        name = layer.get("class_name")
        config = {key: x for key, x in layer.get("config", {}).items() if key not in ("name", "trainable", "dtype")}
        if config.get("seed", 0) is None:  # the layer around it has one, or none
            del config["seed"]
        if name not in table:
            name = layer.get("registered_name") or name
            name = next((short for short, class_ in table.items() if class_ is _find(table, name)), name)
        layer = {"class_name": name, "config": config}
    else:
        name = layer
    if not isinstance(name, str) or _find(table, name) is None:
        raise ValueError(f"{kind}: expected one of {', '.join(table)}, or a layer, found {name!r}")
    return layer


def make_layer(table, description, **arguments):
    """Makes the layer that `describe_layer` describes, with further arguments such as `name` and `dtype`."""
    if isinstance(description, str):
        return _find(table, description)(**arguments)
    return _find(table, description["class_name"])(**{**arguments, **description["config"]})


def _find(table, name):
    return table.get(name) or keras.saving.get_registered_object(name)
