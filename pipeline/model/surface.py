"""The surface that every architecture offers, so that search, inspection and evaluation need not know which one it is.

`encode(source_ids, training) -> Memory`
`decode(target_ids, memory, cache, training) -> DecoderOutput`
`start_cache(memory, length) -> cache`, for `decode` step by step
`call(source_ids, target_ids) = decode(target_ids, encode(source_ids)).logits`

Letters: B batch, H heads, T target positions, S source positions, D model width, V vocabulary.
"""

from typing import Any, NamedTuple


class Memory(NamedTuple):
    """What the encoder leaves for the decoder: states `(B, S, D)`, the mask of real tokens bool `(B, 1, 1, S)`, and the
    encoder's self-attention, a tuple over layers of float32 `(B, H, S, S)`."""

    states: Any
    mask: Any
    self_attention: tuple


class DecoderOutput(NamedTuple):
    """What the decoder says of each target position. Row t is computed from input token t to predict output token t.

    - states: `(B, T, D)`, before the output projection.
    - logits: float32 `(B, T, V)`.
    - cross: tuple over layers of float32 `(B, H, T, S)`.
    - decoder_self: tuple over layers of float32 `(B, H, T, T)`, or `(B, H, T, L)` with a cache for L positions.
    - cache: what the next step needs, or None.

    In a graph, what nobody reads is never computed: training reads no logits, search no attention.
    """

    states: Any
    logits: Any
    cross: tuple
    decoder_self: tuple
    cache: Any
