"""Attention layers, which return `(context, weights)`, and the masks that they take.

The modules, in reading order:

- `masks`: boolean masks, and the softmax that applies them
- `scores`: score functions, which compare queries with keys
- `mechanisms`: mechanisms, which compute contexts from queries, keys and values
- `by_name`: score functions and mechanisms made from names and configs
- `relative_positions`: rotary positions and ALiBi
- `multi_head`: the arguments and the base class of attention layers, and multi-head attention
- `self_attention`: attention of a sequence to itself
- `cross_attention`: attention of a sequence to another one
- `additive`: Bahdanau's attention
- `keras_counterpart`: conversion between these layers and Keras'
"""

from .additive import AdditiveAttention
from .cross_attention import CrossAttention
from .keras_counterpart import from_keras, to_keras
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
    "to_keras",
]
