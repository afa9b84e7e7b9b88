"""The inside of a Transformer by name: what its layers compute, read, or replaced by what they computed elsewhere.

Names, for layer i of `encoder` (`self`) and of `decoder` (`self`, `cross`); globs such as `decoder.*.cross.scores` too:

- `encoder.embedding`, `decoder.embedding`: `(T, D)`, tokens and positions, where the residual stream begins
- `decoder.0.cross.queries`, `.keys`, `.values`: `(H, T, K)`, `(H, S, K)`, `(H, S, V)`
- `decoder.0.cross.scores`, `.weights`: `(H, T, S)`, before the softmax and after it; forbidden keys have scores too
- `decoder.0.cross.head.2`: `(T, D)`, what one head adds to the output, which is the sum of the heads and a bias
- `decoder.0.cross.output`, `decoder.0.feed_forward.output`: `(T, D)`, what the sublayer adds to the residual stream
- `decoder.0.cross.residual`, `decoder.0.feed_forward.residual`: `(T, D)`, the residual stream after the sublayer
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any

import keras
import numpy as np
from keras import ops

from ..attention.masks import masked_softmax
from ..attention.mechanisms import Softmax
from ..errors import InputError
from ..nearest_key import did_you_mean

Pair = tuple[Sequence[int], Sequence[int]]
Visit = Callable[[str, Any], Any]


def read_inside(model: keras.Model, pair: Pair, names: Sequence[str] = ("*",)) -> tuple[dict[str, Any], np.ndarray]:
    """Reads one sentence pair in a teacher-forced pass without dropout.

    Args:
        model: a Transformer whose attention layers have the mechanism `softmax`.
        pair: ids of the source, up to EOS, and of the target, from BOS on; no padding.
        names: which activations, see the module.

    Returns:
        the arrays by name, and the logits `(T, V)`.

    Raises:
        InputError: another architecture or mechanism, or a name that fits nothing.
    """
    found: dict[str, Any] = {}

    def keep(name: str, value: Any) -> Any:
        found[name] = keras.ops.convert_to_numpy(value)[0]
        return value

    logits = _pass(model, pair, keep)
    chosen = _choose(names, list(found))
    return {name: value for name, value in found.items() if name in chosen}, logits


def patch_inside(model: keras.Model, clean: Pair, corrupted: Pair, names: Sequence[str]) -> np.ndarray:
    """Reads `corrupted` with the named activations of `clean` in the place of its own; returns the logits `(T, V)`.

    Args: those of `read_inside`. A pair patched with itself gives its own logits bit for bit.

    Raises:
        InputError: as `read_inside`, or an activation has another shape in the other pair.
    """
    given, _ = read_inside(model, clean, names)
    return _pass(model, corrupted, lambda name, value: _replaced(given, name, value))


def _replaced(given: Mapping[str, Any], name: str, value: Any) -> Any:
    if name not in given:
        return value
    if given[name].shape != tuple(value.shape[1:]):
        raise InputError(
            f"{name}: expected clean and corrupted sentences of the same number of tokens, found shapes "
            f"{given[name].shape} and {tuple(value.shape[1:])}; change words for others of as many tokens"
        )
    return ops.convert_to_tensor(given[name][None])


def _choose(names: Sequence[str], known: list[str]) -> set[str]:
    chosen = set()
    for name in names:
        fitting = {one for one in known if fnmatchcase(one, name)}
        if not fitting:
            raise InputError(f"{name}: expected a name or glob of an activation, found none{did_you_mean(name, known)}")
        chosen |= fitting
    return chosen


def _pass(model: keras.Model, pair: Pair, visit: Visit) -> np.ndarray:
    source, target = (np.array([ids], "int32") for ids in pair)
    with _tapped(model, visit):
        output = model.decode(target, model.encode(source, training=False), training=False)
    return keras.ops.convert_to_numpy(output.logits)[0]


@contextmanager
def _tapped(model: keras.Model, visit: Visit) -> Iterator[None]:
    """Calls `visit` with every activation within the block, and goes on with what it returns."""
    taps = list(_taps(model, visit))
    for layer, method, function in taps:
        setattr(layer, method, function)  # on the object, so that its class stays as it is
    try:
        yield
    finally:
        for layer, method, _ in taps:
            delattr(layer, method)


def _taps(model: keras.Model, visit: Visit) -> Iterator[tuple[Any, str, Callable]]:
    sides = {side: getattr(model, f"{side}_blocks", ()) for side in ("encoder", "decoder")}
    if not all(sides.values()):
        raise InputError(f"expected a Transformer with encoder and decoder, found {type(model).__name__}")
    for place, side in (("source", "encoder"), ("target", "decoder")):
        layer = getattr(model, f"{place}_positions")
        yield layer, "call", _tap_embedding(layer.call, f"{side}.embedding", visit)
        for number, block in enumerate(sides[side]):
            for part in ("self_attention", "cross_attention")[: 1 + (side == "decoder")]:
                name = f"{side}.{number}.{part.removesuffix('_attention')}"
                attention = getattr(block, part)
                if type(attention.mechanism) is not Softmax:
                    kind = type(attention.mechanism).__name__
                    raise InputError(f"{name}: expected the mechanism softmax, found {kind}")
                yield attention, "attend", _tap_attention(attention, name, visit)
                yield _tap_residual(getattr(block, f"{part}_residual"), name, visit)
            yield _tap_residual(block.feed_forward_residual, f"{side}.{number}.feed_forward", visit)


def _tap_embedding(call: Callable, name: str, visit: Visit) -> Callable:
    return lambda *inputs, **arguments: visit(name, call(*inputs, **arguments))


def _tap_residual(residual: Any, name: str, visit: Visit) -> tuple[Any, str, Callable]:
    usual = residual.leave

    def leave(x, y, training=None):
        return visit(f"{name}.residual", usual(x, visit(f"{name}.output", y), training=training))

    return residual, "leave", leave


def _tap_attention(attention: Any, name: str, visit: Visit) -> Callable:
    def attend(query, key, value, mask=None, training=None):
        query, key, value = (
            visit(f"{name}.{part}", x) for part, x in (("queries", query), ("keys", key), ("values", value))
        )
        scores = visit(f"{name}.scores", attention.mechanism.score(query, key))
        weights = visit(f"{name}.weights", masked_softmax(scores, mask))
        context = ops.matmul(ops.cast(weights, value.dtype), value)
        parts = _parts(attention, context)
        # A part replaced by itself adds exact zeros.
        visited = [visit(f"{name}.head.{head}", parts[:, head]) for head in range(attention.num_heads)]
        change = ops.sum(ops.stack(visited, axis=1) - parts, axis=1)
        return attention.merge_heads(context) + change, weights

    return attend


def _parts(attention: Any, context: Any) -> Any:
    """Returns what each head adds to the output: `(B, H, T, V) -> (B, H, T, D)`."""
    shape = (attention.num_heads, attention.value_dim, attention.output_dim)
    projection = attention.output_projection
    kernel = ops.eye(shape[0] * shape[1]) if projection is None else projection.kernel
    return ops.einsum("bhtv,hvd->bhtd", context, ops.reshape(kernel, shape))
