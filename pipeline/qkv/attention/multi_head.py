"""Multi-head attention, and the base class of all attention layers.

Letters: B batch, H heads, T target (query) positions, S source (key) positions, K key size, V value size of a head.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import keras
from keras import ops

from ..config.choices.model import RELATIVE_POSITIONS, RelativePositions
from ..layers.constructor_config import ConstructorConfig, ReplaceableLayers, build_once, seed_of, seeded, to_json_value
from ..layers.keras_layers import Dense, FloatOnly, check_sizes, dynamic_shape, reshape, rows_of_each
from ..layers.low_rank import LowRank
from ..layers.tap import tap, where_changed
from .by_name import describe_layer, make_layer
from .masks import check_keras_mask, join_masks
from .mechanisms import MECHANISM_CLASSES, MechanismArgument, describe_mechanism
from .mechanisms.softmax import WeightsInFloat32
from .relative_positions import alibi_bias, rotate, rotation
from .scores import SCORE_CLASSES, ScoreArgument

InitializerArgument: TypeAlias = str | Mapping[str, Any] | keras.Initializer
"""An initializer, its name or its config."""

RegularizerArgument: TypeAlias = str | Mapping[str, Any] | keras.Regularizer
"""A regularizer, its name or its config."""


@dataclass(kw_only=True)
class AttentionSpec:
    """The arguments of an attention layer, checked, with all defaults filled in. A layer has it as `layer.spec`.

    Args:
        num_heads: H.
        key_dim: K, the size of one head's queries and keys.
        value_dim: V, the size of one head's values. None: K.
        output_dim: the width of the context. None: H * V.
        score: how queries and keys are compared: a name, or a layer such as `Cosine(initial_scale=5.0)`; see
            `attention.scores`.
        mechanism: how contexts are computed from the scores: a name, or a layer such as
            `Linformer(projected_length=16)`; see `attention.mechanisms`. It uses the `score` and `dropout` of the
            attention layer.
        projection: whether queries and keys pass through learnt matrices. If False, the inputs are split into heads
            unchanged, so their width must be H * K.
        value_projection: whether values and the context pass through learnt matrices. If False, the context is the
            weighted mean of the values themselves, whose width must be H * V. None: as `projection`.
        use_bias: whether the projections add a bias.
        dropout: the share of the weights set to zero in training, after the softmax, from 0 to 1. The returned weights
            are the weights before dropout.
        key_value_heads: the number of heads of keys and values, a divisor of H. Each serves H / key_value_heads heads
            of queries (Ainslie et al. 2023); a single one serves all (Shazeer 2019). None: H.
        kernel_initializer, bias_initializer: the initializers of the projections' matrices and biases, as in
            `keras.layers.MultiHeadAttention`. `SelfAttention` initializes the projections of queries, keys and values
            as one matrix.
        kernel_regularizer: the regularizer of the projections' matrices, as in `keras.layers.MultiHeadAttention`, or
            None.
        seed: an int that determines the random initial weights and dropout. An initializer that has a seed keeps it.
            None: each layer draws different random numbers.
        positions: "rotary" turns queries and keys by their positions, "alibi" subtracts a multiple of the distance from
            each score; see `attention.relative_positions`. Queries and keys are counted 0, 1, 2, ... each. None: the
            layer knows no positions.
        return_weights: whether a call returns `(context, weights)`. If False, it returns the context alone, as
            `keras.Sequential` requires. Hooks see the weights in both cases.

    Attributes: as the arguments. Score, mechanism, initializers and regularizer are names or JSON values, as in a
        config.

    Raises:
        ValueError: a size is not a whole number of at least 1; a score, a mechanism or the kind of positions is
            unknown; `key_value_heads` is not a divisor of H, or is not H although there are no projections; or
            `output_dim` is not H * V although there is no value projection.
    """

    num_heads: int
    key_dim: int
    value_dim: Any = None  # `Any`: None as an argument, and another value in the attribute
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
    seed: int | None = None
    positions: RelativePositions | None = None
    return_weights: bool = True

    def __post_init__(self) -> None:
        check_sizes(
            num_heads=self.num_heads,
            key_dim=self.key_dim,
            value_dim=self.value_dim,
            output_dim=self.output_dim,
            key_value_heads=self.key_value_heads,
        )
        self.value_dim = self.value_dim or self.key_dim
        width = self.num_heads * self.value_dim
        self.output_dim = self.output_dim or width
        self.key_value_heads = self.key_value_heads or self.num_heads
        if self.value_projection is None:
            self.value_projection = self.projection
        self.mechanism = describe_mechanism(self.mechanism, self.score, self.dropout)
        self.score = describe_layer("score", SCORE_CLASSES, self.score)
        # As configs, because each projection makes a new object: two layers must not share an initializer.
        self.kernel_initializer = to_json_value(self.kernel_initializer)
        self.bias_initializer = to_json_value(self.bias_initializer)
        self.kernel_regularizer = to_json_value(self.kernel_regularizer)
        if self.positions not in (None, *RELATIVE_POSITIONS):
            expected = f"None, {' or '.join(RELATIVE_POSITIONS)}"
            raise ValueError(f"positions: expected {expected}, found {self.positions!r}")

        has_all_projections = self.projection and self.value_projection
        if has_all_projections and self.num_heads % self.key_value_heads:
            expected = f"a divisor of num_heads = {self.num_heads}"
            raise ValueError(f"key_value_heads: expected {expected}, found {self.key_value_heads}")
        if not has_all_projections and self.key_value_heads != self.num_heads:
            expected = f"{self.num_heads} without projection"
            raise ValueError(f"key_value_heads: expected {expected}, found {self.key_value_heads}")
        if not self.value_projection and self.output_dim != width:
            raise ValueError(f"output_dim: expected {width} (H * V) without value projection, found {self.output_dim}")


class AttentionLayer(ConstructorConfig, ReplaceableLayers, LowRank, FloatOnly, WeightsInFloat32, keras.Layer):
    """Base class of attention layers: a mechanism over heads, and the output projection.

    A subclass makes queries, keys and values from its inputs, in `call`, and passes them to `attend`.

    Args:
        num_heads, ...: the fields of `AttentionSpec`.
        **kwargs: the arguments of `keras.Layer`.

    Attributes:
        spec: the `AttentionSpec`.
        inputs_by_position: the names of the call arguments that may be given by position, the queries first. All other
            call arguments are given by name.

    **Masks.** As in `keras.layers.MultiHeadAttention`, `attention_mask` says which query may attend to which key; it
    has four axes. Every other mask is the mask of a sequence, `(B, T)`. Keras passes the masks that it keeps with the
    inputs, such as the mask of an `Embedding(mask_zero=True)`. The masks of keys and values hide padding, together with
    `attention_mask`. The mask of the queries hides nothing, because the context of a padding query is not used. It
    becomes the mask of the context, so that a loss ignores these rows.

    Raises:
        ValueError: the arguments are wrong, see `AttentionSpec`; the mechanism cannot use `positions`; or, in a call,
            the mask of the queries has not two axes.
        TypeError: a call has more arguments by position than `inputs_by_position`, or `return_attention_scores`.
    """

    inputs_by_position: tuple[str, ...] = ("query",)

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        output_dim: int | None = None,
        score: ScoreArgument = "scaled_dot",
        mechanism: MechanismArgument = "softmax",
        projection: bool = True,
        value_projection: bool | None = None,
        use_bias: bool = True,
        dropout: float = 0.0,
        key_value_heads: int | None = None,
        kernel_initializer: InitializerArgument = "glorot_uniform",
        bias_initializer: InitializerArgument = "zeros",
        kernel_regularizer: RegularizerArgument | None = None,
        seed: int | None = None,
        positions: RelativePositions | None = None,
        return_weights: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.spec = spec = AttentionSpec(
            num_heads=num_heads,
            key_dim=key_dim,
            value_dim=value_dim,
            output_dim=output_dim,
            score=score,
            mechanism=mechanism,
            projection=projection,
            value_projection=value_projection,
            use_bias=use_bias,
            dropout=dropout,
            key_value_heads=key_value_heads,
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            kernel_regularizer=kernel_regularizer,
            seed=seed,
            positions=positions,
            return_weights=return_weights,
        )
        self.num_heads = spec.num_heads
        self.key_value_heads = spec.key_value_heads
        self.key_dim = spec.key_dim
        self.value_dim = spec.value_dim
        self.output_dim = spec.output_dim
        self.mechanism = make_layer(
            MECHANISM_CLASSES,
            spec.mechanism,
            score=spec.score,
            dropout=spec.dropout,
            seed=seed_of("mechanism", seed),
            name="mechanism",
            dtype=self.dtype_policy,
        )
        self._check_positions()
        self.output_projection: Any = self._dense(self.output_dim, "output") if spec.value_projection else None
        self._make_projections()  # last: random seeds are drawn in this order

    def _make_projections(self) -> None:
        """Makes the projections of queries, keys and values, as attributes. Every subclass defines it."""
        raise NotImplementedError

    def _check_positions(self) -> None:
        """Raises a `ValueError` if the mechanism or the key size cannot use the positions of the spec."""
        positions, name = self.spec.positions, type(self.mechanism).__name__
        if positions is not None and not self.mechanism.uses_score:
            raise ValueError(f"positions: {name} compares no queries with keys, so it cannot use {positions}")
        if positions == "rotary" and not self.mechanism.takes_rotation:
            raise ValueError(f"positions: {name} cannot use rotary; use softmax, blockwise, sink or one_hot")
        if positions == "alibi" and not self.mechanism.takes_bias:
            raise ValueError(f"positions: {name} cannot use alibi; use softmax, sink or one_hot")
        if positions == "rotary" and self.key_dim % 2:
            raise ValueError(f"key_dim: rotary positions need an even size, found {self.key_dim}")

    def __call__(self, *inputs: Any, mask: Any = None, **arguments: Any) -> Any:
        if "return_attention_scores" in arguments:
            raise TypeError(
                f"{type(self).__name__}: a call has no argument return_attention_scores; the constructor's "
                "return_weights chooses between (context, weights), which is the default, and the context alone"
            )
        if len(inputs) > len(self.inputs_by_position):
            raise TypeError(
                f"{type(self).__name__}: expected {' and '.join(self.inputs_by_position)} by position, found "
                f"{len(inputs)}; Keras' layers take (query, value, key), so write layer(query, value=..., key=...)"
            )
        if mask is None:
            mask = arguments.get(f"{self.inputs_by_position[0]}_mask")
        if mask is not None:
            check_keras_mask(mask)
            arguments["mask"] = mask  # Keras passes the argument of this name to `compute_mask`
        return super().__call__(*inputs, **arguments)

    @property
    def score(self) -> Any:
        """The `Score`, or None if the mechanism does not use one."""
        return self.mechanism.score

    def _dense(self, units, name):
        """Makes a projection to `units` with the bias, the initializers and the regularizer of the spec."""
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
        """Builds the mechanism and the output projection, for keys of size `key_size`, K if not given."""
        heads = (None, self.num_heads, None)
        build_once(self.mechanism, (*heads, self.key_dim), (*heads, key_size or self.key_dim), (*heads, self.value_dim))
        if self.output_projection is not None:
            build_once(self.output_projection, (None, None, self.num_heads * self.value_dim))

    def _check_width(self, side, width, size):
        """Raises a `ValueError` unless an input that is not projected has the width H * size."""
        expected = self.num_heads * size
        if width != expected:
            raise ValueError(f"{side}: unprojected, the width must be num_heads * size = {expected}, found {width}")

    def split_heads(self, x: Any, heads: int | None = None) -> Any:
        """Splits the last axis into heads: `(B, T, heads * K) -> (B, heads, T, K)`.

        Args:
            x: `(B, T, heads * K)`.
            heads: the number of heads; H if not given.

        Raises:
            ValueError: x has not three axes.
        """
        if len(x.shape) != 3:
            raise ValueError(f"{self.name}: expected 3 axes, (batch, tokens, size), found shape {tuple(x.shape)}")
        heads = heads or self.num_heads
        batch, length, width = dynamic_shape(x)
        return ops.swapaxes(reshape(x, (batch, length, heads, width // heads)), 1, 2)

    def repeat_heads(self, x: Any) -> Any:
        """Repeats heads of keys or values for their heads of queries: `(B, key_value_heads, S, K) -> (B, H, S, K)`."""
        repeats = self.num_heads // self.key_value_heads
        return x if repeats == 1 else ops.repeat(x, repeats, axis=1)

    def attend(
        self, query: Any, key: Any, value: Any, mask: Any = None, training: bool | None = None, bias: Any = None
    ) -> tuple[Any, Any]:
        """Computes the context from queries, keys and values that are already projected and split into heads.

        Args:
            query: `(B, H, T, K)`.
            key: `(B, key_value_heads, S, K)`.
            value: `(B, key_value_heads, S, V)`.
            mask: bool, broadcastable to `(B, H, T, S)`, True where a query may attend to a key; None for no mask.
            training: whether dropout is applied.
            bias: a tensor added to the scores, broadcastable to `(B, H, T, S)`, such as an `alibi_bias`, or None.
                Mechanisms without scores ignore it.

        Returns:
            `(context, weights)`: `(B, T, output_dim)` and float32 `(B, H, T, S)`.

        Raises:
            ValueError: there is a bias, and the mechanism has scores but cannot add a bias to them.
        """
        if bias is not None and self.mechanism.uses_score and not self.mechanism.takes_bias:
            raise ValueError(f"bias: {type(self.mechanism).__name__} cannot add a bias to its scores; use softmax")
        extra = {"bias": bias} if bias is not None and self.mechanism.takes_bias else {}
        key, value = self.repeat_heads(key), self.repeat_heads(value)
        heads, computed_weights = self.mechanism(query, key, value, mask=mask, training=training, **extra)
        weights = tap(self, "weights", computed_weights, mask=mask)
        if weights is not computed_weights:  # not every mechanism computes contexts from weights
            changed_heads = ops.matmul(ops.cast(weights, value.dtype), value)
            heads = where_changed(weights, computed_weights, changed_heads, heads)
        context = self.merge_heads(tap(self, "heads", heads))
        return tap(self, "output", context, weights=weights, values=value), weights

    def _outputs(self, context: Any, weights: Any) -> Any:
        """Returns what a call returns: `(context, weights)`, or the context alone without `return_weights`."""
        return (context, weights) if self.spec.return_weights else context

    def merge_heads(self, context: Any) -> Any:
        """Concatenates the contexts of the heads and projects them: `(B, H, T, V) -> (B, T, output_dim)`."""
        context = ops.swapaxes(context, 1, 2)
        context = reshape(context, (*dynamic_shape(context)[:2], self.num_heads * self.value_dim))
        return context if self.output_projection is None else self.output_projection(context)

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        """Returns the mask of the queries for the context, and None for the weights, if they are returned."""
        return self._outputs(previous_mask, None)

    def _output_shapes(self, query_shape, key_shape):
        """Returns the shapes of a call's outputs for inputs `(B, T, any)` and `(B, S, any)`."""
        batch, length = query_shape[:2]
        return self._outputs((batch, length, self.output_dim), (batch, self.num_heads, length, key_shape[1]))


