"""Conversion of attention layers between this package and Keras, with their weights.

| Keras | here |
|---|---|
| `MultiHeadAttention` | `CrossAttention`, `MultiHeadAttention`, `SelfAttention` |
| `GroupQueryAttention` | the same with `key_value_heads` |
| `Attention(score_mode="dot")` | the same with one head, `score="dot"` and `projection=False` |
| `AdditiveAttention` | `AdditiveAttention(projection=False)` |
"""

from collections.abc import Iterable, Mapping
from typing import Any

import keras
import numpy as np

from .additive import AdditiveAttention
from .cross_attention import CrossAttention
from .multi_head import AttentionLayer, MultiHeadAttention
from .self_attention import SelfAttention

SIDES = ("query", "key", "value", "output")
"""The names of a layer's projections, here and in Keras."""

SHARED_OPTIONS = ("use_bias", "dropout", "kernel_initializer", "bias_initializer", "kernel_regularizer", "seed")
"""The options of multi-head attention that have the same name and meaning here and in Keras."""

NEUTRAL_OPTIONS: dict[str, tuple[Any, ...]] = {
    "use_gate": (False,),
    "sliding_window": (None,),
    "attention_axes": (None, (1,), [1]),
    "bias_regularizer": (None,),
    "activity_regularizer": (None,),
    "kernel_constraint": (None,),
    "bias_constraint": (None,),
}
"""Options of Keras' layers that have no counterpart here, with the values that switch them off."""


def from_keras(layer: keras.Layer, kind: type[AttentionLayer] | None = None, **kwargs: Any) -> Any:
    """Makes an attention layer that computes the same as a built attention layer of Keras.

    Masks have the same effect, except for a query without any allowed key: here its weights are zero. LoRA of the Keras
    layer is added to the matrices. `flash_attention` is lost: it changes the speed only.

    Args:
        layer: a built `keras.layers.MultiHeadAttention`, `GroupQueryAttention`, `Attention` or `AdditiveAttention`. It
            has attended to sequences, not to images.
        kind: the class of the result. None: `AdditiveAttention` for Keras' layer of that name, otherwise
            `CrossAttention`. `MultiHeadAttention` takes keys and values of different widths, and `SelfAttention` needs
            queries, keys and values of one width.
        **kwargs: arguments of the new layer, such as `name` and `return_weights`. By default, `dtype` and `trainable`
            are the Keras layer's.

    Returns:
        A new, built layer of the class `kind` with the same weights. Called as `(query, key=..., value=...)`, `(x,
        memory)` or `(x)`, where Keras' layers take `(query, value, key)` or a list.

    Raises:
        ValueError: the layer is of another class, is not built, is quantized, or has an option that the layers here
            lack; or `kind` cannot have the widths of its inputs.

    Example:
        >>> peer = keras.layers.MultiHeadAttention(num_heads=2, key_dim=4)
        >>> x = keras.random.normal((1, 3, 8))
        >>> expected = peer(x, x)
        >>> context, _ = from_keras(peer, SelfAttention)(x)
        >>> bool(keras.ops.all(keras.ops.abs(context - expected) < 1e-5))
        True
    """
    makers = {
        keras.layers.MultiHeadAttention: _from_multi_head,
        keras.layers.GroupQueryAttention: _from_multi_head,
        keras.layers.Attention: _from_dot_product,
        keras.layers.AdditiveAttention: _from_additive,
    }
    make = makers.get(type(layer))
    if make is None:
        names = ", ".join(each.__name__ for each in makers)
        raise ValueError(f"layer: expected one of Keras' layers {names}, found {type(layer).__name__}")
    if not layer.built:
        raise ValueError("layer: expected a built layer, found one without weights; call it once first")
    if kind is None:
        kind = AdditiveAttention if type(layer) is keras.layers.AdditiveAttention else CrossAttention
    return make(layer, kind, {"dtype": layer.dtype_policy, "trainable": layer.trainable, **kwargs})


