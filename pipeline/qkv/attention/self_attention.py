"""Self-attention: queries, keys and values are all made from the same sequence."""

from itertools import accumulate
from typing import Any

import keras
from keras import ops

from ..layers.constructor_config import build_once
from ..layers.tap import tap
from .masks import join_masks
from .multi_head import AttentionLayer
from .relative_positions import NO_DISTANCES, Distances, rotate


@keras.saving.register_keras_serializable(package="qkv")
class SelfAttention(AttentionLayer):
    """Multi-head attention of a sequence to itself (Vaswani et al. 2017, section 3.2.3).

    `context = concat_h(softmax(score((x + p) W_q, (x + p) W_k)) x W_v) W_o`, with optional positions p, which help to
    find a place but would blur what is read there (Carion et al. 2020, DETR, appendix A.1). Positions that act on
    scores by distance are given as `Distances`, see `relative_positions`. The projections of x are one matrix product.

    Args:
        num_heads, ...: the fields of `AttentionSpec`.

    Call arguments:
        x: `(B, T, D)`.
        attention_mask: bool, broadcastable to `(B, H, T, T)`: padding in an encoder, padding and the future in a
            decoder.
        positions: `(T, D)` or `(B, T, D)`, added to x for queries and keys, or None.
        distances: the `Distances` of the T positions.
        x_mask, or mask: bool `(B, T)`; if not given, the mask that Keras keeps of x. It is joined with
            `attention_mask`, and becomes the mask of the context.
        training: whether dropout is applied.

    Returns:
        `(context, weights)`: `(B, T, output_dim)` and float32 `(B, H, T, T)`.

    Raises:
        ValueError: `projection` is False and the input is not as wide as all heads together.

    Example:
        >>> context, weights = SelfAttention(num_heads=2, key_dim=4)(keras.random.normal((1, 3, 8)))
        >>> context.shape, weights.shape
        (TensorShape([1, 3, 8]), TensorShape([1, 2, 3, 3]))
    """

    inputs_by_position = ("x",)

    def _make_projections(self):
        spec = self.spec
        shared = self.mechanism.shares_query_and_key
        if shared and self.key_value_heads != self.num_heads:
            raise ValueError(
                f"key_value_heads: {type(self.mechanism).__name__} makes queries and keys by one projection, so both "
                f"have {self.num_heads} heads, found {self.key_value_heads}"
            )
        widths = {}
        if spec.projection and not shared:
            widths["query"] = self.num_heads * self.key_dim
        if spec.projection:
            widths["key"] = self.key_value_heads * self.key_dim
        if spec.value_projection:
            widths["value"] = self.key_value_heads * self.value_dim
        self.widths = widths  # of the parts of one matrix, in its order
        self.qkv_projection: Any = self._dense(sum(widths.values()), "qkv") if widths else None

    def build(self, input_shape):
        width = input_shape[-1]
        if self.qkv_projection is not None:
            build_once(self.qkv_projection, input_shape)
        if not self.spec.projection:
            self._check_width("x", width, self.key_dim)
        if not self.spec.value_projection:
            self._check_width("x", width, self.value_dim)
        self._build_mechanism()

    def project(self, x, positions=None, distances=NO_DISTANCES, x_mask=None):
        """Projects x `(B, T, D)` and splits it into heads, for `attend`: query `(B, H, T, K)`, key and value `(B,
        key_value_heads, T, K or V)`. A decoder caches keys and values."""
        if x_mask is not None:
            # LSH puts all positions into buckets before it masks any, so none may depend on what stands under padding.
            x = ops.where(ops.expand_dims(ops.cast(x_mask, "bool"), -1), x, ops.zeros_like(x))
        placed = x if positions is None else x + positions
        parts = {"key": placed, "value": x} | ({} if self.qkv_projection is None else self._split(x, positions))
        query, key, value = parts.get("query", parts["key"]), parts["key"], parts["value"]
        query, key = self.split_heads(query), self.split_heads(key, self.key_value_heads)
        if distances.rotation is not None and self.mechanism.uses_score:
            query, key = rotate(query, distances.rotation), rotate(key, distances.rotation)
        value = self.split_heads(value, self.key_value_heads)
        return tap(self, "queries", query), tap(self, "keys", key), tap(self, "values", value)

    def _split(self, x, positions):
        """Returns the projected parts by their names, as wide as all their heads together."""
        widths = list(self.widths.values())
        places = list(accumulate(widths[:-1]))
        equal = len(set(widths)) == 1  # then a single operation splits
        projected = self.qkv_projection(x)
        parts = ops.split(projected, len(widths) if equal else places, axis=-1) if places else [projected]
        found = dict(zip(self.widths, parts, strict=True))
        if self.spec.projection and positions is not None:
            # The projection is linear, so the projected positions are added to the projected x.
            placed = [name for name in self.widths if name != "value"]
            kernel = ops.cast(self.qkv_projection.kernel, x.dtype)[:, : sum(self.widths[name] for name in placed)]
            shifts = ops.matmul(positions, kernel)
            shifts = [shifts] if len(placed) == 1 else ops.split(shifts, places[:1], axis=-1)
            found |= {name: found[name] + shift for name, shift in zip(placed, shifts, strict=True)}
        return found

    def call(
        self, x, *, attention_mask=None, positions=None, distances=NO_DISTANCES, x_mask=None, mask=None, training=None
    ):
        x_mask = mask if x_mask is None else x_mask  # Keras calls the mask of an only input `mask`
        distances = Distances(*distances)  # a list in a functional model that Keras has loaded
        attention_mask = join_masks(attention_mask, x_mask)
        query, key, value = self.project(x, positions, distances, x_mask)
        return self.attend(query, key, value, attention_mask, training, distances.bias)

    def compute_output_shape(self, input_shape):
        return self._output_shapes(input_shape, input_shape)
