"""Attention layers, which all return `(context, weights)`, and the masks that they take."""

from .additive import AdditiveAttention
from .cross_attention import CrossAttention
from .masks import causal_mask, padding_mask
from .multi_head import MultiHeadAttention
from .self_attention import SelfAttention

__all__ = [
    "AdditiveAttention",
    "CrossAttention",
    "MultiHeadAttention",
    "SelfAttention",
    "causal_mask",
    "padding_mask",
]