def _from_multi_head(layer: Any, kind: type[AttentionLayer], kwargs: Mapping[str, Any]) -> AttentionLayer:
    """Converts `keras.layers.MultiHeadAttention` or `GroupQueryAttention`."""
    config = layer.get_config()
    for option, neutral in NEUTRAL_OPTIONS.items():
        value = config.get(option, neutral[0])
        if value not in neutral:
            found = f"{value!r:.60}"
            raise ValueError(f"layer: expected {option}={neutral[0]}, found {found}, which layers here do not have")
    # The names of Keras' attributes, because `GroupQueryAttention` has no public ones.
    dense = {side: getattr(layer, f"_{side}_dense") for side in SIDES}
    modes = {projection.quantization_mode for projection in dense.values()} - {None}
    if modes:
        raise ValueError(f"layer: expected weights that are not quantized, found {modes.pop()}")
    kernels = {side: keras.ops.convert_to_numpy(projection.kernel) for side, projection in dense.items()}
    if kernels["output"].ndim != 3:
        raise ValueError(f"layer: expected an output_shape of one axis, found {config['output_shape']}")
    _, num_heads, key_dim = kernels["query"].shape
    _, key_value_heads, value_dim = kernels["value"].shape
    converted = kind(
        num_heads=num_heads,
        key_dim=key_dim,
        value_dim=value_dim,
        output_dim=kernels["output"].shape[-1],
        key_value_heads=key_value_heads,
        **{name: config[name] for name in SHARED_OPTIONS},
        **kwargs,
    )
    _build(converted, *(kernels[side].shape[0] for side in ("query", "key", "value")))
    arrays = {}
    for side, kernel in kernels.items():
        matrix = kernel.reshape((-1, kernel.shape[-1]) if side == "output" else (kernel.shape[0], -1))
        bias = dense[side].bias
        arrays[side] = [matrix] if bias is None else [matrix, keras.ops.convert_to_numpy(bias).reshape(-1)]
    _set_projections(converted, arrays)
    return converted


def _from_dot_product(layer: Any, kind: type[AttentionLayer], kwargs: Mapping[str, Any]) -> AttentionLayer:
    """Converts `keras.layers.Attention`, which has no weights."""
    for option, expected in {"use_scale": False, "score_mode": "dot"}.items():
        value = getattr(layer, option)
        if value != expected:
            raise ValueError(f"layer: expected {option}={expected!r}, found {value!r}, which layers here do not have")
    query, key, value = _input_widths(layer)
    converted = kind(
        num_heads=1,
        key_dim=query,
        value_dim=value,
        score="dot",
        projection=False,
        dropout=layer.dropout,
        seed=layer.seed,
        **kwargs,
    )
    _build(converted, query, key, value)
    return converted


def _from_additive(layer: Any, kind: type[AttentionLayer], kwargs: Mapping[str, Any]) -> AttentionLayer:
    """Converts `keras.layers.AdditiveAttention`, whose `scale` is the vector v here."""
    if kind is not AdditiveAttention:
        raise ValueError(f"kind: Keras' AdditiveAttention becomes an AdditiveAttention, found {kind.__name__}")
    if not layer.use_scale:
        raise ValueError("layer: expected use_scale=True, found False; the vector v is always learnt here")
    query, key, value = _input_widths(layer)
    converted = kind(units=query, projection=False, dropout=layer.dropout, seed=layer.seed, **kwargs)
    _build(converted, query, key, value)
    converted.score.v.assign(layer.scale[None])
    return converted


def _input_widths(layer: Any) -> tuple[int, int, int]:
    """Returns the widths of queries, keys and values of a built `keras.layers.Attention` or `AdditiveAttention`."""
    query, value, *key = (shape[-1] for shape in layer.get_build_config()["input_shape"])
    return query, key[0] if key else value, value


def _build(layer: AttentionLayer, query: int, key: int, value: int) -> None:
    """Builds a layer for inputs of these widths, which the class of the layer may not be able to have."""
    name = type(layer).__name__
    found = f"queries of width {query}, keys of width {key} and values of width {value}"
    if isinstance(layer, SelfAttention):
        if not query == key == value:
            raise ValueError(f"kind: {name} makes all three from one sequence, found {found}; use CrossAttention")
        layer.build((None, None, query))
    elif isinstance(layer, CrossAttention):
        if key != value:
            raise ValueError(
                f"kind: {name} makes keys and values from one memory, found {found}; use kind=MultiHeadAttention"
            )
        layer.build((None, None, query), (None, None, key))
    else:
        layer.build((None, None, query), key_shape=(None, None, key), value_shape=(None, None, value))


def _set_projections(layer: AttentionLayer, arrays: Mapping[str, list[np.ndarray]]) -> None:
    """Sets the matrices, and biases if any, of a layer's projections: a list for each of `SIDES`."""
    if isinstance(layer, SelfAttention):
        parts = zip(*(arrays[side] for side in layer.widths), strict=True)
        layer.qkv_projection.set_weights([np.concatenate(part, axis=-1) for part in parts])
        layer.output_projection.set_weights(arrays["output"])
    else:
        for side in SIDES:
            getattr(layer, f"{side}_projection").set_weights(arrays[side])


def _get_projections(layer: Any) -> dict[str, list[np.ndarray]]:
    """Returns the matrices, and biases if any, of a layer's projections: a list for each of `SIDES`."""

    def read(projection: Any) -> list[np.ndarray]:
        weights = [projection.kernel] if projection.bias is None else [projection.kernel, projection.bias]
        return [keras.ops.convert_to_numpy(weight) for weight in weights]

    if not isinstance(layer, SelfAttention):
        return {side: read(getattr(layer, f"{side}_projection")) for side in SIDES}
    ends = np.cumsum(list(layer.widths.values()))[:-1]
    parts = zip(*(np.split(weight, ends, axis=-1) for weight in read(layer.qkv_projection)), strict=True)
    return {**dict(zip(layer.widths, map(list, parts), strict=True)), "output": read(layer.output_projection)}


