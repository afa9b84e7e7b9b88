"""Multi-head attention, and the base class of attention layers, wherever their queries, keys and values come from.

Letters: B batch, H heads, T target (query) positions, S source (key) positions, K key size, V value size of a head.
"""

from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

from ..layers.constructor_config import ConstructorConfig, ReplaceableLayers, build_once, seed_of, seeded, to_json_value
from ..layers.keras_layers import Dense, check_sizes, dynamic_shape, rows_of_each
from ..layers.low_rank import LowRank
from ..layers.tap import tap, where_changed
from .by_name import describe_layer, make_layer
from .masks import check_keras_mask, join_masks
from .mechanisms import MECHANISM_CLASSES, describe_mechanism
from .mechanisms.softmax import WeightsInFloat32
from .scores import SCORE_CLASSES


@dataclass(frozen=True)
class AttentionSpec:
    """The arguments of an attention layer, checked and complete: `layer.spec`.

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
        kernel_initializer, bias_initializer: of the projections' matrices and biases, as in
            `keras.layers.MultiHeadAttention`. What `SelfAttention` projects together is one matrix.
        kernel_regularizer: of the projections' matrices, as there; None for none.
        seed: an int, from which all parts get seeds of their own: what draws weights, but for an initializer that has
            a seed, and dropout. None for other numbers in each layer.

    Raises:
        ValueError: a size, a name or a combination of arguments is not possible.
    """

    num_heads: int
    key_dim: int
    value_dim: Any = None  # as the others without a type, filled in if not given
    output_dim: Any = None
    score: Any = "scaled_dot"
    mechanism: Any = "softmax"
    projection: bool = True
    value_projection: Any = None
    use_bias: bool = True
    dropout: float = 0.0
    key_value_heads: Any = None
    kernel_initializer: Any = "glorot_uniform"
    bias_initializer: Any = "zeros"
    kernel_regularizer: Any = None
    seed: Any = None

    def __post_init__(self):
        sizes = ("num_heads", "key_dim", "value_dim", "output_dim", "key_value_heads")
        check_sizes(**{name: getattr(self, name) for name in sizes})
        heads = self.num_heads
        value_dim = self.value_dim or self.key_dim
        width = heads * value_dim
        vars(self).update(
            value_dim=value_dim,
            output_dim=self.output_dim or width,
            mechanism=describe_mechanism(self.mechanism, self.score, self.dropout),
            score=describe_layer("score", SCORE_CLASSES, self.score),
            value_projection=self.projection if self.value_projection is None else self.value_projection,
            key_value_heads=self.key_value_heads or heads,
            kernel_initializer=to_json_value(self.kernel_initializer),
            bias_initializer=to_json_value(self.bias_initializer),
            kernel_regularizer=to_json_value(self.kernel_regularizer),
        )
        projected = self.projection and self.value_projection
        if heads % self.key_value_heads or not (projected or heads == self.key_value_heads):
            expected = f"a divisor of num_heads = {heads}" if projected else f"{heads} without projection"
            raise ValueError(f"key_value_heads: expected {expected}, found {self.key_value_heads}")
        if not self.value_projection and self.output_dim != width:
            raise ValueError(f"output_dim: expected {width} (H * V) without value projection, found {self.output_dim}")


