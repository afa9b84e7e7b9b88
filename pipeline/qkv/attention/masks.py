"""Boolean attention masks, made from ids and segments, and the softmax that applies them.

A packed row holds several sentence pairs, one after the other. Its *segments* number the pairs from 1: the segment of a
token is the number of its pair, and 0 for padding. Source and target of a pair have the same segment.

Letters: B batch, H heads, T target (query) positions, S source (key) positions. True means that a query may attend to a
key.
"""

from typing import Any

from keras import ops

LOWEST = -1e30
"""The score of masked pairs. It is finite, so that a row with only masked scores still has finite gradients."""


def padding_mask(ids: Any, padding_id: int = 0) -> Any:
    """Returns the mask by which every query may attend to the tokens of its sentence, but not to padding.

    Args:
        ids: int `(B, S)`.
        padding_id: the id of padding.

    Returns:
        bool `(B, 1, 1, S)`, which broadcasts over heads and queries.
    """
    return ops.expand_dims(ops.not_equal(ids, padding_id), (1, 2))


def causal_mask(query_length: Any, key_length: Any, offset: Any = 0) -> Any:
    """Returns the mask by which a query may attend to its own position and to earlier ones.

    Args:
        query_length: T.
        key_length: S.
        offset: the position of the first query among the keys. A cached decoding step at position t passes t.

    Returns:
        bool `(1, 1, T, S)`.
    """
    queries = ops.expand_dims(ops.arange(query_length, dtype="int32") + offset, 1)
    keys = ops.expand_dims(ops.arange(key_length, dtype="int32"), 0)
    return ops.expand_dims(keys <= queries, (0, 1))


def segment_mask(query_segments: Any, key_segments: Any) -> Any:
    """Returns the mask by which a query may attend to the tokens of its own sentence pair, in packed rows.

    Args:
        query_segments: int `(B, T)`.
        key_segments: int `(B, S)`.

    Returns:
        bool `(B, 1, T, S)`. Padding attends to nothing, and nothing attends to padding.
    """
    queries, keys = ops.expand_dims(query_segments, 2), ops.expand_dims(key_segments, 1)
    return ops.expand_dims(ops.logical_and(ops.equal(queries, keys), ops.not_equal(keys, 0)), 1)


def segment_offsets(segments: Any) -> Any:
    """Returns the numbers that turn positions in a packed row into positions in a sentence pair.

    Added to 0, 1, ..., T - 1, they give the number of earlier tokens of the same segment. Padding gets position 0.

    Args:
        segments: int `(B, T)`.

    Returns:
        int32 `(B, T)`, for the argument `offset` of `model.embedding.PositionalEmbedding`.
    """
    length = segments.shape[1] if segments.shape[1] is not None else ops.shape(segments)[1]
    seen = ops.logical_and(segment_mask(segments, segments), causal_mask(length, length))
    positions = ops.maximum(ops.sum(ops.cast(seen, "int32"), axis=-1)[:, 0] - 1, 0)
    return positions - ops.arange(length, dtype="int32")


def join_masks(mask: Any, *key_masks: Any) -> Any:
    """Joins an attention mask with the masks that Keras keeps with the sequences of keys and values.

    Args:
        mask: bool with four axes, broadcastable to `(B, H, T, S)`, or None.
        *key_masks: bool `(B, S)` each, True at real positions, or None.

    Returns:
        bool, broadcastable to `(B, H, T, S)`: True where all masks are True. If all `key_masks` are None, `mask`
        itself.

    Raises:
        ValueError: `mask` has not four axes, or a key mask has not two. A mask with two axes would be ambiguous:
            `(B, S)` or `(T, S)`.
    """
    if mask is not None and len(mask.shape) != 4:
        raise ValueError(f"attention_mask: expected 4 axes, as in (B, H, T, S), found shape {tuple(mask.shape)}")
    for key_mask in key_masks:
        if key_mask is not None:
            check_keras_mask(key_mask)
            key_mask = ops.expand_dims(ops.cast(key_mask, "bool"), (1, 2))
            mask = key_mask if mask is None else ops.logical_and(mask, key_mask)
    return mask


def check_keras_mask(mask: Any) -> None:
    """Raises a `ValueError` unless a Keras mask has two axes, `(B, T)`."""
    if len(mask.shape) != 2:
        raise ValueError(f"mask: expected 2 axes, (B, T), found shape {tuple(mask.shape)}; attention_mask has 4")


def masked_softmax(scores: Any, mask: Any = None) -> Any:
    """Turns scores into weights that sum to one over the keys that may be attended to.

    The softmax is computed in float32 whatever the type of the scores, because half precision cannot tell a masked
    score from a very low one. The weights of a query without any allowed key are exactly zero, so its context is zero
    and not a mean of padding.

    Args:
        scores: `(B, H, T, S)`, any float type.
        mask: bool with as many axes as `scores` and broadcastable to them, or None for no mask.

    Returns:
        float32 `(B, H, T, S)`.

    Raises:
        ValueError: the mask has fewer axes; a mask `(B, S)` would silently be read as `(T, S)`.
    """
    if mask is not None and len(mask.shape) != len(scores.shape):
        raise ValueError(f"mask: expected {len(scores.shape)} axes, as scores have, found shape {tuple(mask.shape)}")
    scores = ops.cast(scores, "float32")

    @ops.custom_gradient
    def softmax(scores):
        # Keras would warn of a softmax over one key, although a sentence may have one token.
        if scores.shape[-1] == 1:
            weights = ops.ones_like(scores)
        else:
            weights = ops.softmax(scores if mask is None else ops.where(mask, scores, LOWEST))
        if mask is not None:
            weights = ops.where(mask, weights, 0.0)

        def gradient(*arguments, upstream=None):  # zero wherever the weight is zero, so it needs no mask
            upstream = arguments[-1] if upstream is None else upstream  # PyTorch's backend passes it by name
            return weights * (upstream - ops.sum(weights * upstream, -1, keepdims=True))

        return weights, gradient

    return softmax(scores)