def to_keras(layer: AttentionLayer, **kwargs: Any) -> keras.Layer:
    """Makes an attention layer of Keras that computes the same as a built layer of this package.

    Masks have the same effect, except for a query without any allowed key: there its weights are equal. LoRA is added
    to the matrices. `return_weights` is lost: a call of Keras' layers has the argument `return_attention_scores`.

    Args:
        layer: a built `SelfAttention`, `CrossAttention`, `MultiHeadAttention` or `AdditiveAttention`.
        **kwargs: arguments of the Keras layer, such as `name`. By default, `dtype` and `trainable` are the layer's.

    Returns:
        A new, built Keras layer with the same weights. With projections, a `keras.layers.MultiHeadAttention`, or a
        `GroupQueryAttention` if there are fewer heads of keys and values. Without them, a `keras.layers.Attention` for
        the score `dot` and an `AdditiveAttention` for the score `additive`.

    Raises:
        ValueError: the layer is of another class or is not built, or an argument has no counterpart in Keras; the
            message names it.

    Example:
        >>> layer = SelfAttention(num_heads=2, key_dim=4)
        >>> context, _ = layer(keras.ops.ones((1, 3, 8)))
        >>> type(to_keras(layer)).__name__
        'MultiHeadAttention'
    """
    if type(layer) not in (SelfAttention, CrossAttention, MultiHeadAttention, AdditiveAttention):
        raise ValueError(f"layer: expected an attention layer of this package, found {type(layer).__name__}")
    if not layer.built:
        raise ValueError("layer: expected a built layer, found one without weights; call it once first")
    spec = layer.spec
    _expect(mechanism=(_class_name(spec.mechanism), ("softmax",)), positions=(spec.positions, (None,)))
    _expect(projection=(spec.projection, (spec.value_projection,)))
    kwargs = {"dtype": layer.dtype_policy, "trainable": layer.trainable, **kwargs}
    return _to_multi_head(layer, kwargs) if spec.projection else _to_unprojected(layer, kwargs)


def _to_multi_head(layer: AttentionLayer, kwargs: Mapping[str, Any]) -> keras.Layer:
    """Converts a layer with projections."""
    spec = layer.spec
    _expect(score=(_class_name(spec.score), ("scaled_dot",)))
    arrays = _get_projections(layer)
    query, key, value = (arrays[side][0].shape[0] for side in ("query", "key", "value"))
    shared: Any = {name: getattr(spec, name) for name in SHARED_OPTIONS}
    if spec.key_value_heads == spec.num_heads:
        # Keras' default, the width of the queries, is not stated.
        output_shape = None if spec.output_dim == query else spec.output_dim
        converted = keras.layers.MultiHeadAttention(
            spec.num_heads, spec.key_dim, spec.value_dim, output_shape=output_shape, **shared, **kwargs
        )
    else:
        _expect(value_dim=(spec.value_dim, (spec.key_dim,)), output_dim=(spec.output_dim, (query,)))
        converted = keras.layers.GroupQueryAttention(
            spec.key_dim, spec.num_heads, spec.key_value_heads, **shared, **kwargs
        )
    converted.build((None, None, query), (None, None, value), (None, None, key))
    for side, weights in arrays.items():
        dense = getattr(converted, f"_{side}_dense")
        dense.set_weights([array.reshape(weight.shape) for array, weight in zip(weights, dense.weights, strict=True)])
    return converted


def _to_unprojected(layer: AttentionLayer, kwargs: Mapping[str, Any]) -> keras.Layer:
    """Converts a layer without projections."""
    spec = layer.spec
    score = _class_name(spec.score)
    _expect(num_heads=(spec.num_heads, (1,)), score=(score, ("dot", "additive")))
    shapes = [(None, None, width) for width in (spec.key_dim, spec.value_dim, spec.key_dim)]
    if score == "dot":
        converted = keras.layers.Attention(dropout=spec.dropout, seed=spec.seed, **kwargs)
        converted.build(shapes)
    else:
        _expect(use_bias=(layer.score.use_bias, (False,)))
        converted = keras.layers.AdditiveAttention(dropout=spec.dropout, seed=spec.seed, **kwargs)
        converted.build(shapes)
        converted.scale.assign(layer.score.v[0])
    return converted


def _class_name(description: Any) -> str:
    """Returns the name of a score or a mechanism in an `AttentionSpec`."""
    return description if isinstance(description, str) else description["class_name"]


def _expect(**arguments: tuple[Any, Iterable[Any]]) -> None:
    """Raises a `ValueError` for an argument that Keras lacks; each has its value and the values that Keras has."""
    for name, (value, allowed) in arguments.items():
        if value not in allowed:
            expected = " or ".join(map(repr, allowed))
            raise ValueError(f"{name}: Keras' layers have {expected} only, found {value!r:.60}")