class AttentionLayer(ConstructorConfig, ReplaceableLayers, LowRank, WeightsInFloat32, keras.Layer):
    """A mechanism over heads, and the output projection. Subclasses say where queries, keys and values come from.

    Args:
        num_heads, ...: the fields of `AttentionSpec`, flat.

    Attributes:
        inputs_by_position: the call arguments that may be given by position, the queries first; all others are given by
            name.

    **Masks.** As in `keras.layers.MultiHeadAttention`, `attention_mask` says who may attend to whom; it has four axes.
    Every other mask is one of a sequence, `(B, T)`: Keras passes on what it keeps of the inputs, such as the mask of an
    `Embedding(mask_zero=True)`. The masks of keys and values hide padding, together with `attention_mask`. The mask of
    the queries hides nothing, because the context of a padding query is not used; it becomes the mask of the context,
    so that a loss leaves these rows out.
    """

    inputs_by_position: tuple[str, ...] = ("query",)

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
        kernel_initializer="glorot_uniform",
        bias_initializer="zeros",
        kernel_regularizer=None,
        seed=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        attends = (score, mechanism, projection, value_projection, use_bias, dropout, key_value_heads)
        draws = (kernel_initializer, bias_initializer, kernel_regularizer, seed)
        self.spec = spec = AttentionSpec(num_heads, key_dim, value_dim, output_dim, *attends, *draws)
        self.num_heads, self.key_value_heads = spec.num_heads, spec.key_value_heads
        self.key_dim, self.value_dim, self.output_dim = spec.key_dim, spec.value_dim, spec.output_dim
        own = {"seed": seed_of("mechanism", seed), "name": "mechanism", "dtype": self.dtype_policy}
        self.mechanism = make_layer(MECHANISM_CLASSES, spec.mechanism, score=spec.score, dropout=spec.dropout, **own)
        self.output_projection = self._dense(self.output_dim, "output") if spec.value_projection else None
        self._make_projections()  # last: random seeds are drawn in this order

    def _make_projections(self):
        """Makes the layers that project what the subclass attends with."""
        raise NotImplementedError

    def __call__(self, *inputs, mask=None, **arguments):
        if len(inputs) > len(self.inputs_by_position):
            raise TypeError(
                f"{type(self).__name__}: expected {' and '.join(self.inputs_by_position)} by position, found "
                f"{len(inputs)}; Keras' layers take (query, value, key), so write layer(query, key=..., value=...)"
            )
        if mask is None:
            mask = arguments.get(f"{self.inputs_by_position[0]}_mask")
        if mask is not None:
            check_keras_mask(mask)
            arguments["mask"] = mask  # the name under which Keras hands it to `compute_mask`
        return super().__call__(*inputs, **arguments)

    @property
    def score(self):
        """The score function, or None if the mechanism does not use one."""
        return self.mechanism.score

    def _dense(self, units, name):
        spec = self.spec
        return Dense(
            units,
            use_bias=spec.use_bias,
            kernel_initializer=seeded(spec.kernel_initializer, seed_of(name, spec.seed)),
            bias_initializer=seeded(spec.bias_initializer, seed_of(f"{name} bias", spec.seed)),
            kernel_regularizer=spec.kernel_regularizer,
            name=name,
            dtype=self.dtype_policy,
        )

    def _build_mechanism(self, key_size=None):
        heads = (None, self.num_heads, None)
        build_once(self.mechanism, (*heads, self.key_dim), (*heads, key_size or self.key_dim), (*heads, self.value_dim))
        if self.output_projection is not None:
            build_once(self.output_projection, (None, None, self.num_heads * self.value_dim))

    def _check_width(self, side, width, size):
        """Checks the width of a side that is not projected but split into heads as it is."""
        expected = self.num_heads * size
        if width != expected:
            raise ValueError(f"{side}: unprojected, the width must be num_heads * size = {expected}, found {width}")

    def split_heads(self, x, heads=None):
        """Splits the last axis into heads, H if not given: `(B, T, H * K) -> (B, H, T, K)`."""
        if len(x.shape) != 3:
            raise ValueError(f"{self.name}: expected 3 axes, (batch, tokens, size), found shape {tuple(x.shape)}")
        heads = heads or self.num_heads
        batch, length, width = dynamic_shape(x)
        return ops.swapaxes(ops.reshape(x, (batch, length, heads, width // heads)), 1, 2)

    def repeat_heads(self, x):
        """Gives each head of queries its head of keys or values, `(B, key_value_heads, S, K) -> (B, H, S, K)`."""
        each = self.num_heads // self.key_value_heads
        return x if each == 1 else ops.repeat(x, each, axis=1)

    def attend(self, query, key, value, mask=None, training=None, bias=None):
        """Attends with queries, keys and values that are already projected and split into heads.

        Args:
            query: `(B, H, T, K)`.
            key: `(B, key_value_heads, S, K)`.
            value: `(B, key_value_heads, S, V)`.
            mask: bool, broadcastable to `(B, H, T, S)`, True where attention may go; None for no mask.
            training: whether dropout is applied.
            bias: added to the scores, broadcastable to `(B, H, T, S)`, such as an `alibi_bias`; None for nothing.

        Returns:
            `(context, weights)`: `(B, T, output_dim)` and float32 `(B, H, T, S)`.
        """
        if bias is not None and self.mechanism.uses_score and not self.mechanism.takes_bias:
            raise ValueError(f"bias: {type(self.mechanism).__name__} adds none to its scores; use softmax")
        extra = {"bias": bias} if bias is not None and self.mechanism.takes_bias else {}
        key, value = self.repeat_heads(key), self.repeat_heads(value)
        heads, own = self.mechanism(query, key, value, mask=mask, training=training, **extra)
        weights = tap(self, "weights", own, mask=mask)
        if weights is not own:  # not every mechanism computes contexts from weights
            heads = where_changed(weights, own, ops.matmul(ops.cast(weights, value.dtype), value), heads)
        context = self.merge_heads(tap(self, "heads", heads))
        return tap(self, "output", context, weights=weights, values=value), weights

    def merge_heads(self, context):
        """Puts the heads' contexts side by side and projects them: `(B, H, T, V) -> (B, T, output_dim)`."""
        context = ops.swapaxes(context, 1, 2)
        context = ops.reshape(context, (*dynamic_shape(context)[:2], self.num_heads * self.value_dim))
        return context if self.output_projection is None else self.output_projection(context)

    def compute_mask(self, inputs, previous_mask=None):
        """Passes the mask of the queries on to the context; see the class."""
        return previous_mask, None

    def _output_shapes(self, query_shape, key_shape):
        batch, length = query_shape[:2]
        return (batch, length, self.output_dim), (batch, self.num_heads, length, key_shape[1])


@keras.saving.register_keras_serializable(package="qkv")
class MultiHeadAttention(AttentionLayer):
    """Multi-head attention (Vaswani et al. 2017, section 3.2.2) with any score function.

    `context = concat_h(softmax(score(x W_q, y W_k)) y' W_v) W_o` for queries x, keys y and values y'.

    Args:
        num_heads, ...: the fields of `AttentionSpec`.

    Call arguments:
        query: `(B, T, Dq)`, by position or by name. All other arguments are given by name, because Keras' attention
            layers take the value before the key.
        key: `(B, S, Dk)`.
        value: `(B, S, Dv)`.
        attention_mask: bool, broadcastable to `(B, H, T, S)`, True where attention may go; see `qkv.attention.masks`.
        query_mask, or mask: bool `(B, T)`; if not given, the mask that Keras keeps of the query. It becomes the mask of
            the context.
        key_mask, value_mask: bool `(B, S)`; if not given, the masks that Keras keeps of key and value. They are joined
            with `attention_mask`.
        training: whether dropout is applied.

    Returns:
        `(context, weights)`, always both: `(B, T, output_dim)`, and float32 `(B, H, T, S)` after the softmax and before
        dropout. A query that may attend to nothing gets zero weights.

    Raises:
        ValueError: a side is not projected, and not as wide as all heads together.

    Example:
        >>> layer = MultiHeadAttention(num_heads=2, key_dim=4)
        >>> query, memory = keras.random.normal((1, 3, 8)), keras.random.normal((1, 5, 6))
        >>> context, weights = layer(query, key=memory, value=memory)
        >>> context.shape, weights.shape
        (TensorShape([1, 3, 8]), TensorShape([1, 2, 3, 5]))
    """

    def _make_projections(self):
        if self.mechanism.shares_query_and_key:
            name = type(self.mechanism).__name__
            raise ValueError(f"mechanism: {name} is for self-attention only; use softmax or blockwise")
        if self.spec.projection:
            self.query_projection = self._dense(self.num_heads * self.key_dim, "query")
            self.key_projection = self._dense(self.key_value_heads * self.key_dim, "key")
        if self.spec.value_projection:
            self.value_projection = self._dense(self.key_value_heads * self.value_dim, "value")

    def build(self, query_shape, *, key_shape, value_shape):
        key_size = self.key_dim
        if self.spec.projection:
            build_once(self.query_projection, query_shape)
            build_once(self.key_projection, key_shape)
        else:
            self._check_width("query", query_shape[-1], self.key_dim)
            # Some score functions compare vectors of two sizes.
            if self.mechanism.sizes_may_differ and key_shape[-1] % self.num_heads == 0:
                key_size = key_shape[-1] // self.num_heads
            self._check_width("key", key_shape[-1], key_size)
        if self.spec.value_projection:
            build_once(self.value_projection, value_shape)
        else:
            self._check_width("value", value_shape[-1], self.value_dim)
        self._build_mechanism(key_size)

    def project_query(self, query):
        """Projects queries and splits them into heads: `(B, T, Dq) -> (B, H, T, K)`."""
        query = self.query_projection(query) if self.spec.projection else query
        return tap(self, "queries", self.split_heads(query))

    def project_memory(self, key, value):
        """Projects keys `(B, S, Dk)` and values `(B, S, Dv)` once for many queries: to `(B, key_value_heads, S, K)` and
        `(B, key_value_heads, S, V)`, for `attend`."""
        key = self.key_projection(key) if self.spec.projection else key
        key = self.split_heads(key, self.key_value_heads)
        return tap(self, "keys", key), tap(self, "values", self._project_value(value))

    def attend_from_rows(self, query, key, value, mask=None, training=None):
        """Attends like `attend`, with several rows of queries to each memory: the hypotheses of a search share a
        source.

        They are treated as more queries of one row, so the memory is neither repeated nor read again.

        Args:
            query: `(B * N, H, T, K)`; the N rows of one memory are adjacent.
            key, value, training: see `attend`.
            mask: bool, broadcastable to `(B, H, 1, S)`.

        Returns:
            `(context, weights)`: `(B * N, T, output_dim)` and float32 `(B * N, H, T, S)`.
        """
        rows, heads, length, size = dynamic_shape(query)
        batch, _, sources, _ = dynamic_shape(key)
        each = rows_of_each(rows, batch)
        query = ops.reshape(query, (batch, each, heads, length, size))
        query = ops.reshape(ops.swapaxes(query, 1, 2), (batch, heads, each * length, size))
        context, weights = self.attend(query, key, value, mask, training)
        weights = ops.swapaxes(ops.reshape(weights, (batch, heads, each, length, sources)), 1, 2)
        weights = ops.reshape(weights, (rows, heads, length, sources))
        return ops.reshape(context, (rows, length, self.output_dim)), weights

    def value_norms(self, value):
        """Returns the length of the vector that each value adds to the context, in each head, when it has all the
        weight.

        Multiplied by the weight, it measures what a value really contributes: a head with nothing to contribute often
        puts its weight on a value that it makes short, such as EOS's (Kobayashi et al. 2020, section 3).

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
        value = self.value_projection(value) if self.spec.value_projection else value
        return self.split_heads(value, self.key_value_heads)

    def call(
        self,
        query,
        *,
        key,
        value,
        attention_mask=None,
        query_mask=None,
        key_mask=None,
        value_mask=None,
        mask=None,
        training=None,
    ):
        attention_mask = join_masks(attention_mask, key_mask, None if value_mask is key_mask else value_mask)
        key, value = self.project_memory(key, value)
        return self.attend(self.project_query(query), key, value, attention_mask, training)

    def compute_output_shape(self, query_shape, *, key_shape, value_shape):
        return self._output_shapes(query_shape, key_shape)
