"""Self-attention: queries, keys and values are all made from the same sequence."""

from itertools import accumulate
from typing import Any

import keras
from keras import ops

from ..layers.constructor_config import build_once
from ..layers.keras_layers import dynamic_shape, reshape
from ..layers.tap import tap
from .masks import join_masks
from .multi_head import AttentionLayer
from .relative_positions import NO_DISTANCES, Distances, make_distances, rotate


@keras.saving.register_keras_serializable(package="qkv")
class SelfAttention(AttentionLayer):
    """Multi-head attention of a sequence to itself (Vaswani et al. 2017, section 3.2.3).

    `context = concat_h(softmax(score((x + p) W_q, (x + p) W_k)) x W_v) W_o`, with optional positions p. Positions
    affect the weights only: they are not added to the values (Carion et al. 2020, DETR, appendix A.1). The argument
    `positions` of the constructor chooses rotary positions or ALiBi for the positions 0, 1, ..., T - 1. `Distances` in
    a call give them for any positions, such as those after a cache; see `attention.relative_positions`. One matrix
    product computes all projections of x.

    Args:
        num_heads, ...: the fields of `AttentionSpec`.
        **kwargs: the arguments of `keras.Layer`.

    Call arguments:
        x: `(B, T, D)`.
        attention_mask: bool, broadcastable to `(B, H, T, T)`, or None. In an encoder it hides padding, in a decoder
            padding and later positions.
        positions: p, `(T, D)` or `(B, T, D)`, or None.
        distances: the `Distances` of the T positions; by default those of the constructor's `positions`.
        x_mask, or mask: bool `(B, T)`; if not given, the mask that Keras keeps with x. A position may attend only to
            positions that this mask and `attention_mask` allow. It becomes the mask of the context.
        training: whether dropout is applied.

    Returns:
        `(context, weights)`: `(B, T, output_dim)` and float32 `(B, H, T, T)`; with `return_weights=False`, the context
        alone.

    Raises:
        ValueError: the arguments of the constructor are wrong, see `AttentionSpec`; `key_value_heads` is not H although
            the mechanism makes queries and keys by one projection; x is not projected and not as wide as all heads
            together; a mask has a wrong number of axes; there is a bias, and the mechanism cannot add it; or a call
            has `distances` although the constructor has `positions`.
        TypeError: an argument of a call other than x is given by position.

    Example:
        >>> context, weights = SelfAttention(num_heads=2, key_dim=4)(keras.random.normal((1, 3, 8)))
        >>> context.shape, weights.shape
        (TensorShape([1, 3, 8]), TensorShape([1, 2, 3, 3]))
    """

    inputs_by_position = ("x",)

    def _make_projections(self) -> None:
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
        self.widths = widths  # of the parts of the matrix, in order
        self.qkv_projection: Any = self._dense(sum(widths.values()), "qkv") if widths else None

    def build(self, input_shape: Any) -> None:
        width = input_shape[-1]
        if self.qkv_projection is not None:
            build_once(self.qkv_projection, input_shape)
        if not self.spec.projection:
            self._check_width("x", width, self.key_dim)
        if not self.spec.value_projection:
            self._check_width("x", width, self.value_dim)
        self._build_mechanism()

    def project(
        self, x: Any, positions: Any = None, distances: Distances = NO_DISTANCES, x_mask: Any = None
    ) -> tuple[Any, Any, Any]:
        """Projects x to queries, keys and values, and splits them into heads. A decoder caches keys and values.

        Args:
            x: `(B, T, D)`.
            positions, distances: see the class.
            x_mask: bool `(B, T)`, or None. Positions where it is False are set to zero.

        Returns:
            `(query, key, value)` for `attend`: `(B, H, T, K)`, `(B, key_value_heads, T, K)` and
            `(B, key_value_heads, T, V)`.
        """
        if x_mask is not None:
            # LSH hashes all positions before it masks any, so its buckets must not depend on padding.
            x = ops.where(ops.expand_dims(ops.cast(x_mask, "bool"), -1), x, ops.zeros_like(x))
        if positions is None and len(self.widths) == 3 and len(set(self.widths.values())) == 1:
            query, key, value = self._project_at_once(x)
        else:
            x_with_positions = x if positions is None else x + positions
            parts = {"key": x_with_positions, "value": x}
            if self.qkv_projection is not None:
                parts |= self._project_parts(x, positions)
            query, key, value = parts.get("query", parts["key"]), parts["key"], parts["value"]
            query, key = self.split_heads(query), self.split_heads(key, self.key_value_heads)
            value = self.split_heads(value, self.key_value_heads)
        if distances.rotation is not None and self.mechanism.uses_score:
            query, key = rotate(query, distances.rotation), rotate(key, distances.rotation)
        return tap(self, "queries", query), tap(self, "keys", key), tap(self, "values", value)

    def _project_at_once(self, x):
        """Projects x `(B, T, D)` to queries, keys and values `(B, H, T, K)`, if all three have one width.

        The axes are moved once, so that the three are parts of one array and need no copy.
        """
        projected = self.qkv_projection(x)
        batch, length, width = dynamic_shape(projected)
        split = reshape(projected, (batch, length, 3, self.num_heads, width // (3 * self.num_heads)))
        return tuple(ops.unstack(ops.transpose(split, (2, 0, 3, 1, 4)), 3))

    def _project_parts(self, x, positions):
        """Projects x `(B, T, D)` by one matrix and splits the result.

        Returns:
            A dict with the keys of `widths`, some of "query", "key" and "value"; each value is `(B, T, width)`.
        """
        widths = list(self.widths.values())
        ends = list(accumulate(widths[:-1]))
        projected = self.qkv_projection(x)
        if len(widths) == 1:
            arrays = [projected]
        elif len(set(widths)) == 1:  # then a single operation splits
            arrays = ops.split(projected, len(widths), axis=-1)
        else:
            arrays = ops.split(projected, ends, axis=-1)
        parts = dict(zip(self.widths, arrays, strict=True))
        if self.spec.projection and positions is not None:
            # The projection is linear, so the projected positions are added to the projected x.
            names = [name for name in self.widths if name != "value"]
            kernel = ops.cast(self.qkv_projection.kernel, x.dtype)[:, : sum(self.widths[name] for name in names)]
            projected_positions = ops.matmul(positions, kernel)
            shifts = [projected_positions] if len(names) == 1 else ops.split(projected_positions, ends[:1], axis=-1)
            for name, shift in zip(names, shifts, strict=True):
                parts[name] = parts[name] + shift
        return parts

    def call(
        self,
        x: Any,
        *,
        attention_mask: Any = None,
        positions: Any = None,
        distances: Distances = NO_DISTANCES,
        x_mask: Any = None,
        mask: Any = None,
        training: bool | None = None,
    ) -> Any:
        x_mask = mask if x_mask is None else x_mask  # Keras calls the mask of an only input `mask`
        distances = Distances(*distances)  # a list in a functional model that Keras has loaded
        if self.spec.positions is not None:
            if distances.rotation is not None or distances.bias is not None:
                raise ValueError(f"distances: the layer has positions={self.spec.positions!r} already; use one of both")
            token_positions = ops.arange(dynamic_shape(x)[1], dtype="int32")
            distances = make_distances(
                self.spec.positions, token_positions, token_positions, self.key_dim, self.num_heads
            )
        attention_mask = join_masks(attention_mask, x_mask)
        query, key, value = self.project(x, positions, distances, x_mask)
        return self._outputs(*self.attend(query, key, value, attention_mask, training, distances.bias))

    def compute_output_shape(self, input_shape: Any) -> Any:
        return self._output_shapes(input_shape, input_shape)
