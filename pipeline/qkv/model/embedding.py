"""Embeddings of tokens and positions, distances between positions, and logits over the vocabulary.

Letters: B batch, T positions, D model width, V vocabulary.
"""

import keras
import numpy as np
from keras import ops

from ..attention.relative_positions import NO_DISTANCES, Distances, alibi_bias, rotation
from ..config.choices.model import POSITION_PLACES, POSITIONS, RELATIVE_POSITIONS, TIED_EMBEDDINGS
from ..layers.constructor_config import ConstructorConfig, ReplaceableLayers
from ..layers.keras_layers import Dropout, check_sizes, dynamic_shape, row_product
from ..layers.tap import tap


def sinusoidal_positions(length, width, halves=False):
    """Computes `p[t, 2i] = sin(t / 10000^(2i/D))`, `p[t, 2i + 1] = cos(same)` (Vaswani et al. 2017, section 3.5):
    float32 `(length, D)`; with `halves`, all sines stand before all cosines (Marian, Junczys-Dowmunt et al. 2018)."""
    angles = np.arange(length)[:, None] / 10000 ** (np.arange(0, width, 2)[None] / width)
    table = np.zeros((length, width), "float32")
    table[:, 0::2] = np.sin(angles)
    table[:, 1::2] = np.cos(angles[:, : width // 2])
    return np.concatenate([table[:, 0::2], table[:, 1::2]], axis=1) if halves else table


@keras.saving.register_keras_serializable(package="qkv")
class TokenEmbedding(ConstructorConfig, keras.Layer):
    """A table with one vector for each id, read in both directions (Press and Wolf 2017; Vaswani et al. 2017, 3.4).

    `call(ids) = table[ids] * sqrt(D)`, and `logits(states) = states . table^T + bias`.
    Ids may have any type of numbers.

    Args:
        vocabulary_size: V.
        width: D.
        scale: whether `call` multiplies by `sqrt(D)`.
        bias: whether `logits` adds a bias.

    Example:
        >>> embedding = TokenEmbedding(vocabulary_size=20, width=8)
        >>> x = embedding(keras.ops.array([[5, 6, 7]]))
        >>> x.shape, embedding.logits(x).shape
        (TensorShape([1, 3, 8]), TensorShape([1, 3, 20]))
    """

    def __init__(self, vocabulary_size, width, scale=True, bias=False, **kwargs):
        super().__init__(**kwargs)
        self.autocast = False  # or Keras would round ids of type float to half precision
        check_sizes(vocabulary_size=vocabulary_size, width=width)
        self.vocabulary_size = vocabulary_size
        self.width = width
        self.scale = scale
        self.has_bias = bias
        self.lora = None

    def build(self, ids_shape=None):
        normal = keras.initializers.RandomNormal(stddev=self.width**-0.5)
        self.table = self.add_weight(name="table", shape=(self.vocabulary_size, self.width), initializer=normal)
        if self.has_bias:
            # It is added to logits in float32, so Keras shall not round it.
            self.bias = self.add_weight(name="bias", shape=(self.vocabulary_size,), initializer="zeros", autocast=False)

    def enable_lora(self, rank, lora_alpha=None):
        """Freezes the table and adds to it `alpha / rank` times the product of two trainable matrices, `(V, rank)` and
        `(rank, D)`, as `keras.layers.Embedding.enable_lora`; saved, they are one matrix again (Hu et al. 2022)."""
        if self.lora is not None:
            raise ValueError(f"{self.name}: enable_lora can be called once only")
        self.table.trainable = False
        self._tracker.unlock()
        self.lora = [
            self.add_weight(name="lora_a", shape=(self.vocabulary_size, rank), initializer="he_uniform"),
            self.add_weight(name="lora_b", shape=(rank, self.width), initializer="zeros"),
        ]
        self._tracker.lock()
        self.lora_scale = (lora_alpha or rank) / rank

    def _matrix(self):
        """Returns the table, with what LoRA adds to it."""
        return self.table if self.lora is None else self.table + self.lora_scale * ops.matmul(*self.lora)

    def save_own_variables(self, store):
        if self.lora is None:
            super().save_own_variables(store)
        else:
            for i, value in enumerate([self._matrix(), *([self.bias] if self.has_bias else [])]):
                store[f"{i}"] = value

    def load_own_variables(self, store):
        if self.lora is None:
            super().load_own_variables(store)
        else:
            for i, variable in enumerate([self.table, *([self.bias] if self.has_bias else [])]):
                variable.assign(store[f"{i}"])
            self.lora[1].assign(ops.zeros_like(self.lora[1]))

    def call(self, ids):
        if keras.backend.standardize_dtype(ids.dtype) not in ("int32", "int64"):
            ids = ops.cast(ids, "int32")
        vectors = ops.cast(ops.take(self._matrix(), ids, axis=0), self.compute_dtype)
        # Scaled after the look-up: the table is far larger than a batch.
        return tap(self, "vectors", vectors * self.width**0.5 if self.scale else vectors)

    def logits(self, states):
        """Computes unnormalised log-probabilities: `(B, T, D) -> float32 (B, T, V)`."""
        table = ops.cast(self._matrix(), states.dtype)
        logits = ops.cast(row_product(states, ops.transpose(table)), "float32")
        return logits + ops.cast(self.bias, "float32") if self.has_bias else logits

    def factors(self, states):
        """Returns the two matrices whose product are the logits: `(N, D)` and `(V, D)`, or, with a bias, both with one
        more column, which is 1 in the first."""
        if not self.has_bias:
            return states, self._matrix()
        ones = ops.ones((dynamic_shape(states)[0], 1), states.dtype)
        table = ops.convert_to_tensor(self._matrix())
        bias = ops.cast(ops.expand_dims(self.bias, 1), table.dtype)
        return ops.concatenate([states, ones], axis=1), ops.concatenate([table, bias], axis=1)

    def compute_output_shape(self, ids_shape):
        return (*ids_shape, self.width)


@keras.saving.register_keras_serializable(package="qkv")
class PositionalEmbedding(ConstructorConfig, ReplaceableLayers, keras.Layer):
    """Adds positions to embeddings and applies dropout.

    Args:
        kind: a key of `choices.model.POSITIONS`; "rotary" and "alibi" act on self-attention and add nothing here.
        site: "input" adds a vector for each position; "queries_and_keys" leaves that to every attention layer, which
            takes it from `on_queries_and_keys`, so that values stay free of it (Carion et al. 2020, DETR, appendix
            A.1).
        max_positions: number of positions.
        dropout: share of the coordinates set to zero in training.

    Call arguments:
        x: `(B, T, D)`.
        offset: the position of the first row, of all sentences or of each as `(B, 1)`; a cached decoding step at
            position t passes t.
        training: whether dropout is applied.

    Raises:
        ValueError: there are more than `max_positions`, as far as lengths are known before the computation.

    Example:
        >>> layer = PositionalEmbedding(max_positions=10)
        >>> print(layer(keras.ops.zeros((1, 2, 4)))[0].numpy().round(2))  # sin(t), cos(t), sin(t / 100), cos(t / 100)
        [[0.   1.   0.   1.  ]
         [0.84 0.54 0.01 1.  ]]
    """

    def __init__(self, kind="sinusoidal", max_positions=512, dropout=0.0, site="input", **kwargs):
        super().__init__(**kwargs)
        if kind not in POSITIONS:
            raise ValueError(f"kind: expected {' or '.join(POSITIONS)}, found {kind!r}")
        if site not in POSITION_PLACES:
            raise ValueError(f"site: expected {' or '.join(POSITION_PLACES)}, found {site!r}")
        check_sizes(max_positions=max_positions)
        self.kind = kind
        self.adds_to = None if kind in RELATIVE_POSITIONS else site
        self.max_positions = max_positions
        self.dropout = Dropout(dropout, name="dropout", dtype=self.dtype_policy)

    def build(self, input_shape):
        width = input_shape[-1]
        if self.kind == "learned":
            normal = keras.initializers.RandomNormal(stddev=0.02)
            self.table = self.add_weight(name="table", shape=(self.max_positions, width), initializer=normal)
        elif self.kind not in RELATIVE_POSITIONS:
            self.table = sinusoidal_positions(self.max_positions, width, self.kind == "sinusoidal_halves")

    def on_queries_and_keys(self, length, offset=0):
        """Returns what is added to queries and keys: `(T, D)`, `(B, T, D)` for offsets `(B, 1)`, or None."""
        return self._rows(length, offset) if self.adds_to == "queries_and_keys" else None

    def _rows(self, length, offset):
        if isinstance(offset, int):
            check_length(self.name, length, self.max_positions, offset)
        positions = ops.arange(length, dtype="int32") + offset
        return ops.take(ops.cast(ops.convert_to_tensor(self.table), self.compute_dtype), positions, axis=0)

    def distances(self, attention, query_positions, key_positions=None):
        """Computes the `Distances` that the self-attention layers of a stack take: none unless the kind acts on them.

        Args:
            attention: one of these layers, which all have the same heads.
            query_positions: int `(T,)` or `(B, T)`, where the queries stand.
            key_positions: int `(S,)` or `(B, S)`, where the keys stand: the cached ones, then the queries' own; if not
                given, the queries' alone.
        """
        if self.kind == "rotary":
            return Distances(rotation=rotation(query_positions, attention.key_dim))
        if self.kind == "alibi":
            keys = query_positions if key_positions is None else key_positions
            return Distances(bias=alibi_bias(query_positions, keys, attention.num_heads))
        return NO_DISTANCES

    def call(self, x, offset=0, training=None):
        if self.adds_to == "input":
            x = x + self._rows(dynamic_shape(x)[1], offset)
        return self.dropout(x, training=training)

    def compute_output_shape(self, input_shape):
        return input_shape


def check_length(name, length, longest, earlier=0):
    """Raises a `ValueError` if a sequence has too many positions.

    Args:
        name: the sequence, for the message.
        length: its number of positions; a tensor, which is unknown before the computation, is not checked.
        longest: the largest number.
        earlier: the number of positions before it that count as well.
    """
    if isinstance(length, int) and earlier + length > longest:
        raise ValueError(
            f"{name}: expected at most max_positions = {longest} tokens, found {earlier + length}; cut the "
            "sequence, or make the model with more max_positions"
        )


def make_embeddings(vocabulary_size, width, tie_embeddings, dtype, scale=True, bias=False):
    """Makes the `TokenEmbedding` of target, source and output, which may be one and the same.

    Args:
        vocabulary_size: V.
        width: D.
        tie_embeddings: which embeddings share one table: "all", "target" (target and output), or "none".
        dtype: the Keras dtype policy.
        scale, bias: see `TokenEmbedding`; only the output has the bias.

    Raises:
        ValueError: `tie_embeddings` is none of these.
    """
    if tie_embeddings not in TIED_EMBEDDINGS:
        raise ValueError(f"tie_embeddings: expected one of {', '.join(TIED_EMBEDDINGS)}, found {tie_embeddings!r}")

    def make(side, bias=False):
        return TokenEmbedding(vocabulary_size, width, scale, bias, name=f"{side}_embedding", dtype=dtype)

    target = make("target", bias=bias and tie_embeddings != "none")
    source = target if tie_embeddings == "all" else make("source")
    return target, source, make("output", bias) if tie_embeddings == "none" else target
