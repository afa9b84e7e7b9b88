"""Score functions: how a query is compared with a key, before the softmax.

Every score function is a layer called as `score(query, key)` with query `(B, H, T, K)` and key `(B, H, S, K)`, one
slice per head, and returns scores `(B, H, T, S)`. What a function learns, it learns for each head apart.
Letters: B batch, H heads, T target (query) positions, S source (key) positions, K key size.
"""

import math

import keras
from keras import ops

from .pairwise import DotProduct, TanhSum


class Score(keras.Layer):
    """What all score functions share: each side is prepared by itself, and then all pairs are compared.

    So whoever has no room for all pairs can prepare once, and compare as many at a time as there is room for.
    """

    comparison: type[DotProduct] | type[TanhSum] = DotProduct
    """How prepared queries and keys are compared, see `pipeline.attention.pairwise`."""

    sizes_may_differ = False
    """Whether queries and keys of different sizes can be compared."""

    def build(self, query_shape, key_shape):
        """Makes what the function learns: nothing, unless a subclass says otherwise."""

    def prepare(self, query, key):
        """Everything before the comparison: what it takes, queries and keys first."""
        return query, key

    def call(self, query, key):
        return self.comparison.compare(*self.prepare(query, key))[0]

    def compute_output_shape(self, query_shape, key_shape):
        return (*query_shape[:-1], key_shape[-2])


@keras.saving.register_keras_serializable(package="qkv")
class Dot(Score):
    """`e = q . k` (Luong et al. 2015, section 3.1, "dot").

    Example:
        >>> Dot()(keras.ops.ones((1, 1, 2, 4)), keras.ops.ones((1, 1, 3, 4))).shape
        TensorShape([1, 1, 2, 3])
    """


@keras.saving.register_keras_serializable(package="qkv")
class ScaledDot(Score):
    """`e = q . k / sqrt(K)` (Vaswani et al. 2017, equation 1).

    The scale keeps the variance of the scores at that of one coordinate, whatever K is, so that the softmax does not
    start out saturated.
    """

    def prepare(self, query, key):
        # The query is the smaller side to scale: (T, K) numbers instead of (T, S).
        return query * (query.shape[-1] ** -0.5), key


@keras.saving.register_keras_serializable(package="qkv")
class General(Score):
    """`e = q^T W k`, one W for each head (Luong et al. 2015, section 3.1, "general")."""

    sizes_may_differ = True

    def build(self, query_shape, key_shape):
        heads, size = query_shape[1], query_shape[-1]
        # Glorot over one head's matrix: Keras would read three axes as a convolution's.
        self.kernel = self.add_weight(
            name="kernel",
            shape=(heads, size, key_shape[-1]),
            initializer=keras.initializers.RandomUniform(
                -((6 / (size + key_shape[-1])) ** 0.5), (6 / (size + key_shape[-1])) ** 0.5
            ),
        )

    def prepare(self, query, key):
        return ops.einsum("bhtk,hkl->bhtl", query, ops.cast(self.kernel, query.dtype)), key


@keras.saving.register_keras_serializable(package="qkv")
class Cosine(Score):
    """`e = g * cos(q, k)` with a learnt positive scale g for each head (Graves et al. 2014, equation 5).

    A cosine lies within -1 and 1, too narrow a range for a sharp softmax: `g = exp(s)` starts at `initial_scale`.

    Args:
        initial_scale: g before training.
    """

    def __init__(self, initial_scale=10.0, **kwargs):
        super().__init__(**kwargs)
        self.initial_scale = initial_scale

    def build(self, query_shape, key_shape):
        self.log_scale = self.add_weight(
            name="log_scale",
            shape=(query_shape[1], 1, 1),
            initializer=keras.initializers.Constant(math.log(self.initial_scale)),
        )

    def prepare(self, query, key):
        query, key = (ops.normalize(ops.cast(side, "float32"), axis=-1, epsilon=1e-6) for side in (query, key))
        return ops.exp(ops.cast(self.log_scale, "float32")) * query, key

    def get_config(self):
        return {**super().get_config(), "initial_scale": self.initial_scale}


@keras.saving.register_keras_serializable(package="qkv")
class Additive(Score):
    """`e = v . tanh(q + k [+ b])`, one v (and b) for each head (Bahdanau et al. 2015, appendix A.1.2).

    The paper's W_q and W_k are the projections of the layer around it, so that they are computed once per position
    and not once per pair. Needs room for B * H * T * S * K numbers.

    Args:
        use_bias: adds b inside the tanh. The paper has none.
    """

    comparison = TanhSum

    def __init__(self, use_bias=False, **kwargs):
        super().__init__(**kwargs)
        self.use_bias = use_bias

    def build(self, query_shape, key_shape):
        heads, size = query_shape[1], query_shape[-1]
        limit = (6 / (size + 1)) ** 0.5
        self.v = self.add_weight(
            name="v", shape=(heads, size), initializer=keras.initializers.RandomUniform(-limit, limit)
        )
        self.bias = self.add_weight(name="bias", shape=(heads, size), initializer="zeros") if self.use_bias else None

    def prepare(self, query, key):
        if self.bias is not None:
            query = query + ops.cast(ops.expand_dims(self.bias, 1), query.dtype)
        return query, key, ops.cast(self.v, query.dtype)

    def get_config(self):
        return {**super().get_config(), "use_bias": self.use_bias}


@keras.saving.register_keras_serializable(package="qkv")
class Concat(Score):
    """`e = v . tanh(W [q; k])`, one W and v for each head (Luong et al. 2015, section 3.1, "concat").

    The same function as `Additive` after projections, since `W [q; k] = W_1 q + W_2 k`: here the matrices are its own.

    Args:
        units: size of the hidden layer in which query and key meet; the query's size if not given.
    """

    comparison = TanhSum
    sizes_may_differ = True

    def __init__(self, units=None, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.additive = Additive(name="additive", dtype=self.dtype_policy)

    def build(self, query_shape, key_shape):
        heads, query_size, key_size = query_shape[1], query_shape[-1], key_shape[-1]
        units = self.units or query_size
        limit = (6 / (query_size + key_size + units)) ** 0.5
        self.kernel = self.add_weight(
            name="kernel",
            shape=(heads, query_size + key_size, units),
            initializer=keras.initializers.RandomUniform(-limit, limit),
        )
        self.additive.build((None, heads, None, units), (None, heads, None, units))

    def prepare(self, query, key):
        kernel = ops.cast(self.kernel, query.dtype)
        size = query.shape[-1]
        query = ops.einsum("bhtk,hku->bhtu", query, kernel[:, :size])
        return self.additive.prepare(query, ops.einsum("bhsk,hku->bhsu", key, kernel[:, size:]))

    def get_config(self):
        return {**super().get_config(), "units": self.units}


SCORES = {
    "scaled_dot": ScaledDot,
    "dot": Dot,
    "general": General,
    "cosine": Cosine,
    "additive": Additive,
    "concat": Concat,
}


def make_score(score, **kwargs):
    """Makes the score function of that name.

    Args:
        score: a key of `SCORES`.
        **kwargs: arguments of that layer, such as `name` and `dtype`.

    Raises:
        ValueError: there is none of that name.
    """
    if score not in SCORES:
        raise ValueError(f"score: no such function; expected one of {', '.join(SCORES)}, found {score!r}")
    return SCORES[score](**kwargs)
