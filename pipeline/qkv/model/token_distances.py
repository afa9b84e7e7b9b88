"""Positions that self-attention sees by distance, for the models: computed once for all layers of a stack."""

from typing import Any, NamedTuple

from ..attention.relative_positions import Rotation, alibi_bias, rotation


class Distances(NamedTuple):
    """What self-attention takes to see distances; None for each that the kind of positions does not need.

    - rotation: of queries and keys.
    - bias: of the scores.
    """

    rotation: Rotation | None = None
    bias: Any = None


def token_distances(kind, block, query_positions, key_positions=None) -> Distances:
    """Computes what the self-attention layers of a stack take.

    Args:
        kind: the model's positions; for all but those of `config.names.model.RELATIVE_POSITIONS` there is nothing.
        block: one of the stack's blocks, whose self-attention has the heads of all.
        query_positions: int `(T,)` or `(B, T)`, where the queries stand.
        key_positions: int `(S,)` or `(B, S)`, where the keys stand: those of a cache, then those of the queries; the
            queries' if not given.
    """
    if kind == "rotary":
        return Distances(rotation=rotation(query_positions, block.self_attention.key_dim))
    if kind == "alibi":
        keys = query_positions if key_positions is None else key_positions
        return Distances(bias=alibi_bias(query_positions, keys, block.self_attention.num_heads))
    return Distances()
