"""Score functions, which compare queries with keys before the softmax. The table of their names is at the end.

Every score function prepares queries and keys, and then compares them by one of two comparisons, `DotProduct` and
`TanhSum`. The comparisons have explicit gradients for blockwise attention, which computes every score a second time
instead of storing it.

Letters: B batch, H heads, T target (query) positions, S source (key) positions, K key size.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import keras
from keras import ops

from ..layers.constructor_config import ConstructorConfig, ReplaceableLayers, build_once, seed_of
from ..layers.keras_layers import check_sizes, dynamic_shape
from .by_name import describe_layer, make_layer

__all__ = ["SCORE_CLASSES", "Additive", "Concat", "Cosine", "Dot", "General", "ScaledDot", "Score", "make_score"]


class DotProduct:
    """The comparison `e = q . k`."""

    @staticmethod
    def numbers_a_pair(query: Any) -> int:
        """Returns the number of floats in memory for each pair of a query and a key during the comparison: 1."""
        return 1

    @staticmethod
    def compare(query: Any, key: Any) -> tuple[Any, Callable[..., Any]]:
        """Compares every query with every key.

        Args:
            query: `(B, H, T, K)`.
            key: `(B, H, S, K)`.

        Returns:
            `(scores, gradients)`: the scores are `(B, H, T, S)`. `gradients` is a function from the gradient with
            respect to the scores to the gradients with respect to query and key.
        """

        def gradients(upstream):
            return ops.matmul(upstream, key), ops.matmul(ops.swapaxes(upstream, -1, -2), query)

        return ops.matmul(query, ops.swapaxes(key, -1, -2)), gradients


class TanhSum:
    """The comparison `e = v . tanh(q + k)`, with one v for each head."""

    @staticmethod
    def numbers_a_pair(query: Any) -> int:
        """Returns the number of floats in memory for each pair of a query and a key during the comparison: K."""
        return query.shape[-1]

    @staticmethod
    def compare(query: Any, key: Any, v: Any) -> tuple[Any, Callable[..., Any]]:
        """Compares every query with every key.

        The array `(B, H, T, S, K)` is by far the largest. The sum over K is a product with a vector, which reads the
        array once and is faster than a reduction.

        Args:
            query: `(B, H, T, K)`.
            key: `(B, H, S, K)`.
            v: `(H, K)`.

        Returns:
            `(scores, gradients)`: the scores are `(B, H, T, S)`. `gradients` is a function from the gradient with
            respect to the scores to the gradients with respect to query, key and v.
        """
        batch, heads, rows, size = dynamic_shape(query)
        columns = dynamic_shape(key)[2]
        pairs = ops.tanh(ops.expand_dims(query, 3) + ops.expand_dims(key, 2))
        flat = ops.reshape(pairs, (batch, heads, rows * columns, size))
        # Repeated explicitly: if oneDNN must repeat the second factor, it reads beyond its end for a single head.
        repeated = ops.broadcast_to(ops.expand_dims(v, 2), (batch, heads, size, 1))
        scores = ops.reshape(ops.matmul(flat, repeated), (batch, heads, rows, columns))

        def gradients(upstream):
            by_v = ops.sum(ops.matmul(ops.reshape(upstream, (batch, heads, 1, rows * columns)), flat), (0, 2))
            # tanh' = 1 - tanh^2, so each gradient below is a sum of `upstream` minus a sum of `upstream * squares`.
            squares = ops.square(pairs)
            over_keys = ops.squeeze(ops.matmul(ops.expand_dims(upstream, 3), squares), 3)
            weighted = ops.reshape(ops.expand_dims(upstream, 4) * squares, (batch, heads, rows, columns * size))
            over_queries = ops.matmul(ops.ones((1, rows), upstream.dtype), weighted)
            over_queries = ops.reshape(over_queries, (batch, heads, columns, size))
            direction = ops.expand_dims(v, 1)
            by_query = direction * (ops.expand_dims(ops.sum(upstream, 3), 3) - over_keys)
            by_key = direction * (ops.expand_dims(ops.sum(upstream, 2), 3) - over_queries)
            return by_query, by_key, by_v

        return scores, gradients


class Score(ConstructorConfig, ReplaceableLayers, keras.Layer):
    """Base class of score functions, which compare every query with every key of the same head.

    Learnt parameters are separate for each head. `prepare` transforms queries and keys, and then `comparison` compares
    all pairs. So blockwise attention can prepare queries and keys once, and compare as many pairs at a time as memory
    allows. A subclass overrides `prepare`, or `call` if its score cannot be written that way. A subclass that overrides
    `call` does not work with blockwise attention.

    Args:
        seed: an int that determines the random initial parameters. None: each layer draws different ones.
        **kwargs: the arguments of `keras.Layer`.

    Call arguments:
        query: `(B, H, T, K)`.
        key: `(B, H, S, K)`.

    Returns:
        The scores `(B, H, T, S)`.

    Attributes:
        comparison: the comparison of prepared queries and keys: `DotProduct` or `TanhSum`.
        sizes_may_differ: True if queries and keys of different sizes can be compared.
        projected: True if a recurrent model projects queries and keys before the comparison; False if the score
            function has matrices itself.
        by_angle: True if scores grow as the angle between query and key shrinks. `LSH` requires it.
        is_product: True if the score is `q k^T` up to a factor, so that the spectrum of `W_Q W_K^T` describes a head.

    Example:
        >>> class NegativeDistance(Score):
        ...     def call(self, query: Any, key: Any) -> Any:
        ...         difference = keras.ops.expand_dims(query, 3) - keras.ops.expand_dims(key, 2)
        ...         return -keras.ops.sum(keras.ops.square(difference), -1)
        >>> query, key = keras.ops.array([[[[0.0, 1.0]]]]), keras.ops.array([[[[1.0, 1.0], [0.0, 3.0]]]])
        >>> NegativeDistance()(query, key).numpy().tolist()
        [[[[-1.0, -4.0]]]]
    """

    comparison: type[DotProduct] | type[TanhSum] = DotProduct
    sizes_may_differ = False
    projected = False
    by_angle = False
    is_product = False

    def __init__(self, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.seed = seed

    def build(self, query_shape: Any, key_shape: Any) -> None:
        """Creates no weights. A subclass with learnt parameters overrides it."""

    def prepare(self, query: Any, key: Any) -> tuple[Any, ...]:
        """Returns the arguments of `comparison.compare`: queries, keys, and any learnt parameters, as a tuple."""
        return query, key

    def call(self, query: Any, key: Any) -> Any:
        return self.comparison.compare(*self.prepare(query, key))[0]

    def compute_output_shape(self, query_shape: Any, key_shape: Any) -> Any:
        return (*query_shape[:-1], key_shape[-2])


def glorot(rows: int, columns: int, seed: int | None) -> keras.Initializer:
    """Returns the Glorot uniform initializer of one head's matrix.

    Keras' own initializer would take the shape `(H, rows, columns)` for a convolution's.

    Args:
        rows, columns: the size of the matrix.
        seed: an int or None.
    """
    limit = (6 / (rows + columns)) ** 0.5
    return keras.initializers.RandomUniform(-limit, limit, seed)


@keras.saving.register_keras_serializable(package="qkv")
class Dot(Score):
    """`e = q . k` (Luong et al. 2015, section 3.1, "dot").

    Call arguments and returns: as in `Score`.

    Example:
        >>> query, key = keras.ops.array([[[[1.0, 2.0]]]]), keras.ops.array([[[[3.0, 4.0], [0.0, -1.0]]]])
        >>> Dot()(query, key)[0, 0].numpy().tolist()  # 1 * 3 + 2 * 4, 1 * 0 + 2 * -1
        [[11.0, -2.0]]
    """

    projected = by_angle = is_product = True


@keras.saving.register_keras_serializable(package="qkv")
class ScaledDot(Score):
    """`e = q . k / sqrt(K)` (Vaswani et al. 2017, equation 1).

    The scale makes the variance of the scores independent of K, so that the softmax does not start out saturated.

    Call arguments and returns: as in `Score`.

    Example:
        >>> ScaledDot()(keras.ops.ones((1, 1, 2, 16)), keras.ops.ones((1, 1, 3, 16)))[0, 0].numpy().tolist()
        [[4.0, 4.0, 4.0], [4.0, 4.0, 4.0]]
    """

    projected = by_angle = is_product = True

    def prepare(self, query: Any, key: Any) -> tuple[Any, ...]:
        # The query is the smaller side to scale: (T, K) numbers instead of (T, S).
        return query * (query.shape[-1] ** -0.5), key


@keras.saving.register_keras_serializable(package="qkv")
class General(Score):
    """`e = q^T W k`, one W for each head (Luong et al. 2015, section 3.1, "general").

    Queries and keys may differ in size. W is the weight `kernel`, `(H, query size, key size)`.

    Call arguments and returns: as in `Score`.

    Example:
        >>> score = General()
        >>> score(keras.ops.ones((1, 2, 3, 4)), keras.ops.ones((1, 2, 5, 6))).shape, score.kernel.shape
        (TensorShape([1, 2, 3, 5]), TensorShape([2, 4, 6]))
    """

    sizes_may_differ = True

    def build(self, query_shape: Any, key_shape: Any) -> None:
        shape = query_shape[1], query_shape[-1], key_shape[-1]
        self.kernel = self.add_weight(name="kernel", shape=shape, initializer=glorot(*shape[1:], self.seed))

    def prepare(self, query: Any, key: Any) -> tuple[Any, ...]:
        return ops.einsum("bhtk,hkl->bhtl", query, ops.cast(self.kernel, query.dtype)), key


PRODUCTS = {"scaled_dot": ScaledDot, "dot": Dot, "general": General}
"""The score functions by name that are a product of query and key, with or without a matrix between them."""


@keras.saving.register_keras_serializable(package="qkv")
class Cosine(Score):
    """`e = g * cos(q, k)` with a learnt positive scale g for each head (Graves et al. 2014, equation 5).

    A cosine lies between -1 and 1, too narrow a range for a sharp softmax. So `g = exp(s)` starts at `initial_scale`;
    s is the weight `log_scale`.

    Args:
        initial_scale: g before training, above 0.
        **kwargs: as in `Score`.

    Call arguments and returns: as in `Score`; the scores are float32.

    Raises:
        ValueError: `initial_scale` is not above 0.

    Example:
        >>> query, key = keras.ops.array([[[[3.0, 4.0]]]]), keras.ops.array([[[[6.0, 8.0], [-4.0, 3.0]]]])
        >>> Cosine()(query, key)[0, 0].numpy().round(3).tolist()
        [[10.0, 0.0]]
    """

    projected = by_angle = True

    def __init__(self, initial_scale: float = 10.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not initial_scale > 0:
            raise ValueError(f"initial_scale: expected a number above 0, found {initial_scale}")
        self.initial_scale = initial_scale

    def build(self, query_shape: Any, key_shape: Any) -> None:
        constant = keras.initializers.Constant(math.log(self.initial_scale))
        self.log_scale = self.add_weight(name="log_scale", shape=(query_shape[1], 1, 1), initializer=constant)

    def prepare(self, query: Any, key: Any) -> tuple[Any, ...]:
        query, key = (ops.normalize(ops.cast(side, "float32"), axis=-1, epsilon=1e-6) for side in (query, key))
        return ops.exp(ops.cast(self.log_scale, "float32")) * query, key

    def compute_output_spec(self, query: Any, key: Any) -> Any:
        return keras.KerasTensor(self.compute_output_shape(query.shape, key.shape), "float32")


@keras.saving.register_keras_serializable(package="qkv")
class Additive(Score):
    """`e = v . tanh(q + k [+ b])`, one v (and b) for each head (Bahdanau et al. 2015, appendix A.1.2).

    The paper's W_q and W_k are the projections of the attention layer, so they are applied once per position and not
    once per pair. The score needs memory for B * H * T * S * K numbers.

    Args:
        use_bias: whether b is added inside the tanh. The paper has no bias.
        **kwargs: as in `Score`.

    Call arguments and returns: as in `Score`.

    Example:
        >>> score = Additive()
        >>> score(keras.ops.ones((1, 2, 3, 4)), keras.ops.ones((1, 2, 5, 4))).shape, score.v.shape
        (TensorShape([1, 2, 3, 5]), TensorShape([2, 4]))
    """

    comparison = TanhSum
    projected = True

    def __init__(self, use_bias: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.use_bias = use_bias

    def build(self, query_shape: Any, key_shape: Any) -> None:
        heads, size = query_shape[1], query_shape[-1]
        self.v = self.add_weight(name="v", shape=(heads, size), initializer=glorot(size, 1, self.seed))
        self.bias = self.add_weight(name="bias", shape=(heads, size), initializer="zeros") if self.use_bias else None

    def prepare(self, query: Any, key: Any) -> tuple[Any, ...]:
        if self.bias is not None:
            query = query + ops.cast(ops.expand_dims(self.bias, 1), query.dtype)
        return query, key, ops.cast(self.v, query.dtype)


@keras.saving.register_keras_serializable(package="qkv")
class Concat(Score):
    """`e = v . tanh(W [q; k])`, one W and v for each head (Luong et al. 2015, section 3.1, "concat").

    This is `Additive` after two projections, because `W [q; k] = W_1 q + W_2 k`. The projections belong to the score
    function.

    Args:
        units: the size of `W [q; k]`, which goes through the tanh. None: the query's size.
        **kwargs: as in `Score`.

    Call arguments and returns: as in `Score`; queries and keys may differ in size.

    Raises:
        ValueError: `units` is not a whole number of at least 1.

    Example:
        >>> score = Concat(units=8)
        >>> score(keras.ops.ones((1, 2, 3, 4)), keras.ops.ones((1, 2, 5, 6))).shape, score.kernel.shape
        (TensorShape([1, 2, 3, 5]), TensorShape([2, 10, 8]))
    """

    comparison = TanhSum
    sizes_may_differ = True

    def __init__(self, units: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_sizes(units=units)
        self.units = units
        self.additive = Additive(seed=seed_of("additive", self.seed), name="additive", dtype=self.dtype_policy)

    def build(self, query_shape: Any, key_shape: Any) -> None:
        heads, query_size, key_size = query_shape[1], query_shape[-1], key_shape[-1]
        units = self.units or query_size
        shape = heads, query_size + key_size, units
        self.kernel = self.add_weight(name="kernel", shape=shape, initializer=glorot(*shape[1:], self.seed))
        build_once(self.additive, (None, heads, None, units), (None, heads, None, units))

    def prepare(self, query: Any, key: Any) -> tuple[Any, ...]:
        kernel = ops.cast(self.kernel, query.dtype)
        size = query.shape[-1]
        query = ops.einsum("bhtk,hku->bhtu", query, kernel[:, :size])
        return self.additive.prepare(query, ops.einsum("bhsk,hku->bhsu", key, kernel[:, size:]))


SCORE_CLASSES: dict[str, type[Score]] = {**PRODUCTS, "cosine": Cosine, "additive": Additive, "concat": Concat}
"""The score functions by name."""


ScoreArgument = str | Mapping[str, Any] | Score
"""A score function, its name or its config; plugins may register other names."""


def make_score(score: ScoreArgument, **arguments: Any) -> Score:
    """Makes a score function.

    Args:
        score: a name, a config or a layer without weights, as for `attention.by_name.describe_layer`.
        **arguments: further arguments, such as `name` and `dtype`. An argument in a config or a layer has precedence.

    Returns:
        A new `Score`.

    Raises:
        ValueError: see `describe_layer`.

    Example:
        >>> make_score("cosine").initial_scale, make_score(Cosine(initial_scale=2.0)).initial_scale
        (10.0, 2.0)
    """
    return make_layer(SCORE_CLASSES, describe_layer("score", SCORE_CLASSES, score), **arguments)
