"""Self-attention: queries, keys and values are all made from the same sequence."""

from itertools import accumulate

import keras
from keras import ops
from keras.src.backend import get_keras_mask

from .masks import join_masks
from .multi_head import AttentionLayer
from .relative_positions import rotate


@keras.saving.register_keras_serializable(package="qkv")
class SelfAttention(AttentionLayer):
    """Multi-head attention of a sequence to itself (Vaswani et al. 2017, section 3.2.3).

    `context = concat_h(softmax(score((x + p) W_q, (x + p) W_k)) x W_v) W_o`, with optional positions p, which help to
    find a place but would blur what is read there (Carion et al. 2020, DETR, equation 7). Positions that act on scores
    by distance are those of `rotation` and `alibi_bias`, see `relative_positions`. The projections of x are one matrix
    product.

    Args:
        num_heads: H.
        key_dim: K, the size of one head's queries and keys.
        value_dim: V, the size of one head's values; K if not given.
        output_dim: the width of the context; H * V if not given.
        score: how queries and keys are compared: a name, or a layer such as `Cosine(initial_scale=5.0)`; see
            `qkv.attention.scores`.
        mechanism: what is done with the scores: a name, or a layer such as `Linformer(projected_length=16)`; see
            `qkv.attention.mechanisms`. It uses the `score` and `dropout` given here.
        projection: whether queries and keys pass through learnt matrices. If False, the inputs are split into heads as
            they are, so their width must be H * K.
        value_projection: whether values and the context pass through learnt matrices; `projection` if not given. If
            False, the context is made of the values themselves, whose width must be H * V.
        use_bias: whether the projections add a bias.
        dropout: share of the weights set to zero in training, after the softmax. The returned weights are those before
            dropout.
        key_value_heads: number of heads of keys and values, a divisor of H: each serves H / key_value_heads heads of
            queries (Ainslie et al. 2023), and 1 serves all (Shazeer 2019). H if not given.

    Call arguments:
        x: `(B, T, D)`.
        mask: bool, broadcastable to `(B, H, T, T)`: padding in an encoder, padding and the future in a decoder.
        positions: `(T, D)` or `(B, T, D)`, added to x for queries and keys, or None.
        rotation: the `Rotation` by which queries and keys are turned, or None.
        bias: what is added to the scores, broadcastable to `(B, H, T, T)`, such as that of `alibi_bias`, or None.
        x_mask: bool `(B, T)`; if not given, the mask that Keras keeps of x. It is joined with `mask`, and becomes the
            mask of the context.
        training: whether dropout is applied.

    Returns:
        `(context, weights)`: `(B, T, output_dim)` and float32 `(B, H, T, T)`.

    Raises:
        ValueError: `projection` is False and the width of the input is not that of all heads together.

    Example:
        >>> context, weights = SelfAttention(num_heads=2, key_dim=4)(keras.random.normal((1, 3, 8)))
        >>> context.shape, weights.shape
        (TensorShape([1, 3, 8]), TensorShape([1, 2, 3, 3]))
    """

    inputs_by_position = ("x",)

    def __init__(
        self,
        num_heads,
        key_dim,
        value_dim=None,
        output_dim=None,
        score="scaled_dot",
        mechanism="softmax",
        projection=True,
        value_projection=None,
        use_bias=True,
        dropout=0.0,
        key_value_heads=None,
        **kwargs,
    ):
        super().__init__(
            num_heads,
            key_dim,
            value_dim,
            output_dim,
            score,
            mechanism,
            projection,
            value_projection,
            use_bias,
            dropout,
            key_value_heads,
            **kwargs,
        )
        keys = 1 if self.mechanism.shares_query_and_key else 2
        if keys == 1 and self.key_value_heads != num_heads:
            raise ValueError(
                f"key_value_heads: {type(self.mechanism).__name__} makes queries and keys by one projection, so both "
                f"have {num_heads} heads, found {key_value_heads}"
            )
        self.widths = [num_heads * key_dim, self.key_value_heads * key_dim][:keys] * self.projection
        self.widths += [self.key_value_heads * self.value_dim] * self.value_projection_wanted
        self.qkv_projection = self._dense(sum(self.widths), "qkv") if self.widths else None

    def _check_mask(self, mask, x, **arguments):
        # A functional model passes the mask that Keras keeps of x to the layer as an argument.
        if len(mask.shape) != 2 or get_keras_mask(x) is None:
            super()._check_mask(mask)

    def build(self, input_shape):
        width = input_shape[-1]
        if self.qkv_projection is not None:
            self.qkv_projection.build(input_shape)
        if not self.projection:
            self._check_width("x", width, self.key_dim)
        if not self.value_projection_wanted:
            self._check_width("x", width, self.value_dim)
        self._build_mechanism()

    def project(self, x, positions=None, rotation=None):
        """Projects x `(B, T, D)` and splits it into heads, for `attend`: query `(B, H, T, K)`, key and value `(B,
        key_value_heads, T, K or V)`. A decoder caches keys and values."""
        placed = x if positions is None else x + positions
        parts: list = []
        if self.qkv_projection is not None:
            projected, places = self.qkv_projection(x), list(accumulate(self.widths[:-1]))
            equal = len(set(self.widths)) == 1  # then a single operation splits
            parts = ops.split(projected, len(self.widths) if equal else places, axis=-1) if places else [projected]
            if self.projection and positions is not None:
                # The projection is linear: that of the positions is added to that of x.
                keys = len(parts) - self.value_projection_wanted
                kernel = ops.cast(self.qkv_projection.kernel, x.dtype)[:, : sum(self.widths[:keys])]
                shifts = ops.matmul(positions, kernel)
                shifts = [shifts] if keys == 1 else ops.split(shifts, places[:1], axis=-1)
                parts[:keys] = [part + shift for part, shift in zip(parts, shifts, strict=False)]
        value = parts.pop() if self.value_projection_wanted else x
        query, key = (parts[0], parts[-1]) if self.projection else (placed, placed)
        query, key = self.split_heads(query), self.split_heads(key, self.key_value_heads)
        if rotation is not None and self.mechanism.uses_score:
            query, key = rotate(query, rotation), rotate(key, rotation)
        return query, key, self.split_heads(value, self.key_value_heads)

    def call(self, x, *, mask=None, positions=None, rotation=None, bias=None, x_mask=None, training=None):
        if mask is not None and len(mask.shape) == 2:  # x is the only input, so Keras passes its mask as `mask`
            mask, x_mask = None, mask
        if x_mask is not None:
            mask = join_masks(mask, x_mask)
            # LSH puts all positions into buckets before it masks any, so none may depend on what stands under padding.
            x = ops.where(ops.expand_dims(ops.cast(x_mask, "bool"), -1), x, ops.zeros_like(x))
        query, key, value = self.project(x, positions, rotation)
        return self.attend(query, key, value, mask, training, bias)

    def compute_output_shape(self, input_shape):
        return self._output_shapes(input_shape, input_shape)
