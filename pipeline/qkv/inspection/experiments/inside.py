"""The inside of a model by name: what its layers compute, read, or replaced by what they computed elsewhere.

Each architecture names its values itself, see `TranslationModel.places`, and docs/learn/inside.md lists them. Names may
be globs, such as `decoder.*.cross.scores`. A value that a loop computes position by position is visited as often; its
parts are rows of one array, along the last axis but one.

Letters: B batch, H heads, T queries, S keys, V value size of a head, D width of the output.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any, Protocol

import keras
import numpy as np
from keras import ops

from ...attention.mechanisms.softmax import PairwiseMechanism
from ...attention.multi_head import AttentionLayer
from ...errors import InputError, did_you_mean
from ...layers.tap import Heads, Place, Returned
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
    read = Read()
    logits = _pass(model, pair, read)
    arrays = read.arrays()
    chosen = _choose(names, list(arrays), read.lacking)
    return {name: value for name, value in arrays.items() if name in chosen}, logits


def patch_inside(model: TranslationModel, clean: Pair, corrupted: Pair, names: Sequence[str]) -> np.ndarray:
    """Reads `corrupted` with the named values of `clean` in the place of its own; returns the logits `(T, V)`.

    Args: those of `read_inside`. A pair patched with itself gives its own logits bit for bit.

    Raises:
        InputError: as `read_inside`, or a value has another shape in the other pair.
    """
    given, _ = read_inside(model, clean, names)
    replace = Replace(given)
    logits = _pass(model, corrupted, replace)
    replace.check_all_used()
    return logits


def _choose(names: Sequence[str], known: list[str], lacking: Mapping[str, str]) -> set[str]:
    chosen = set()
    for name in names:
        fitting = {one for one in known if fnmatchcase(one, name)}
        if not fitting:
            reason = next((f": {why}" for one, why in lacking.items() if fnmatchcase(one, name)), "")
            hint = reason or did_you_mean(name, known)
            raise InputError(f"{name}: expected a name or glob of a value inside the model, found none{hint}")
        chosen |= fitting
    return chosen


class Visit(Protocol):
    """Takes a value `(1, ..., T, size)` by its name, and returns the one with which the model goes on."""

    def __call__(self, name: str, value: Any) -> Any: ...

    def lack(self, name: str, reason: str) -> None:
        """Hears that a value which other models have does not exist in this one."""


def _pass(model: TranslationModel, pair: Pair, visit: Visit) -> np.ndarray:
    source, target = (np.array([ids], "int32") for ids in pair)
    of_source, of_target = (list(model.places(side)) for side in ("encoder", "decoder"))
    if not of_source or not of_target:
        raise InputError(
            f"{type(model).__name__} does not name what is inside it; expected an architecture that has the method "
            "`places` (pipeline/qkv/model/interface.py)"
        )
    with _visited(of_source, visit):
        memory = model.encode(source, training=False)
    with _visited(of_target, visit):
        output = model.decode(target, memory, training=False)
    return keras.ops.convert_to_numpy(output.logits)[0]


@contextmanager
def _visited(places: Sequence[Place], visit: Visit) -> Iterator[None]:
    """Calls `visit` with every value within the block, and goes on with what it returns."""
    taps = [_tap(place, visit) for place in places]
    for layer, method, function in taps:
        setattr(layer, method, function)  # on the object, so that its class stays as it is
    try:
        yield
    finally:
        for layer, method, _ in taps:
            delattr(layer, method)


def _tap(place: Place, visit: Visit) -> tuple[Any, str, Callable]:
    if isinstance(place, Heads):
        return place.layer, "attend", attend_visited(place, visit)
    usual = getattr(place.layer, place.method)
    return place.layer, place.method, lambda *inputs, **others: _visit_returned(place, usual(*inputs, **others), visit)


def _visit_returned(place: Returned, value: Any, visit: Visit) -> Any:
    if isinstance(place.name, str):
        return _visit_rows(place.name, value, visit)
    names = (*place.name, *[None] * len(value))[: len(value)]
    return tuple(one if name is None else _visit_rows(name, one, visit) for name, one in zip(names, value, strict=True))


def _visit_rows(name: str, value: Any, visit: Visit) -> Any:
    if len(value.shape) > 2:
        return visit(name, value)
    return visit(name, ops.expand_dims(value, 1))[:, 0]


def attend_visited(place: Heads, visit: Visit) -> Callable:
    """Returns an `attend` that visits what it computes. What a visit leaves as it is keeps its bits."""
    layer = place.layer

    def attend(query, key, value, mask=None, training=None, bias=None):
        groups = _groups(place, query.shape[2], key.shape[2])
        if place.before is not None:
            key, value = (
                _visit_before(f"{place.before}.{part}", x, groups[place.before], visit)
                for part, x in (("keys", key), ("values", value))
            )
        context, own = layer.mix(query, key, value, mask, training, bias)
        key, value = layer.repeat_heads(key), layer.repeat_heads(value)
        weights = _visit_scores(layer.mechanism, groups, visit, (query, key, bias), mask, own)
        weights = _visit_columns(groups, "weights", weights, visit)
        kept = ops.cast(weights, value.dtype)
        context = _where_changed(weights, own, ops.matmul(kept, value), context)
        output = layer.merge_heads(context)
        for group, columns in groups.items():
            parts = head_parts(layer, ops.matmul(kept[..., columns], value[:, :, columns]))
            # A part replaced by itself adds exact zeros.
            visited = [visit(f"{group}.head.{head}", parts[:, head]) for head in range(layer.num_heads)]
            output = output + ops.sum(ops.stack(visited, axis=1) - parts, axis=1)
        return visit(f"{place.name}.output", output), weights

    return attend


def head_parts(layer: AttentionLayer, context: Any) -> Any:
    """Computes what each head adds to the output, which is their sum and the bias: `(B, H, T, V) -> (B, H, T, D)`."""
    shape = (layer.num_heads, layer.value_dim, layer.output_dim)
    projection = layer.output_projection
    kernel = ops.eye(shape[0] * shape[1]) if projection is None else projection.kernel
    return ops.einsum("bhtv,hvd->bhtd", context, ops.reshape(kernel, shape))


def _groups(place: Heads, queries: int, keys: int) -> dict[str, slice]:
    """Returns the keys of each name."""
    if place.before is None:
        return {place.name: slice(0, keys)}
    return {place.before: slice(0, keys - queries), place.name: slice(keys - queries, keys)}


def _visit_before(name: str, x: Any, columns: slice, visit: Visit) -> Any:
    return ops.concatenate([visit(name, x[:, :, columns]), x[:, :, columns.stop :]], axis=2)


def _visit_columns(groups: dict[str, slice], part: str, x: Any, visit: Visit) -> Any:
    visited = [visit(f"{name}.{part}", x[..., columns]) for name, columns in groups.items()]
    return visited[0] if len(visited) == 1 else ops.concatenate(visited, axis=-1)


def _visit_scores(mechanism: Any, groups: dict[str, slice], visit: Visit, compared, mask, weights) -> Any:
    """Returns the weights, and those of other scores in the rows where the visit has replaced some."""
    if not isinstance(mechanism, PairwiseMechanism):
        for name in groups:
            visit.lack(f"{name}.scores", f"the mechanism {type(mechanism).__name__} does not score each pair")
        return weights
    scores = mechanism.compare(*compared)
    changed = _visit_columns(groups, "scores", scores, visit)
    return _where_changed(changed, scores, mechanism.weigh(changed, mask), weights)


def _where_changed(changed: Any, before: Any, new: Any, own: Any) -> Any:
    """Returns `new` in the rows in which something has changed, and `own` in the others."""
    return ops.where(ops.any(ops.not_equal(changed, before), axis=-1, keepdims=True), new, own)


class Read:
    """Reads all values.

    Attributes:
        lacking: for each value that there could be and is not, the reason.
    """

    def __init__(self) -> None:
        self.lacking: dict[str, str] = {}
        self._parts: dict[str, list[np.ndarray]] = {}

    def __call__(self, name: str, value: Any) -> Any:
        self._parts.setdefault(name, []).append(keras.ops.convert_to_numpy(value)[0])
        return value

    def lack(self, name: str, reason: str) -> None:
        self.lacking[name] = reason

    def arrays(self) -> dict[str, np.ndarray]:
        """Returns the arrays by name, without the batch axis."""
        return {name: np.concatenate(parts, axis=-2) for name, parts in self._parts.items()}


class Replace:
    """Replaces values.

    Args:
        given: arrays of `Read.arrays`.
    """

    def __init__(self, given: Mapping[str, np.ndarray]) -> None:
        self.given = given
        self.rows: Counter[str] = Counter()

    def __call__(self, name: str, value: Any) -> Any:
        if name not in self.given:
            return value
        first, count = self.rows[name], value.shape[-2]
        other = self.given[name][..., first : first + count, :]
        self.rows[name] += count
        if other.shape != tuple(value.shape[1:]):
            raise self._refusal(name)
        return ops.convert_to_tensor(other[None])

    def lack(self, name: str, reason: str) -> None:
        """A name that is lacking was refused when the values were read."""

    def check_all_used(self) -> None:
        """Checks that no rows are left over.

        Raises:
            InputError: the other sentence has fewer tokens.
        """
        for name, array in self.given.items():
            if self.rows[name] != array.shape[-2]:
                raise self._refusal(name)

    def _refusal(self, name: str) -> InputError:
        return InputError(
            f"{name}: expected clean and corrupted sentences of the same number of tokens, found others: that of the "
            f"clean one has the shape {self.given[name].shape}; change words for others of as many tokens"
        )
