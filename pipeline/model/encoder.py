"""The Transformer's encoder: self-attention and feed-forward, layer upon layer.

Letters: B batch, H heads, S source positions, D model width.
"""

import keras

from pipeline.attention.self_attention import SelfAttention
from pipeline.model.feed_forward import FeedForward
from pipeline.model.residual import Residual


@keras.saving.register_keras_serializable(package="qkv")
class EncoderBlock(keras.Layer):
    """One layer of the encoder (Vaswani et al. 2017, section 3.1).

    Args:
        d_model: D.
        num_heads: H, a divisor of D.
        d_ff: width of the feed-forward network's hidden layer.
        score: score function of the self-attention, see `pipeline.attention.scores`.
        norm: "pre" or "post", see `Residual`.
        activation: of the feed-forward network.
        dropout: on the output of each sublayer.
        attention_dropout: on the attention weights.
        activation_dropout: on the feed-forward network's hidden layer.

    Call arguments:
        x: `(B, S, D)`.
        mask: bool, broadcastable to `(B, H, S, S)`.
        training: whether dropout is applied.

    Returns:
        `(states, weights)`: `(B, S, D)` and float32 `(B, H, S, S)`.
    """

    def __init__(
        self,
        d_model,
        num_heads,
        d_ff,
        score="scaled_dot",
        norm="pre",
        activation="relu",
        dropout=0.0,
        attention_dropout=0.0,
        activation_dropout=0.0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        policy = self.dtype_policy
        self.settings = {
            "d_model": d_model,
            "num_heads": num_heads,
            "d_ff": d_ff,
            "score": score,
            "norm": norm,
            "activation": activation,
            "dropout": dropout,
            "attention_dropout": attention_dropout,
            "activation_dropout": activation_dropout,
        }
        self.self_attention = SelfAttention(
            num_heads, d_model // num_heads, score=score, dropout=attention_dropout, name="self_attention", dtype=policy
        )
        self.self_attention_residual = Residual(norm, dropout, name="self_attention_residual", dtype=policy)
        self.feed_forward = FeedForward(
            d_model, d_ff, activation, activation_dropout, name="feed_forward", dtype=policy
        )
        self.feed_forward_residual = Residual(norm, dropout, name="feed_forward_residual", dtype=policy)

    def build(self, input_shape):
        for layer in (
            self.self_attention,
            self.self_attention_residual,
            self.feed_forward,
            self.feed_forward_residual,
        ):
            layer.build(input_shape)

    def call(self, x, mask=None, training=None):
        y, weights = self.self_attention(self.self_attention_residual.enter(x), mask=mask, training=training)
        x = self.self_attention_residual.leave(x, y, training=training)
        y = self.feed_forward(self.feed_forward_residual.enter(x), training=training)
        return self.feed_forward_residual.leave(x, y, training=training), weights

    def compute_mask(self, *arguments):
        """No mask leaves: they are passed explicitly, and Keras would hang this one on the states."""

    def compute_output_shape(self, input_shape):
        batch, length, _ = input_shape
        return input_shape, (batch, self.self_attention.num_heads, length, length)

    def get_config(self):
        return {**super().get_config(), **self.settings}
