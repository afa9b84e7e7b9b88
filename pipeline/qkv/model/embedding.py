"""Embeddings of tokens and positions, distances between positions, and logits over the vocabulary.

Letters: B batch, T positions, D model width, V vocabulary.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

import keras
import numpy as np
from keras import ops

from ..attention.multi_head import AttentionLayer
from ..attention.relative_positions import NO_DISTANCES, Distances, make_distances
from ..config.choices.model import (
    POSITION_PLACES,
    POSITIONS,
    RELATIVE_POSITIONS,
    TIED_EMBEDDINGS,
    PositionPlace,
    Positions,
    TiedEmbeddings,
)
from ..layers.constructor_config import ConstructorConfig, ReplaceableLayers
from ..layers.keras_layers import Dropout, FloatOnly, check_sizes, dynamic_shape, row_product
from ..layers.tap import tap


def sinusoidal_positions(length: int, width: int, halves: bool = False) -> np.ndarray:
    """Computes `p[t, 2i] = sin(t / 10000^(2i/D))`, `p[t, 2i + 1] = cos(t / 10000^(2i/D))` (Vaswani et al. 2017, section
    3.5).

    Args:
        length: the number of positions.
        width: D.
        halves: if True, all sines come before all cosines (Marian, Junczys-Dowmunt et al. 2018).

    Returns:
        float32 `(length, D)`.
    """
    angles = np.arange(length)[:, None] / 10000 ** (np.arange(0, width, 2)[None] / width)
    table = np.zeros((length, width), "float32")
    table[:, 0::2] = np.sin(angles)
    table[:, 1::2] = np.cos(angles[:, : width // 2])
    return np.concatenate([table[:, 0::2], table[:, 1::2]], axis=1) if halves else table


@keras.saving.register_keras_serializable(package="qkv")
class TokenEmbedding(ConstructorConfig, FloatOnly, keras.Layer):
    """A table with one vector for each id, for embeddings and logits (Press and Wolf 2017; Vaswani et al. 2017, 3.4).

    `call(ids) = table[ids] * sqrt(D)`, and `logits(states) = states . table^T + bias`.

    Args:
        vocabulary_size: V.
        width: D.
        scale: whether `call` multiplies by `sqrt(D)`.
        bias: whether `logits` adds a bias.
        **kwargs: the arguments of `keras.Layer`.

    Call arguments:
        ids: whole numbers of any type, `(B, T)`.

    Returns:
        The vectors, `(B, T, D)`.

    Raises:
        ValueError: a size is not a whole number of at least 1.

    Example:
        >>> embedding = TokenEmbedding(vocabulary_size=20, width=8)
        >>> x = embedding(keras.ops.array([[5, 6, 7]]))
        >>> x.shape, embedding.logits(x).shape
        (TensorShape([1, 3, 8]), TensorShape([1, 3, 20]))
    """

    def __init__(self, vocabulary_size: int, width: int, scale: bool = True, bias: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.autocast = False  # or Keras would round ids of type float to half precision
        check_sizes(vocabulary_size=vocabulary_size, width=width)
        self.vocabulary_size = vocabulary_size
        self.width = width
        self.scale = scale
        self.has_bias = bias
        self.lora: list[Any] | None = None

    def build(self, ids_shape: Any = None) -> None:
        normal = keras.initializers.RandomNormal(stddev=self.width**-0.5)
        self.table = self.add_weight(name="table", shape=(self.vocabulary_size, self.width), initializer=normal)
        if self.has_bias:
            # Added to logits in float32, so Keras must not round it.
            self.bias = self.add_weight(name="bias", shape=(self.vocabulary_size,), initializer="zeros", autocast=False)

    @property
    def lora_enabled(self) -> bool:
        """True after `enable_lora`."""
        return self.lora is not None

    def enable_lora(
        self,
        rank: int,
        lora_alpha: float | None = None,
        a_initializer: Any = "he_uniform",
        b_initializer: Any = "zeros",
    ) -> None:
        """Freezes the table and adds a trainable matrix of low rank to it, as `keras.layers.Embedding.enable_lora`.

        The added matrix is `alpha / rank` times the product of two matrices, `(V, rank)` and `(rank, D)` (Hu et al.
        2022). A saved file contains the sum.

        Args:
            rank: the rank of the added matrix, at least 1.
            lora_alpha: alpha; `rank` if not given.
            a_initializer, b_initializer: the initializers of both matrices.

        Raises:
            ValueError: the layer is not built, it has LoRA already, or `rank` is not a whole number of at least 1.
        """
        check_sizes(rank=rank)
        if not self.built:
            raise ValueError(f"{self.name}: enable_lora needs a built layer; call it or its build method first")
        if self.lora_enabled:
            raise ValueError(f"{self.name}: enable_lora can be called once only")
        self.table.trainable = False
        self._tracker.unlock()
        self.lora = [
            self.add_weight(name="lora_a", shape=(self.vocabulary_size, rank), initializer=a_initializer),
            self.add_weight(name="lora_b", shape=(rank, self.width), initializer=b_initializer),
        ]
        self._tracker.lock()
        self.lora_scale = (rank if lora_alpha is None else lora_alpha) / rank

    def _matrix(self) -> Any:
        """Returns the table `(V, D)`, plus the matrix that LoRA adds to it, if any."""
        return self.table if self.lora is None else self.table + self.lora_scale * ops.matmul(*self.lora)

    def _transposed(self, dtype: Any) -> Any:
        """Returns the transposed table, `(D, V)`."""
        return ops.transpose(ops.cast(self._matrix(), dtype))

    def save_own_variables(self, store: Any) -> None:
        if self.lora is None:
            super().save_own_variables(store)
        else:
            for i, value in enumerate([self._matrix(), *([self.bias] if self.has_bias else [])]):
                store[f"{i}"] = value

    def load_own_variables(self, store: Any) -> None:
        if self.lora is None:
            super().load_own_variables(store)
        else:
            for i, variable in enumerate([self.table, *([self.bias] if self.has_bias else [])]):
                variable.assign(store[f"{i}"])
            self.lora[1].assign(ops.zeros_like(self.lora[1]))

    def call(self, ids: Any) -> Any:
        if keras.backend.standardize_dtype(ids.dtype) not in ("int32", "int64"):
            ids = ops.cast(ids, "int32")
        vectors = ops.cast(ops.take(self._matrix(), ids, axis=0), self.compute_dtype)
        # Scaled after the look-up: the table is far larger than a batch.
        return tap(self, "vectors", vectors * self.width**0.5 if self.scale else vectors)

    def logits(self, states: Any) -> Any:
        """Computes unnormalised log-probabilities: `(B, T, D) -> float32 (B, T, V)`."""
        columns = _TRANSPOSED.get().get(self)
        columns = self._transposed(states.dtype) if columns is None else ops.cast(columns, states.dtype)
        logits = ops.cast(row_product(states, columns), "float32")
        return logits + ops.cast(self.bias, "float32") if self.has_bias else logits

    def factors(self, states: Any) -> tuple[Any, Any]:
        """Returns the two matrices whose product is the logits: `logits = first . second^T`.

        Args:
            states: `(N, D)`.

        Returns:
            `(N, D)` and `(V, D)`. With a bias, `(N, D + 1)` and `(V, D + 1)`: the last column of the first is 1, and
            the last column of the second is the bias.
        """
        if not self.has_bias:
            return states, self._matrix()
        ones = ops.ones((dynamic_shape(states)[0], 1), states.dtype)
        table = ops.convert_to_tensor(self._matrix())
        bias = ops.cast(ops.expand_dims(self.bias, 1), table.dtype)
        return ops.concatenate([states, ones], axis=1), ops.concatenate([table, bias], axis=1)

    def compute_output_shape(self, ids_shape: Any) -> tuple[int | None, ...]:
        return (*ids_shape, self.width)


_TRANSPOSED: ContextVar[Mapping[TokenEmbedding, Any]] = ContextVar("transposed", default=MappingProxyType({}))


@contextmanager
def transposed_tables(model: keras.Model) -> Iterator[None]:
    """Transposes the tables of a model once in a block that computes logits many times, as the steps of a search do.

    A product with a transposed table takes a processor up to a fifth longer, because it transposes the table each time.

    Args:
        model: the model, whose weights must not change in the block.
    """
    layers = [layer for layer in model._flatten_layers() if isinstance(layer, TokenEmbedding) and layer.built]
    token = _TRANSPOSED.set({layer: layer._transposed(layer.compute_dtype) for layer in layers})
    try:
        yield
    finally:
        _TRANSPOSED.reset(token)


@keras.saving.register_keras_serializable(package="qkv")
class PositionalEmbedding(ConstructorConfig, ReplaceableLayers, keras.Layer):
    """Adds positions to embeddings and applies dropout.

    Args:
        kind: a key of `config.choices.model.POSITIONS`. "rotary" and "alibi" act on self-attention, and the layer adds
            nothing to embeddings.
        max_positions: the number of positions.
        dropout: the share of the coordinates set to zero in training, from 0 to 1.
        site: "input" adds a vector for each position to the embeddings. With "queries_and_keys" the attention layers
            add it to queries and keys, so values do not contain positions (Carion et al. 2020, DETR, appendix A.1);
            they get it from `on_queries_and_keys`.
        **kwargs: the arguments of `keras.Layer`.

    Attributes:
        adds_to: `site`; None if `kind` is "rotary" or "alibi".

    Call arguments:
        x: `(B, T, D)`.
        offset: the position of the first row: a number for all sentences, or int `(B, 1)`. A cached decoding step at
            position t passes t. Packed rows have an offset for each row, `(B, T)`, see `attention.masks`.
        training: whether dropout is applied.

    Returns:
        `(B, T, D)`.

    Raises:
        ValueError: `kind` or `site` is unknown; `max_positions` is not a whole number of at least 1; or a sequence has
            more than `max_positions` positions, if lengths and offset are ints and not tensors.

    Example:
        >>> layer = PositionalEmbedding(max_positions=10)
        >>> print(layer(keras.ops.zeros((1, 2, 4)))[0].numpy().round(2))  # sin(t), cos(t), sin(t / 100), cos(t / 100)
        [[0.   1.   0.   1.  ]
         [0.84 0.54 0.01 1.  ]]
    """

    def __init__(
        self,
        kind: Positions = "sinusoidal",
        max_positions: int = 512,
        dropout: float = 0.0,
        site: PositionPlace = "input",
        **kwargs: Any,
    ) -> None:
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

    def build(self, input_shape: Any) -> None:
        width = input_shape[-1]
        if self.kind == "learned":
            normal = keras.initializers.RandomNormal(stddev=0.02)
            self.table = self.add_weight(name="table", shape=(self.max_positions, width), initializer=normal)
        elif self.kind not in RELATIVE_POSITIONS:
            self.table = sinusoidal_positions(self.max_positions, width, self.kind == "sinusoidal_halves")

    def on_queries_and_keys(self, length: Any, offset: Any = 0) -> Any:
        """Returns the vectors that attention layers add to queries and keys.

        Args:
            length: T.
            offset: the position of the first vector, an int or int `(B, 1)`; or int `(B, T)`, see the class.

        Returns:
            `(T, D)`, or `(B, T, D)` for an offset with two axes; None unless `site` is "queries_and_keys".

        Raises:
            ValueError: see the class.
        """
        return self._rows(length, offset) if self.adds_to == "queries_and_keys" else None

    def _rows(self, length: Any, offset: Any) -> Any:
        """Returns the vectors of `length` positions from `offset` on, `(T, D)` or `(B, T, D)`."""
        if isinstance(offset, int):
            check_length(self.name, length, self.max_positions, offset)
        positions = ops.arange(length, dtype="int32") + offset
        return ops.take(ops.cast(ops.convert_to_tensor(self.table), self.compute_dtype), positions, axis=0)

    def distances(self, attention: AttentionLayer, query_positions: Any, key_positions: Any = None) -> Distances:
        """Computes the `Distances` for the self-attention layers of a stack.

        Args:
            attention: one of the layers; all have the same heads.
            query_positions: int `(T,)` or `(B, T)`, the positions of the queries.
            key_positions: int `(S,)` or `(B, S)`, the positions of the keys, cached keys first; `query_positions` if
                not given.

        Returns:
            `Distances`: a rotation for "rotary", a bias for "alibi", neither for other kinds.

        Raises:
            ValueError: the kind is "rotary", and the key size of a head is odd.
        """
        if self.kind not in RELATIVE_POSITIONS:
            return NO_DISTANCES
        key_positions = query_positions if key_positions is None else key_positions
        return make_distances(self.kind, query_positions, key_positions, attention.key_dim, attention.num_heads)

    def call(self, x: Any, offset: Any = 0, training: bool | None = None) -> Any:
        if self.adds_to == "input":
            x = x + self._rows(dynamic_shape(x)[1], offset)
        return self.dropout(x, training=training)

    def compute_output_shape(self, input_shape: Any) -> tuple[int | None, ...]:
        return input_shape


def check_length(name: str, length: Any, longest: int, earlier: int = 0) -> None:
    """Raises a `ValueError` if a sequence has too many positions.

    Args:
        name: the name of the sequence, for the message.
        length: the number of positions of the sequence. A tensor is not checked, because its value is unknown.
        longest: the maximum number of positions.
        earlier: the number of cached positions before the sequence, which count too.
    """
    if isinstance(length, int) and earlier + length > longest:
        raise ValueError(
            f"{name}: expected at most max_positions = {longest} tokens, found {earlier + length}; cut the "
            "sequence, or make the model with more max_positions"
        )


def make_embeddings(
    vocabulary_size: int, width: int, tie_embeddings: TiedEmbeddings, dtype: Any, scale: bool = True, bias: bool = False
) -> tuple[TokenEmbedding, TokenEmbedding, TokenEmbedding]:
    """Makes the `TokenEmbedding`s of target, source and output. Tied embeddings are one layer.

    Args:
        vocabulary_size: V.
        width: D.
        tie_embeddings: which embeddings share one table: "all", "target" (target and output), or "none".
        dtype: the Keras dtype policy.
        scale: see `TokenEmbedding`.
        bias: see `TokenEmbedding`; only the layer of the output has it.

    Returns:
        `(target, source, output)`.

    Raises:
        ValueError: `tie_embeddings` is unknown, or a size is not a whole number of at least 1.
    """
    if tie_embeddings not in TIED_EMBEDDINGS:
        raise ValueError(f"tie_embeddings: expected one of {', '.join(TIED_EMBEDDINGS)}, found {tie_embeddings!r}")

    def make(side, bias=False):
        """Makes the embedding of target, source or output."""
        return TokenEmbedding(vocabulary_size, width, scale, bias, name=f"{side}_embedding", dtype=dtype)

    target = make("target", bias=bias and tie_embeddings != "none")
    source = target if tie_embeddings == "all" else make("source")
    return target, source, make("output", bias) if tie_embeddings == "none" else target
