"""Scores that are products of query and key.

Letters: B batch, H heads, T target (query) positions, S source (key) positions, K key size.
"""

import keras
from keras import ops

from .score import Score


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

    The scale keeps the variance of the scores at that of one coordinate, whatever K is, so that the softmax does not
    start out saturated.

    Call arguments and returns: as in `Score`.

    Example:
        >>> ScaledDot()(keras.ops.ones((1, 1, 2, 16)), keras.ops.ones((1, 1, 3, 16)))[0, 0].numpy().tolist()
        [[4.0, 4.0, 4.0], [4.0, 4.0, 4.0]]
    """

    projected = by_angle = is_product = True

    def prepare(self, query, key):
        # The query is the smaller side to scale: (T, K) numbers instead of (T, S).
        return query * (query.shape[-1] ** -0.5), key


@keras.saving.register_keras_serializable(package="qkv")
class General(Score):
    """`e = q^T W k`, one W for each head (Luong et al. 2015, section 3.1, "general").

    Queries and keys may differ in size.

    Call arguments and returns: as in `Score`.

    Example:
        >>> score = General()
        >>> score(keras.ops.ones((1, 2, 3, 4)), keras.ops.ones((1, 2, 5, 6))).shape, score.kernel.shape
        (TensorShape([1, 2, 3, 5]), TensorShape([2, 4, 6]))
    """

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


PRODUCTS = {"scaled_dot": ScaledDot, "dot": Dot, "general": General}
