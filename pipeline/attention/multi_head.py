"""What every multi-head attention layer does once it has queries, keys and values, and the layer that has all three.

Letters: B batch, H heads, T target (query) positions, S source (key) positions, K key size, V value size of a head.
"""

import keras
from keras import ops

from ..layers.dense import Dense
from .mechanisms import make_mechanism


class AttentionCore(keras.Layer):
    """A mechanism over heads, and the output projection; subclasses say where queries, keys and values come from.

    Args:
        num_heads: H.
        key_dim: K, the size of one head's queries and keys.
        value_dim: V, the size of one head's values; K if not given.
        output_dim: the width of the context; H * V if not given.
        score: the name of a score function, see `pipeline.attention.scores`.
        mechanism: the name of a mechanism, see `pipeline.attention.mechanisms`: what is done with the scores.
        mechanism_settings: its further arguments, as a dict.
        projection: whether queries and keys pass through learnt matrices. Without, the inputs are cut into heads as
            they are, so their width must be H * K.
        value_projection: whether values and the context do; as `projection` if not given. Without, what comes out is
            made of the values themselves, whose width must be H * V.
        use_bias: whether the projections add a bias.
        dropout: share of the weights set to zero in training, after the softmax. The returned weights are those
            before dropout.
    """

    def __init__(
        self,
        num_heads,
        key_dim,
        value_dim=None,
        output_dim=None,
        score="scaled_dot",
        mechanism="softmax",
        mechanism_settings=None,
        projection=True,
        value_projection=None,
        use_bias=True,
        dropout=0.0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.value_dim = value_dim or key_dim
        self.output_dim = output_dim or num_heads * self.value_dim
        self.projection = projection
        self.value_projection_wanted = projection if value_projection is None else value_projection
        self.use_bias = use_bias
        self.mechanism_name = mechanism
        self.mechanism_settings = dict(mechanism_settings or {})
        if not self.value_projection_wanted and self.output_dim != num_heads * self.value_dim:
            raise ValueError(
                f"output_dim: without value projection the context is num_heads * value_dim = "
                f"{num_heads * self.value_dim} wide, found {output_dim}"
            )
        self.mechanism = make_mechanism(
            mechanism,
            score=score,
            dropout=dropout,
            **self.mechanism_settings,
            name="mechanism",
            dtype=self.dtype_policy,
        )
        self.output_projection = self._dense(self.output_dim, "output") if self.value_projection_wanted else None

    @property
    def score(self):
        """The score function, or None where the mechanism has no use for one."""
        return self.mechanism.score

    def _dense(self, units, name):
        return Dense(units, use_bias=self.use_bias, name=name, dtype=self.dtype_policy)

    def _build_core(self, key_size=None):
        heads = (None, self.num_heads, None)
        self.mechanism.build((*heads, self.key_dim), (*heads, key_size or self.key_dim), (*heads, self.value_dim))
        if self.output_projection is not None:
            self.output_projection.build((None, None, self.num_heads * self.value_dim))

    def _check_width(self, side, width, size):
        """A side that is not projected is cut into heads as it is."""
        if width != self.num_heads * size:
            raise ValueError(
                f"{side}: without projection the width must be num_heads * size = {self.num_heads * size}, "
                f"found {width}"
            )

    def split_heads(self, x):
        """Cuts the last axis into heads: `(B, T, H * K) -> (B, H, T, K)`."""
        batch, length, width = ops.shape(x)
        return ops.swapaxes(ops.reshape(x, (batch, length, self.num_heads, width // self.num_heads)), 1, 2)

    def attend(self, query, key, value, mask=None, training=None):
        """Attends with queries, keys and values that are projected and cut into heads.

        Args:
            query: `(B, H, T, K)`.
            key: `(B, H, S, K)`.
            value: `(B, H, S, V)`.
            mask: bool, broadcastable to `(B, H, T, S)`, True where attention may go; None for everywhere.
            training: whether dropout is applied.

        Returns:
            `(context, weights)`: `(B, T, output_dim)` and float32 `(B, H, T, S)`.
        """
        context, weights = self.mechanism(query, key, value, mask=mask, training=training)
        return self.merge_heads(context), weights

    def merge_heads(self, context):
        """Puts the heads' contexts side by side and projects them: `(B, H, T, V) -> (B, T, output_dim)`."""
        context = ops.swapaxes(context, 1, 2)
        batch, length = ops.shape(context)[:2]
        context = ops.reshape(context, (batch, length, self.num_heads * self.value_dim))
        return context if self.output_projection is None else self.output_projection(context)

    def compute_mask(self, *arguments):
        """No mask leaves: they are passed explicitly, and Keras would hang this one on the context."""

    def _output_shapes(self, query_shape, key_shape):
        batch, length = query_shape[:2]
        return (batch, length, self.output_dim), (batch, self.num_heads, length, key_shape[1])

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "output_dim": self.output_dim,
            "score": self.mechanism.score_name,
            "mechanism": self.mechanism_name,
            "mechanism_settings": self.mechanism_settings,
            "projection": self.projection,
            "value_projection": self.value_projection_wanted,
            "use_bias": self.use_bias,
            "dropout": self.mechanism.dropout.rate,
        }


@keras.saving.register_keras_serializable(package="qkv")
class MultiHeadAttention(AttentionCore):
    """Multi-head attention (Vaswani et al. 2017, section 3.2.2) with any score function.

    `context = concat_h(softmax(score(x W_q, y W_k)) y' W_v) W_o` for queries x, keys y and values y'.

    Args: see `AttentionCore`.

    Call arguments:
        query: `(B, T, Dq)`.
        key: `(B, S, Dk)`.
        value: `(B, S, Dv)`.
        mask: bool, broadcastable to `(B, H, T, S)`; see `pipeline.attention.masks`.
        training: whether dropout is applied.

    Returns:
        `(context, weights)`, always both: `(B, T, output_dim)`, and float32 `(B, H, T, S)` after the softmax and before
        dropout. A query that may attend to nothing gets zero weights.

    Raises:
        ValueError: without projection, when a width is not what the heads need.

    Example:
        >>> layer = MultiHeadAttention(num_heads=2, key_dim=4)
        >>> query, memory = keras.random.normal((1, 3, 8)), keras.random.normal((1, 5, 6))
        >>> context, weights = layer(query, memory, memory)
        >>> context.shape, weights.shape
        (TensorShape([1, 3, 8]), TensorShape([1, 2, 3, 5]))
    """

    def __init__(self, num_heads, key_dim, **kwargs):
        super().__init__(num_heads, key_dim, **kwargs)
        if self.mechanism.shares_query_and_key:
            raise ValueError(
                f"mechanism: {self.mechanism_name} makes queries and keys by one projection, so it is for "
                "self-attention only; take softmax or blockwise"
            )
        if self.projection:
            self.query_projection = self._dense(num_heads * key_dim, "query")
            self.key_projection = self._dense(num_heads * key_dim, "key")
        if self.value_projection_wanted:
            self.value_projection = self._dense(num_heads * self.value_dim, "value")

    def build(self, query_shape, key_shape, value_shape):
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
        self._build_core(key_size)

    def project_query(self, query):
        """`(B, T, Dq) -> (B, H, T, K)`."""
        return self.split_heads(self.query_projection(query) if self.projection else query)

    def project_memory(self, key, value):
        """Projects what does not depend on the query, so that it can be done once for many queries.

        Args:
            key: `(B, S, Dk)`.
            value: `(B, S, Dv)`.

        Returns:
            `(B, H, S, K)` and `(B, H, S, V)`, for `attend`.
        """
        key = self.key_projection(key) if self.projection else key
        return self.split_heads(key), self._project_value(value)

    def value_norms(self, value):
        """How long a vector each value adds to the context, in each head, if all weight is on it.

        Times the weight, it is what the value moves in fact: a head that has nothing to say may well put its weight on
        a value that it makes short, such as that of EOS (Kobayashi et al. 2020, section 3).

        Args:
            value: `(B, S, Dv)`.

        Returns:
            float32 `(B, H, S)`.
        """
        value = ops.cast(self._project_value(value), "float32")
        if self.output_projection is None:
            return ops.norm(value, axis=-1)
        kernel = ops.cast(self.output_projection.kernel, "float32")
        kernel = ops.reshape(kernel, (self.num_heads, self.value_dim, self.output_dim))
        products = ops.matmul(kernel, ops.swapaxes(kernel, -1, -2))  # so that no (B, H, S, output_dim) is made
        # Einsum, because it repeats nothing: see `TanhSum.compare` for what a product would do with a single head.
        return ops.sqrt(ops.maximum(ops.sum(ops.einsum("bhsk,hkl->bhsl", value, products) * value, axis=-1), 0.0))

    def _project_value(self, value):
        return self.split_heads(self.value_projection(value) if self.value_projection_wanted else value)

    def call(self, query, key, value, mask=None, training=None):
        key, value = self.project_memory(key, value)
        return self.attend(self.project_query(query), key, value, mask, training)

    def compute_output_shape(self, query_shape, key_shape, value_shape):
        return self._output_shapes(query_shape, key_shape)
