"""The residual stream of a Transformer as the sum of what embedding, positions and sublayers have added to it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from keras import ops

Parts = dict[str, np.ndarray]
"""What a residual stream is the sum of, by name, `(T, D)` each."""

SIDES = {"encoder": "source", "decoder": "target"}
SUBLAYERS = {"encoder": ("self", "feed_forward"), "decoder": ("self", "cross", "feed_forward")}


def read_stream(model: Any, side: str, ids: Any, found: Mapping[str, np.ndarray], layer: str) -> Parts:
    """Returns the input of the queries of a layer and, in self-attention, of its keys; for "" that of the keys of
    cross-attention, from the encoder's end."""
    embedding, positions = (getattr(model, f"{SIDES[side]}_{part}") for part in ("embedding", "positions"))
    tokens = embedding(np.array([ids], "int32"))
    parts = {"token": _numpy(tokens)[0], "position": _numpy(positions(ops.zeros_like(tokens)))[0]}
    for number, block in enumerate(getattr(model, f"{side}_blocks")):
        for kind in SUBLAYERS[side]:
            name = f"{side}.{number}.{kind}"
            sublayer, residual = _sublayer(block, kind)
            if name == layer:
                parts = _normalize(parts, residual.normalization, name) if residual.norm == "pre" else parts
                return _add_positions(parts, positions)
            parts |= _read_output(name, sublayer, found)
            parts = _normalize(parts, residual.normalization, name) if residual.norm == "post" else parts
    if model.final_norms:
        parts = _normalize(parts, model.final_norms[0], side)
    return _add_positions(parts, positions)


def _sublayer(block: Any, kind: str) -> tuple[Any, Any]:
    name = kind if kind == "feed_forward" else f"{kind}_attention"
    return getattr(block, name), getattr(block, f"{name}_residual")


def _read_output(name: str, sublayer: Any, found: Mapping[str, np.ndarray]) -> Parts:
    """Returns what a sublayer has added to the stream: its heads or its network, and the bias of its last matrix."""
    is_network = name.endswith("feed_forward")
    last = sublayer.outer if is_network else sublayer.output_projection
    if is_network:
        parts = {name: found[f"{name}.output"] - _numpy(last.bias)}
    else:
        parts = {part: found[part] for part in (f"{name}.head.{head}" for head in range(sublayer.num_heads))}
    if last is not None and last.use_bias:
        like = next(iter(parts.values()))
        parts[f"{name}.bias"] = np.broadcast_to(_numpy(last.bias), like.shape)
    return parts


def _normalize(parts: Parts, norm: Any, name: str) -> Parts:
    """Returns the parts of the normalised stream, the last of them the normalisation's bias."""
    whole = np.sum(list(parts.values()), axis=0)
    deviation = np.sqrt(whole.var(axis=-1, keepdims=True) + norm.epsilon)
    scale = _numpy(norm.gamma) / deviation
    normal = {part: (x - x.mean(axis=-1, keepdims=True)) * scale for part, x in parts.items()}
    return {**normal, f"{name}.norm": np.broadcast_to(_numpy(norm.beta), scale.shape)}


def _add_positions(parts: Parts, positions: Any) -> Parts:
    """Adds the positions that attention layers add to queries and keys."""
    added = positions.on_queries_and_keys(len(parts["position"]))
    return parts if added is None else {**parts, "position": parts["position"] + _numpy(added)}


def _numpy(x: Any) -> np.ndarray:
    return ops.convert_to_numpy(x)
