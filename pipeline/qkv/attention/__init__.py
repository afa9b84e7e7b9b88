"""Attention layers, which all return `(context, weights)`, and the masks that they take."""

from .additive import AdditiveAttention
from .cross_attention import CrossAttention
from .from_keras import from_keras
from .masks import causal_mask, padding_mask
from .multi_head import MultiHeadAttention
from .relative_positions import Distances, alibi_bias, rotation
from .self_attention import SelfAttention

__all__ = [
    "AdditiveAttention",
    "CrossAttention",
    "Distances",
    "MultiHeadAttention",
    "SelfAttention",
    "alibi_bias",
    "causal_mask",
    "from_keras",
    "padding_mask",
    "rotation",
]
