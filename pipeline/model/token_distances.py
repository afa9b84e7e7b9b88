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


def token_distances(kind, attention, query_positions, key_positions) -> Distances:
    """Computes what the self-attention layers of a stack take.

    Args:
        kind: the model's positions; for all but those of `config.names.RELATIVE_POSITIONS` there is nothing.
        attention: one of the stack's `SelfAttention` layers, which have the same heads.
        query_positions: int `(T,)` or `(B, T)`, where the queries stand.
        key_positions: int `(S,)` or `(B, S)`, where the keys stand: those of a cache, then those of the queries.
    """
    if kind == "rotary":
        return Distances(rotation=rotation(query_positions, attention.key_dim))
    if kind == "alibi":
        return Distances(bias=alibi_bias(query_positions, key_positions, attention.num_heads))
    return Distances()
