"""Normalisation, dropout and the sum with the input around every sublayer of a Transformer."""

import keras

from ..config.names.model import NORMS
from ..layers.dropout import Dropout
from ..layers.layer_normalization import LayerNormalization


@keras.saving.register_keras_serializable(package="qkv")
class Residual(keras.Layer):
    """The residual connection around a sublayer f, with the normalisation before or after it.

    - `post`: `norm(x + dropout(f(x)))` (Vaswani et al. 2017, section 5.4).
    - `pre`: `x + dropout(f(norm(x)))` (Xiong et al. 2020, table 1); the stack then needs a last normalisation.

    It is used as `y = residual.leave(x, f(residual.enter(x)))`, so that f may return attention weights on the way.

    Args:
        norm: "pre" or "post".
        dropout: share of the sublayer's output set to zero in training.

    Example:
        >>> residual, x = Residual("pre"), keras.ops.array([[[1.0, 3.0]]])
        >>> residual.leave(x, 10 * residual.enter(x))[0].numpy().round(1).tolist()  # 1 + 10 * -1, 3 + 10 * 1
        [[-9.0, 13.0]]
    """

    def __init__(self, norm="pre", dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        if norm not in NORMS:
            raise ValueError(f"norm: expected {' or '.join(NORMS)}, found {norm!r}")
        self.norm = norm
        self.normalization = LayerNormalization(epsilon=1e-5, name="norm", dtype=self.dtype_policy)
        self.dropout = Dropout(dropout, name="dropout", dtype=self.dtype_policy)

    def build(self, input_shape):
        self.normalization.build(input_shape)

    def enter(self, x):
        """Returns the input of the sublayer, of the shape of x."""
        return self.normalization(x) if self.norm == "pre" else x

    def leave(self, x, y, training=None):
        """Joins the block's input x and the sublayer's output y, both `(B, T, D)`."""
        joined = x + self.dropout(y, training=training)
        return self.normalization(joined) if self.norm == "post" else joined

    def call(self, x, y, training=None):
        return self.leave(x, y, training=training)

    def get_config(self):
        return {**super().get_config(), "norm": self.norm, "dropout": self.dropout.rate}
