"""The inside of a model by name: what its layers compute, read, or replaced by what they computed elsewhere.

Each architecture names its layers itself, see `TranslationModel.layer_names`, and docs/learn/inside.md lists all names.
Names may be globs, such as `decoder.*.cross.scores`. A value that a loop computes position by position is read as
often; its parts are rows of one array, along the last axis but one.

Letters: B batch, H heads, T queries, S keys, V value size of a head, D width of the output.
"""

import fnmatch
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from keras import ops

from ...attention.multi_head import AttentionLayer
from ...errors import InputError, did_you_mean
from ...layers.tap import Visit, tapped
from ...model.interface import TranslationModel

Pair = tuple[Sequence[int], Sequence[int]]


def read_inside(model: TranslationModel, pair: Pair, names: Sequence[str] = ("*",)) -> tuple[dict[str, Any], Any]:
    """Reads one sentence pair in a teacher-forced pass without dropout.

    Args:
        model: of any architecture that names what is inside it.
        pair: ids of the source, up to EOS, and of the target, from BOS on; no padding.
        names: which values.

    Returns:
        the arrays by name, and the logits `(T, V)`.

    Raises:
        InputError: the architecture names nothing, or a name fits nothing.
    """
    parts: dict[str, list[np.ndarray]] = {}

    def keep(name, value):
        parts.setdefault(name, []).append(ops.convert_to_numpy(value)[0])
        return value

    logits = _pass(model, pair, keep)
    arrays = {name: np.concatenate(found, axis=-2) for name, found in parts.items()}
    chosen = _choose(names, list(arrays))
    return {name: value for name, value in arrays.items() if name in chosen}, logits


def patch_inside(model: TranslationModel, clean: Pair, corrupted: Pair, names: Sequence[str]) -> np.ndarray:
    """Reads `corrupted` with the named values of `clean` in the place of its own; returns the logits `(T, V)`.

    Args: as in `read_inside`. A pair patched with itself gives its own logits bit for bit.

    Raises:
        InputError: as `read_inside`, or a value has another shape in the other pair.
    """
    return put_inside(model, corrupted, read_inside(model, clean, names)[0])


def put_inside(model: TranslationModel, pair: Pair, given: Mapping[str, np.ndarray]) -> np.ndarray:
    """Reads a pair with these arrays of `read_inside` in the place of its own; returns the logits `(T, V)`.

    Raises:
        InputError: a value has another shape in this pair.
    """
    rows: Counter[str] = Counter()
    unfitting = set()

    def put(name, value):
        if name not in given:
            return value
        first = rows[name]
        rows[name] += value.shape[-2]
        other = given[name][..., first : rows[name], :]
        if other.shape == tuple(value.shape[1:]):
            return ops.convert_to_tensor(other[None])
        unfitting.add(name)  # refused below: TensorFlow complains of loops that an error ends
        return value

    logits = _pass(model, pair, put)
    for name, array in given.items():
        if name in unfitting or rows[name] != array.shape[-2]:  # the other sentence has more or fewer tokens
            raise InputError(
                f"{name}: the clean and the corrupted sentence must have the same number of tokens; the value of the "
                f"clean one has the shape {array.shape}. Choose replacement words with the same number of tokens"
            )
    return logits


def check_index(name: str, given: int, size: int) -> None:
    """Raises an `InputError` unless `given` is an index from 0 to `size - 1`."""
    if not isinstance(given, Integral) or isinstance(given, bool) or not 0 <= given < size:
        raise InputError(f"{name}: expected a number from 0 to {size - 1}, found {given!r:.60}")


def _choose(names: Sequence[str], known: list[str]) -> set[str]:
    chosen = set()
    for name in names:
        fitting = set(fnmatch.filter(known, name))
        if not fitting:
            hint = did_you_mean(name, known)
            if name.endswith("scores") and fnmatch.filter(known, name.removesuffix("scores") + "weights"):
                hint = ": the mechanism there does not score each pair"
            raise InputError(f"{name:.60}: expected a name or glob of a value inside the model, found none{hint}")
        chosen |= fitting
    return chosen


Use = Callable[[str, Any], Any]
"""Takes a value `(1, ..., T, size)` by its name, and returns the one with which the model goes on."""


def _pass(model: TranslationModel, pair: Pair, use: Use) -> np.ndarray:
    source, target = (np.array([ids], "int32") for ids in pair)
    with tapped(_by_name(model, "encoder", use)):
        memory = model.encode(source, training=False)
    with tapped(_by_name(model, "decoder", use)):
        output = model.decode(target, memory, training=False)
    return ops.convert_to_numpy(output.logits)[0]


def _by_name(model: TranslationModel, side: str, use: Use) -> Visit:
    """Makes the visit that calls `use` with every value that `encode` or `decode` computes."""
    names = model.layer_names(side)
    if not names:
        raise InputError(f"{type(model).__name__} does not name what is inside it: it needs a method `layer_names`")
    names |= {layer.mechanism: name for layer, name in names.items() if isinstance(layer, AttentionLayer)}

    def visit(layer, part, value, **seen):
        if layer not in names or part == "heads":
            return value
        if part in ("scores", "weights"):  # of each query and key, by the names of the keys
            columns = _columns(names[layer], value).items()
            return ops.concatenate([use(f"{group}.{part}", value[..., keys]) for group, keys in columns], axis=-1)
        if isinstance(layer, AttentionLayer) and part == "output":
            value = _use_heads(layer, names[layer], value, use, **seen)
        name = f"{names[layer]}.{part}".removeprefix(".")
        return use(name, value) if len(value.shape) > 2 else use(name, ops.expand_dims(value, 1))[:, 0]

    return visit


def _columns(name: str, weights: Any) -> dict[str, slice]:
    """Returns the keys of each name. Self-attention of more keys than queries reads the source before the target."""
    queries, keys = weights.shape[-2:]
    if not name.endswith(".self") or keys == queries:
        return {name: slice(0, keys)}
    return {name.removesuffix("self") + "cross": slice(0, keys - queries), name: slice(keys - queries, keys)}


def _use_heads(layer: AttentionLayer, name: str, output: Any, use: Use, weights: Any, values: Any) -> Any:
    """Uses what each head adds to the output."""
    weights = ops.cast(weights, values.dtype)
    for group, keys in _columns(name, weights).items():
        parts = head_parts(layer, ops.matmul(weights[..., keys], values[:, :, keys]))
        used = [use(f"{group}.head.{head}", parts[:, head]) for head in range(layer.num_heads)]
        output = output + ops.sum(ops.stack(used, axis=1) - parts, axis=1)  # exact zeros where nothing is replaced
    return output


def head_parts(layer: AttentionLayer, context: Any) -> Any:
    """Computes what each head adds to the output, which is their sum and the bias: `(B, H, T, V) -> (B, H, T, D)`."""
    shape = (layer.num_heads, layer.value_dim, layer.output_dim)
    projection = layer.output_projection
    kernel = ops.eye(shape[0] * shape[1]) if projection is None else projection.kernel
    return ops.einsum("bhtv,hvd->bhtd", context, ops.reshape(kernel, shape))
