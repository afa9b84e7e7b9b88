"""What all Transformer blocks have in common: self-attention and a feed-forward network.

Letters: B batch, T positions, D model width.
"""

import keras
from keras.src.backend import get_keras_mask

from ..attention.self_attention import SelfAttention
from ..layers.dynamic_shape import check_sizes
from .constructor import ConstructorConfig
from .feed_forward import FeedForward
from .places import Heads, Returned
from .residual import Residual


class Block(ConstructorConfig, keras.Layer):
    """Self-attention and a feed-forward network, each in a residual connection; subclasses define which positions
    attend to which.

    Args:
        d_model: D.
        num_heads: heads of every attention layer, a divisor of D unless `key_dim` and `value_dim` are given.
        d_ff: width of the feed-forward network's hidden layer.
        self_attention: further arguments of `SelfAttention` as a dict, such as `{"score": "cosine"}`.
        norm: "pre" or "post", see `Residual`.
        activation: of the feed-forward network.
        dropout: on the output of each sublayer.
        attention_dropout: on the attention weights.
        activation_dropout: on the feed-forward network's hidden layer.
    """

    def __init__(
        self,
        d_model,
        num_heads,
        d_ff,
        self_attention=None,
        norm="pre",
        activation="relu",
        dropout=0.0,
        attention_dropout=0.0,
        activation_dropout=0.0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_sizes(d_model=d_model, num_heads=num_heads, d_ff=d_ff)
        self.d_model, self.num_heads, self.norm, self.dropout = d_model, num_heads, norm, dropout
        self.attention_dropout = attention_dropout
        self.self_attention = SelfAttention(**self._attention_arguments(self_attention), name="self_attention")
        self.self_attention_residual = self._residual("self_attention_residual")
        self.feed_forward = FeedForward(
            d_model, d_ff, activation, activation_dropout, name="feed_forward", dtype=self.dtype_policy
        )
        self.feed_forward_residual = self._residual("feed_forward_residual")

    def _attention_arguments(self, settings):
        width, heads = self.d_model, self.num_heads
        if width % heads and not {"key_dim", "value_dim"} <= set(settings or {}):
            raise ValueError(f"d_model: expected a multiple of num_heads = {heads}, found {width}")
        defaults = {
            "num_heads": heads,
            "key_dim": width // heads,
            "value_dim": width // heads,
            "output_dim": width,
            "dropout": self.attention_dropout,
            "dtype": self.dtype_policy,
        }
        return {**defaults, **(settings or {})}

    def _residual(self, name):
        return Residual(self.norm, self.dropout, name=name, dtype=self.dtype_policy)

    def build(self, x_shape):
        for layer in (
            self.self_attention,
            self.self_attention_residual,
            self.feed_forward,
            self.feed_forward_residual,
        ):
            layer.build(x_shape)

    def transform(self, x, training=None):
        """Applies the feed-forward network in its residual: `(B, T, D) -> (B, T, D)`."""
        y = self.feed_forward(self.feed_forward_residual.enter(x), training=training)
        return self.feed_forward_residual.leave(x, y, training=training)

    def places(self, name, before=None):
        """Names what the layer computes, see `TranslationModel.places`.

        Args:
            name: of the layer.
            before: of the keys before its own positions, see `Heads`.
        """
        own, after = f"{name}.self", f"{name}.feed_forward"
        yield Returned(self.self_attention, "project", (f"{own}.queries", f"{own}.keys", f"{own}.values"))
        yield Heads(self.self_attention, own, before)
        yield Returned(self.self_attention_residual, "leave", f"{own}.residual")
        yield Returned(self.feed_forward, "call", f"{after}.output")
        yield Returned(self.feed_forward_residual, "leave", f"{after}.residual")

    def compute_mask(self, inputs, previous_mask=None):
        """Passes the mask of x on to the states."""
        return (get_keras_mask(inputs),)
