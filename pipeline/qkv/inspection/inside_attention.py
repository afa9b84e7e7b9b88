"""The inside of an attention layer: scores, weights and heads, of any mechanism.

Letters: B batch, H heads, T queries, S keys, V value size of a head, D width of the output.
"""

from collections.abc import Callable
from typing import Any

from keras import ops

from ..attention.mechanisms.softmax import PairwiseMechanism
from ..attention.multi_head import AttentionLayer
from ..layers.tap import Heads
from .visits import Visit


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
