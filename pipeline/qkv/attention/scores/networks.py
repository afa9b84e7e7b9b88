"""Scores by a small network with one hidden layer.

Letters: B batch, H heads, T target (query) positions, S source (key) positions, K key size.
"""

import keras
from keras import ops

from ...layers.dynamic_shape import check_sizes
from ..pairwise import TanhSum
from .score import Score


@keras.saving.register_keras_serializable(package="qkv")
class Additive(Score):
    """`e = v . tanh(q + k [+ b])`, one v (and b) for each head (Bahdanau et al. 2015, appendix A.1.2).

    The paper's W_q and W_k are the projections of the layer around it, so that they are computed once per position and
    not once per pair. The score needs memory for B * H * T * S * K numbers.

    Args:
        use_bias: adds b inside the tanh. The paper has none.

    Call arguments and returns: as in `Score`.

    Example:
        >>> score = Additive()
        >>> score(keras.ops.ones((1, 2, 3, 4)), keras.ops.ones((1, 2, 5, 4))).shape, score.v.shape
        (TensorShape([1, 2, 3, 5]), TensorShape([2, 4]))
    """

    comparison = TanhSum
    projected = True

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

    This is `Additive` after projections, since `W [q; k] = W_1 q + W_2 k`, but with matrices of its own.

    Args:
        units: size of the hidden layer in which query and key meet; the query's size if not given.

    Call arguments and returns: as in `Score`; queries and keys may differ in size.

    Example:
        >>> score = Concat(units=8)
        >>> score(keras.ops.ones((1, 2, 3, 4)), keras.ops.ones((1, 2, 5, 6))).shape, score.kernel.shape
        (TensorShape([1, 2, 3, 5]), TensorShape([2, 10, 8]))
    """

    comparison = TanhSum
    sizes_may_differ = True

    def __init__(self, units=None, **kwargs):
        super().__init__(**kwargs)
        check_sizes(units=units)
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


NETWORKS = {"additive": Additive, "concat": Concat}
