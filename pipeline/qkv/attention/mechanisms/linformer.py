"""Attention to a fixed number of mixtures of the keys, instead of to the keys themselves.

Letters: B batch, H heads, T target (query) positions, S source (key) positions, K key size, V value size of a head,
P projected length (the paper's k).
"""

from typing import Any

import keras
from keras import ops

from ...layers.constructor_config import seed_of
from ...layers.keras_layers import check_sizes, dynamic_shape
from ..masks import masked_softmax
from ..scores import glorot
from .softmax import Mechanism


@keras.saving.register_keras_serializable(package="qkv")
class Linformer(Mechanism):
    """`context = softmax(score(q, E k)) F v`, with learnt matrices E and F `(P, S)` for each head: the first S
    columns of weights `(P, max_length)` (Wang et al. 2020, equation 7).

    P mixtures of the keys and values replace the S keys and values, so time and memory grow with S and not with its
    square. Masked keys and values are set to zero before they are mixed. A mixture is visible to all queries, so a mask
    that differs between queries, such as a causal mask, is an error.

    The returned weights are `softmax(score(q, E k)) F`, so that `context = weights value` as in every mechanism. They
    are factors of the values and not a distribution: some are negative, and rows have any sum. Only the weights take
    memory for T * S numbers, with T queries. A graph (`tf.function`, `jax.jit`) omits them if they are not used.

    Args:
        projected_length: P.
        max_length: the largest S. E and F have a column for each source position, so they distinguish positions even
            without position embeddings.
        score, dropout, seed, **kwargs: as in `Mechanism`; dropout acts on the weights of the mixtures.

    Call arguments and returns: as in `Mechanism`; the mask is `(B, 1, 1, S)` or `(B, H, 1, S)`.

    Raises:
        ValueError: a size is not a whole number of at least 1; the source is longer than `max_length`; or the mask
            differs between queries. If the length is unknown until a graph runs, the graph fails in an operation named
            source_is_longer_than_max_length.

    Example:
        >>> query, key, value = (keras.random.normal(shape) for shape in [(1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 6)])
        >>> context, weights = Linformer(projected_length=2, max_length=10)(query, key, value)
        >>> context.shape, weights.shape
        (TensorShape([1, 2, 3, 6]), TensorShape([1, 2, 3, 5]))
    """

    takes_rotation = False  # a mixture of keys has no position

    def __init__(self, projected_length: int = 64, max_length: int = 512, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_sizes(projected_length=projected_length, max_length=max_length)
        self.projected_length = projected_length
        self.max_length = max_length

    def build(self, query_shape: Any, key_shape: Any, value_shape: Any) -> None:
        shape = (key_shape[1], self.projected_length, self.max_length)

        def mixing(name):
            """Makes E or F, `(H, P, max_length)`."""
            return self.add_weight(name=name, shape=shape, initializer=glorot(*shape[1:], seed_of(name, self.seed)))

        self.key_mixing = mixing("key_mixing")
        self.value_mixing = mixing("value_mixing")
        super().build(query_shape, (*key_shape[:2], self.projected_length, key_shape[-1]), value_shape)

    def call(self, query: Any, key: Any, value: Any, mask: Any = None, training: bool | None = None) -> tuple[Any, Any]:
        self._check(key, mask)
        length = dynamic_shape(key)[2]
        if mask is not None:
            real = ops.swapaxes(mask, -1, -2)  # (B, H, S, 1)
            key, value = (ops.where(real, side, ops.zeros_like(side)) for side in (key, value))
        weights = masked_softmax(self.score(query, ops.matmul(self._columns(self.key_mixing, length, key.dtype), key)))
        value_mixing = self._columns(self.value_mixing, length, value.dtype)
        after_dropout = ops.cast(self.dropout(weights, training=training), value.dtype)
        context = ops.matmul(after_dropout, ops.matmul(value_mixing, value))
        # The matrix of a single head is passed without its axis; see `TanhSum.compare` for the reason.
        mixing = value_mixing[0] if value_mixing.shape[0] == 1 else value_mixing
        effective = ops.matmul(weights, ops.cast(mixing, "float32"))
        return context, effective if mask is None else ops.where(mask, effective, 0.0)

    def _check(self, key, mask):
        """Raises a `ValueError` if there are too many keys, or if the mask differs between queries."""
        if key.shape[2] is not None and key.shape[2] > self.max_length:
            raise ValueError(f"source length: expected max_length = {self.max_length} at most, found {key.shape[2]}")
        if mask is not None and (len(mask.shape) != 4 or mask.shape[2] != 1):
            raise ValueError(
                "mask: linformer mixes the keys before queries attend to them, so all queries need the same mask: "
                f"expected (B, H, 1, S), found {tuple(mask.shape)}; for a causal mask use softmax, blockwise or lsh"
            )

    def _columns(self, mixing, length, dtype):
        """Returns the first `length` columns of a matrix with `max_length` columns, in the given dtype."""
        with keras.name_scope("source_is_longer_than_max_length"):  # the message of a graph that fails here
            return ops.slice(ops.cast(mixing, dtype), (0, 0, 0), (*mixing.shape[:2], length))