@keras.saving.register_keras_serializable(package="qkv")
class MultiHeadAttention(AttentionLayer):
    """Multi-head attention (Vaswani et al. 2017, section 3.2.2) with any score function.

    `context = concat_h(softmax(score(x W_q, y W_k)) y' W_v) W_o` for queries x, keys y and values y'.

    Args:
        num_heads, ...: the fields of `AttentionSpec`.
        **kwargs: the arguments of `keras.Layer`.

    Call arguments:
        query: `(B, T, Dq)`, by position or by name. All other arguments are given by name, because Keras' attention
            layers take the value before the key.
        value: `(B, S, Dv)`.
        key: `(B, S, Dk)`; None for the value, as in Keras' layers.
        attention_mask: bool, broadcastable to `(B, H, T, S)`, True where a query may attend to a key; see
            `attention.masks`. None for no mask.
        query_mask, or mask: bool `(B, T)`; if not given, the mask that Keras keeps with the query. It becomes the mask
            of the context.
        key_mask, value_mask: bool `(B, S)`; if not given, the masks that Keras keeps with key and value. A query may
            attend only to keys that `attention_mask` and both masks allow.
        training: whether dropout is applied.

    Returns:
        `(context, weights)`: `(B, T, output_dim)`, and float32 `(B, H, T, S)` after the softmax and before dropout. The
        weights of a query without any allowed key are zero. With `return_weights=False`, the context alone.

    Raises:
        ValueError: the arguments of the constructor are wrong, see `AttentionSpec`; the mechanism is for self-attention
            only; an input that is not projected is not as wide as all heads together; or a mask has a wrong number of
            axes.
        TypeError: key, value or a mask is given by position.

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

    def build(self, query_shape: Any, *, value_shape: Any, key_shape: Any = None) -> None:
        key_shape = key_shape or value_shape
        key_size = self.key_dim
        if self.spec.projection:
            build_once(self.query_projection, query_shape)
            build_once(self.key_projection, key_shape)
        else:
            self._check_width("query", query_shape[-1], self.key_dim)
            # Some score functions can compare vectors of different sizes.
            if self.mechanism.sizes_may_differ and key_shape[-1] % self.num_heads == 0:
                key_size = key_shape[-1] // self.num_heads
            self._check_width("key", key_shape[-1], key_size)
        if self.spec.value_projection:
            build_once(self.value_projection, value_shape)
        else:
            self._check_width("value", value_shape[-1], self.value_dim)
        self._build_mechanism(key_size)

    def project_query(self, query: Any) -> Any:
        """Projects queries and splits them into heads: `(B, T, Dq) -> (B, H, T, K)`. Rotary positions turn them."""
        query = self.query_projection(query) if self.spec.projection else query
        return tap(self, "queries", self._rotate(self.split_heads(query)))

    def project_memory(self, key: Any, value: Any) -> tuple[Any, Any]:
        """Projects keys and values and splits them into heads. Then `attend` can use them for many queries.

        Rotary positions turn the keys.

        Args:
            key: `(B, S, Dk)`.
            value: `(B, S, Dv)`.

        Returns:
            `(keys, values)`: `(B, key_value_heads, S, K)` and `(B, key_value_heads, S, V)`.
        """
        key = self.key_projection(key) if self.spec.projection else key
        key = self._rotate(self.split_heads(key, self.key_value_heads))
        return tap(self, "keys", key), tap(self, "values", self._project_value(value))

    def _rotate(self, x: Any) -> Any:
        """Turns queries or keys `(B, heads, T, K)` by positions 0, 1, ..., T - 1 if the layer has rotary positions."""
        if self.spec.positions != "rotary":
            return x
        return rotate(x, rotation(ops.arange(dynamic_shape(x)[2], dtype="int32"), x.shape[-1]))

    def _attend_by_position(self, query: Any, key: Any, value: Any, mask: Any, training: bool | None) -> Any:
        """Returns the outputs of a call for projected queries, keys and values, with ALiBi's bias if any."""
        bias = None
        if self.spec.positions == "alibi":
            query_positions, key_positions = (ops.arange(dynamic_shape(x)[2], dtype="int32") for x in (query, key))
            bias = alibi_bias(query_positions, key_positions, self.num_heads)
        return self._outputs(*self.attend(query, key, value, mask, training, bias))

    def attend_from_rows(
        self, query: Any, key: Any, value: Any, mask: Any = None, training: bool | None = None
    ) -> tuple[Any, Any]:
        """Computes contexts as `attend` does, for N rows of queries to each row of keys and values.

        The hypotheses of a search use it, because they share a source. The N rows are treated as more queries of one
        row, so keys and values are not repeated.

        Args:
            query: `(B * N, H, T, K)`; the N rows that share keys and values are adjacent.
            key, value, training: see `attend`.
            mask: bool, broadcastable to `(B, H, 1, S)`, or None.

        Returns:
            `(context, weights)`: `(B * N, T, output_dim)` and float32 `(B * N, H, T, S)`.
        """
        rows, heads, length, size = dynamic_shape(query)
        batch, _, sources, _ = dynamic_shape(key)
        copies = rows_of_each(rows, batch)  # N
        query = reshape(query, (batch, copies, heads, length, size))
        query = reshape(ops.swapaxes(query, 1, 2), (batch, heads, copies * length, size))
        context, weights = self.attend(query, key, value, mask, training)
        weights = ops.swapaxes(reshape(weights, (batch, heads, copies, length, sources)), 1, 2)
        weights = reshape(weights, (rows, heads, length, sources))
        return reshape(context, (rows, length, self.output_dim)), weights

    def value_norms(self, value: Any) -> Any:
        """Returns the norm of the vector that each value adds to the context, in each head, if its weight is 1.

        Multiplied by the weight, it measures the contribution of a value to the context. A head with nothing to
        contribute often puts its weight on a value with a small norm, such as EOS's (Kobayashi et al. 2020, section 3).

        Args:
            value: `(B, S, Dv)`.

        Returns:
            float32 `(B, H, S)`.
        """
        value = ops.cast(self.repeat_heads(self._project_value(value)), "float32")
        if self.output_projection is None:
            return ops.norm(value, axis=-1)
        kernel = ops.cast(self.output_projection.kernel, "float32")
        kernel = reshape(kernel, (self.num_heads, self.value_dim, self.output_dim))
        products = ops.matmul(kernel, ops.swapaxes(kernel, -1, -2))  # avoids an array (B, H, S, output_dim)
        # Einsum, because a product would repeat the matrix of a single head; see `TanhSum.compare` for the danger.
        return ops.sqrt(ops.maximum(ops.sum(ops.einsum("bhsk,hkl->bhsl", value, products) * value, axis=-1), 0.0))

    def _project_value(self, value):
        """Projects values and splits them into heads: `(B, S, Dv) -> (B, key_value_heads, S, V)`."""
        value = self.value_projection(value) if self.spec.value_projection else value
        return self.split_heads(value, self.key_value_heads)

    def call(
        self,
        query: Any,
        *,
        value: Any,
        key: Any = None,
        attention_mask: Any = None,
        query_mask: Any = None,
        key_mask: Any = None,
        value_mask: Any = None,
        mask: Any = None,
        training: bool | None = None,
    ) -> Any:
        attention_mask = join_masks(attention_mask, key_mask, None if value_mask is key_mask else value_mask)
        key = value if key is None else key
        key, value = self.project_memory(key, value)
        return self._attend_by_position(self.project_query(query), key, value, attention_mask, training)

    def compute_output_shape(self, query_shape: Any, *, value_shape: Any, key_shape: Any = None) -> Any:
        return self._output_shapes(query_shape, key_shape or value_shape)
