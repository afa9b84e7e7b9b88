"""Masks: boolean arrays, made from ids, that say who may attend to whom, and the softmax that obeys them.

Letters: B batch, H heads, T target (query) positions, S source (key) positions. True means "may be attended to".
"""

from keras import ops

LOWEST = -1e30  # finite, so that a row of nothing but masked scores still has finite gradients


def padding_mask(ids, padding_id=0):
    """Lets every query attend to the real tokens of its own sentence.

    Args:
        ids: int `(B, S)`.
        padding_id: the id with which short sentences are padded.

    Returns:
        bool `(B, 1, 1, S)`, ready to broadcast over heads and queries.
    """
    return ops.expand_dims(ops.not_equal(ids, padding_id), (1, 2))


def causal_mask(query_length, key_length, offset=0):
    """Lets a query attend to keys at its own position and before.

    Args:
        query_length: T.
        key_length: S.
        offset: position of the first query among the keys; a cached decoding step at position t passes t.

    Returns:
        bool `(1, 1, T, S)`.
    """
    queries = ops.expand_dims(ops.arange(query_length, dtype="int32") + offset, 1)
    keys = ops.expand_dims(ops.arange(key_length, dtype="int32"), 0)
    return ops.expand_dims(keys <= queries, (0, 1))


def join_masks(mask, *key_masks):
    """Joins a mask with the masks that Keras keeps of the sequences from which keys and values are made.

    Args:
        mask: bool, four axes, broadcastable to `(B, H, T, S)`, or None.
        *key_masks: bool `(B, S)` each, True at real positions, or None.

    Returns:
        bool, broadcastable to `(B, H, T, S)`: True where all of them are. If there is no other mask, `mask` itself.

    Raises:
        ValueError: a mask has other axes: to Keras two axes mean (B, S), and to others (T, S).
    """
    if mask is not None and len(mask.shape) != 4:
        raise ValueError(f"attention_mask: expected 4 axes, as in (B, H, T, S), found shape {tuple(mask.shape)}")
    for key_mask in key_masks:
        if key_mask is not None:
            check_keras_mask(key_mask)
            key_mask = ops.expand_dims(ops.cast(key_mask, "bool"), (1, 2))
            mask = key_mask if mask is None else ops.logical_and(mask, key_mask)
    return mask


def check_keras_mask(mask):
    """Refuses what is no mask of a sequence, `(B, T)`, as Keras keeps it."""
    if len(mask.shape) != 2:
        raise ValueError(f"mask: expected 2 axes, (B, T), found shape {tuple(mask.shape)}; attention_mask has 4")


def masked_softmax(scores, mask=None):
    """Turns scores into weights that sum to one over the keys that may be attended to.

    The softmax is computed in float32 whatever the type of the scores, because half precision cannot tell a masked
    score from a very low one. A query that may attend to nothing gets weights of exactly zero, so its context is zero,
    not a mean of padding.

    Args:
        scores: `(B, H, T, S)`, any float type.
        mask: bool, with as many axes as `scores` and broadcastable to them, or None for no mask.

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
        # Keras warns of a softmax over one key, which is right for a sentence of one token.
        if scores.shape[-1] == 1:
            weights = ops.ones_like(scores)
        else:
            weights = ops.softmax(scores if mask is None else ops.where(mask, scores, LOWEST))
        if mask is not None:
            weights = ops.where(mask, weights, 0.0)

        def gradient(*received, upstream=None):  # zero wherever the weight is zero, so it needs no mask
            upstream = received[-1] if upstream is None else upstream  # PyTorch's backend passes it by name
            return weights * (upstream - ops.sum(weights * upstream, -1, keepdims=True))

        return weights, gradient

    return softmax(scores)
