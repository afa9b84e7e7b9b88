"""Multi-head attention with queries, keys and values of their own.

Letters: B batch, H heads, T target (query) positions, S source (key) positions, K key size, V value size of a head.
"""

import keras
from keras import ops

from .attention_layer import AttentionLayer
from .from_keras import read_keras_attention
from .masks import join_masks


@keras.saving.register_keras_serializable(package="qkv")
class MultiHeadAttention(AttentionLayer):
    """Multi-head attention (Vaswani et al. 2017, section 3.2.2) with any score function.

    `context = concat_h(softmax(score(x W_q, y W_k)) y' W_v) W_o` for queries x, keys y and values y'.

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
        query: `(B, T, Dq)`, by position or by name. All other arguments are given by name, because Keras' attention
            layers take the value before the key.
        key: `(B, S, Dk)`.
        value: `(B, S, Dv)`.
        mask: bool, broadcastable to `(B, H, T, S)`, True where attention may go; see `qkv.attention.masks`.
        query_mask: bool `(B, T)`; if not given, the mask that Keras keeps of the query. It becomes the mask of the
            context.
        key_mask, value_mask: bool `(B, S)`; if not given, the masks that Keras keeps of key and value. They are joined
            with `mask`.
        training: whether dropout is applied.

    Returns:
        `(context, weights)`, always both: `(B, T, output_dim)`, and float32 `(B, H, T, S)` after the softmax and before
        dropout. A query that may attend to nothing gets zero weights.

    Raises:
        ValueError: a side is not projected, and its width is not that of all heads together.

    Example:
        >>> layer = MultiHeadAttention(num_heads=2, key_dim=4)
        >>> query, memory = keras.random.normal((1, 3, 8)), keras.random.normal((1, 5, 6))
        >>> context, weights = layer(query, key=memory, value=memory)
        >>> context.shape, weights.shape
        (TensorShape([1, 3, 8]), TensorShape([1, 2, 3, 5]))
    """

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
        if self.mechanism.shares_query_and_key:
            raise ValueError(
                f"mechanism: {type(self.mechanism).__name__} makes queries and keys by one projection, so it is for "
                "self-attention only; use softmax or blockwise"
            )
        if self.projection:
            self.query_projection = self._dense(num_heads * key_dim, "query")
            self.key_projection = self._dense(self.key_value_heads * key_dim, "key")
        if self.value_projection_wanted:
            self.value_projection = self._dense(self.key_value_heads * self.value_dim, "value")

    @classmethod
    def from_keras(cls, layer, **kwargs):
        """Makes an attention layer that computes the same as a built `keras.layers.MultiHeadAttention`.

        Args:
            layer: the layer of Keras. Masks work alike, but a query that may attend to nothing gets zeros here.
            **kwargs: arguments of `keras.Layer`, such as `name`; the dtype is that of the layer if not given.

        Raises:
            ValueError: the layer is not built, or uses a feature that the layers here do not have.
        """
        arguments, widths, weights = read_keras_attention(layer)
        ours = cls(**arguments, **{"dtype": layer.dtype_policy, **kwargs})
        ours._build_for(**widths)
        for side, arrays in weights.items():
            getattr(ours, f"{side}_projection").set_weights(arrays)
        return ours

    def _build_for(self, query, key, value):
        """Builds for inputs of these widths."""
        self.build((None, None, query), key_shape=(None, None, key), value_shape=(None, None, value))
        self.built = True

    def build(self, query_shape, *, key_shape, value_shape):
        key_size = self.key_dim
        if self.projection:
            self.query_projection.build(query_shape)
            self.key_projection.build(key_shape)
        else:
            self._check_width("query", query_shape[-1], self.key_dim)
            # Some score functions compare vectors of two sizes.
            if self.mechanism.sizes_may_differ and key_shape[-1] % self.num_heads == 0:
                key_size = key_shape[-1] // self.num_heads
            self._check_width("key", key_shape[-1], key_size)
        if self.value_projection_wanted:
            self.value_projection.build(value_shape)
        else:
            self._check_width("value", value_shape[-1], self.value_dim)
        self._build_mechanism(key_size)

    def project_query(self, query):
        """Projects queries and splits them into heads: `(B, T, Dq) -> (B, H, T, K)`."""
        return self.split_heads(self.query_projection(query) if self.projection else query)

    def project_memory(self, key, value):
        """Projects what does not depend on the query, so that it can be done once for many queries.

        Args:
            key: `(B, S, Dk)`.
            value: `(B, S, Dv)`.

        Returns:
            `(B, key_value_heads, S, K)` and `(B, key_value_heads, S, V)`, for `attend`.
        """
        key = self.key_projection(key) if self.projection else key
        return self.split_heads(key, self.key_value_heads), self._project_value(value)

    def value_norms(self, value):
        """Returns the length of the vector that each value adds to the context, in each head, when it has all the
        weight.

        Multiplied by the weight, it measures what a value really contributes: a head with nothing to contribute often
        puts its weight on a value that it makes short, such as that of EOS (Kobayashi et al. 2020, section 3).

        Args:
            value: `(B, S, Dv)`.

        Returns:
            float32 `(B, H, S)`.
        """
        value = ops.cast(self.repeat_heads(self._project_value(value)), "float32")
        if self.output_projection is None:
            return ops.norm(value, axis=-1)
        kernel = ops.cast(self.output_projection.kernel, "float32")
        kernel = ops.reshape(kernel, (self.num_heads, self.value_dim, self.output_dim))
        products = ops.matmul(kernel, ops.swapaxes(kernel, -1, -2))  # avoids an array (B, H, S, output_dim)
        # Einsum, because it repeats nothing: see `TanhSum.compare` for what a product would do with a single head.
        return ops.sqrt(ops.maximum(ops.sum(ops.einsum("bhsk,hkl->bhsl", value, products) * value, axis=-1), 0.0))

    def _project_value(self, value):
        value = self.value_projection(value) if self.value_projection_wanted else value
        return self.split_heads(value, self.key_value_heads)

    def call(self, query, *, key, value, mask=None, query_mask=None, key_mask=None, value_mask=None, training=None):
        mask = join_masks(mask, key_mask, None if value_mask is key_mask else value_mask)
        key, value = self.project_memory(key, value)
        return self.attend(self.project_query(query), key, value, mask, training)

    def compute_output_shape(self, query_shape, *, key_shape, value_shape):
        return self._output_shapes(query_shape, key_shape)
