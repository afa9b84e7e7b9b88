"""Recurrent translation: GRUs read the source, another GRU writes the target, and attention connects them.

Letters: B batch, T target positions, S source positions, E embedding size, N size of a GRU's state, M = 2 N size of the
memory's states, which are the states of the forward and of the backward GRU, V vocabulary.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import keras
from keras import ops

from ..attention.additive import AdditiveAttention
from ..attention.masks import padding_mask
from ..attention.mechanisms import MECHANISM_CLASSES
from ..attention.multi_head import AttentionLayer, MultiHeadAttention
from ..attention.scores import SCORE_CLASSES, Concat
from ..config.choices.model import RecurrentDecoderName, TiedEmbeddings
from ..layers.constructor_config import ConstructorConfig, ReplaceableLayers, build_once
from ..layers.keras_layers import Dense, Dropout, check_sizes, dynamic_shape
from ..layers.tap import tap
from .embedding import make_embeddings
from .interface import DecoderOutput, Memory, TranslationModel, rows_for_each


@keras.saving.register_keras_serializable(package="qkv")
class Orthogonal(keras.initializers.Orthogonal):
    """`keras.initializers.Orthogonal`, also for weights of half precision.

    No backend can factorise a matrix of half precision, so this initializer computes in float32 and rounds the result.
    """

    def __call__(self, shape: Any, dtype: Any = None) -> Any:
        dtype = keras.backend.standardize_dtype(dtype)
        wide = "float32" if dtype in ("bfloat16", "float16") else dtype
        return ops.cast(super().__call__(shape, wide), dtype)


Attend = Callable[[Any], tuple[Any, Any]]
"""A function of queries `(B, N)` that returns `(context, weights)`, `(B, M)` and float32 `(B, S)`."""
GRU_ARGUMENTS: dict[str, Any] = {"reset_after": False, "recurrent_initializer": Orthogonal}
"""The arguments of all GRUs. The initializer is a class, so that each GRU makes one, and Keras draws a seed for it."""


class RecurrentDecoder(ConstructorConfig, ReplaceableLayers, keras.Layer):
    """Base class of decoders: a GRU that attends to the memory at every step. A subclass defines `step` and `read_out`.

    Args:
        embedding_dim: E.
        hidden_dim: N.
        dropout: the share of the result of `read_out` set to zero in training, from 0 to 1.
        **kwargs: the arguments of `keras.Layer`.

    The argument `attend` of its methods is a function of queries, `(B, N)`, that returns context and weights, `(B, M)`
    and float32 `(B, S)`.
    """

    def __init__(self, embedding_dim: int, hidden_dim: int, dropout: float = 0.0, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)  # or Keras would round the float32 weights of the state
        check_sizes(embedding_dim=embedding_dim, hidden_dim=hidden_dim)
        # XLA cannot compile the gradient of TensorFlow's loop, and `compile` would choose XLA on a GPU.
        self.supports_jit = keras.backend.backend() != "tensorflow"
        self.embedding_dim = embedding_dim
        self.hidden_dim = hidden_dim
        # The paper's GRU has its reset gate before the matrix product (Cho et al. 2014, equation 8).
        self.cell = keras.layers.GRUCell(hidden_dim, **GRU_ARGUMENTS, name="cell", dtype=self.dtype_policy)
        self.dropout = Dropout(dropout, name="dropout", dtype=self.dtype_policy)

    def step(self, state: "RecurrentState", embedded: Any, attend: Attend) -> "RecurrentState":
        """Computes the state at the next target position.

        Args:
            state: the `RecurrentState` of the position before.
            embedded: `(B, E)`, the embedding of the target token.
            attend: see the class.

        Returns:
            The next `RecurrentState`.
        """
        raise NotImplementedError

    def read_out(self, states: "RecurrentState", embedded: Any) -> Any:
        """Computes the input of the output embedding.

        Args:
            states: the `RecurrentState`s of all positions as one, with fields `(B, T, ...)`.
            embedded: `(B, T, E)`, the embeddings of the target tokens.

        Returns:
            `(B, T, E)`.
        """
        raise NotImplementedError

    def call(
        self, embedded: Any, first: "RecurrentState", attend: Attend, training: bool | None = None
    ) -> tuple[Any, Any, "RecurrentState"]:
        """Computes one step after another for the tokens of a target.

        Args:
            embedded: `(B, T, E)`, the embeddings of the target tokens.
            first: the `RecurrentState` before the first token.
            attend: see the class.
            training: whether dropout is applied.

        Returns:
            `(states, weights, last)`: the results of `read_out`, `(B, T, E)`, the attention weights, float32
            `(B, 1, T, S)`, and the last `RecurrentState`.
        """

        def step(state, x):
            state = self.step(state, x, attend)
            return state, state

        last, states = ops.scan(step, first, ops.swapaxes(embedded, 0, 1))
        states = RecurrentState(*(ops.swapaxes(x, 0, 1) for x in states))
        read = self.read_out(states, embedded)
        return self.dropout(read, training=training), ops.expand_dims(states.weights, 1), RecurrentState(*last)


@keras.saving.register_keras_serializable(package="qkv")
class BahdanauDecoder(RecurrentDecoder):
    """The state before a step is the query, and the context is an input of the GRU (Bahdanau et al. 2015, section 3.1).

    `c_i = attend(s_{i-1})`, `s_i = GRU([y_{i-1}; c_i], s_{i-1})`, and the deep output with a maxout layer
    (appendix A.2.2) `t_i = maxout(U s_i + V y_{i-1} + C c_i)`; the appendix has s_{i-1} there, equation 4 has s_i.

    Args, call arguments and returns: see `RecurrentDecoder`.

    Example:
        >>> decoder = BahdanauDecoder(embedding_dim=4, hidden_dim=6)
        >>> decoder.build(8)
        >>> zeros = {name: keras.ops.zeros((2, size)) for name, size in (("hidden", 6), ("context", 8), ("output", 4))}
        >>> first = RecurrentState(**zeros, weights=keras.ops.zeros((2, 5)))
        >>> memory, equal = keras.random.normal((2, 5, 8)), keras.ops.full((2, 5), 0.2)
        >>> states, weights, last = decoder(
        ...     keras.random.normal((2, 3, 4)), first, attend=lambda query: (keras.ops.mean(memory, 1), equal)
        ... )
        >>> states.shape, weights.shape
        (TensorShape([2, 3, 4]), TensorShape([2, 1, 3, 5]))
    """

    def __init__(self, embedding_dim: int, hidden_dim: int, dropout: float = 0.0, **kwargs: Any) -> None:
        super().__init__(embedding_dim, hidden_dim, dropout, **kwargs)
        self.deep_output = Dense(2 * embedding_dim, name="deep_output", dtype=self.dtype_policy)

    def build(self, memory_size: int) -> None:
        build_once(self.cell, (None, self.embedding_dim + memory_size))
        build_once(self.deep_output, (None, None, self.hidden_dim + self.embedding_dim + memory_size))

    def step(self, state: "RecurrentState", embedded: Any, attend: Attend) -> "RecurrentState":
        context, weights = attend(state.hidden)
        hidden, _ = self.cell(ops.concatenate([embedded, context], -1), [state.hidden])
        return RecurrentState(tap(self, "states", hidden), context, state.output, weights)

    def read_out(self, states: "RecurrentState", embedded: Any) -> Any:
        both = self.deep_output(ops.concatenate([states.hidden, embedded, states.context], -1))
        return tap(self, "read_out", ops.maximum(both[..., : self.embedding_dim], both[..., self.embedding_dim :]))


@keras.saving.register_keras_serializable(package="qkv")
class LuongDecoder(RecurrentDecoder):
    """The state after a step is the query, and the output uses the context (Luong et al. 2015, sections 3 and 3.3).

    `s_i = GRU([y_{i-1}; o_{i-1}], s_{i-1})`, `c_i = attend(s_i)`, and the attentional vector is
    `o_i = tanh(W [c_i; s_i])`. Without input feeding the GRU reads only y_{i-1}.

    Args: as in `RecurrentDecoder`, and:
        input_feeding: whether each step also reads the attentional vector of the step before.

    Call arguments and returns: see `RecurrentDecoder`.

    Example:
        >>> decoder = LuongDecoder(embedding_dim=4, hidden_dim=6)
        >>> decoder.build(8)
        >>> zeros = {name: keras.ops.zeros((2, size)) for name, size in (("hidden", 6), ("context", 8), ("output", 4))}
        >>> equal = keras.ops.full((2, 5), 0.2)
        >>> state = RecurrentState(**zeros, weights=equal)
        >>> state = decoder.step(state, keras.ops.ones((2, 4)), lambda query: (keras.ops.ones((2, 8)), equal))
        >>> state.hidden.shape, state.output.shape
        (TensorShape([2, 6]), TensorShape([2, 4]))
    """

    def __init__(
        self, embedding_dim: int, hidden_dim: int, dropout: float = 0.0, input_feeding: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(embedding_dim, hidden_dim, dropout, **kwargs)
        self.input_feeding = input_feeding
        self.attentional = Dense(
            embedding_dim, activation="tanh", use_bias=False, name="attentional", dtype=self.dtype_policy
        )

    def build(self, memory_size: int) -> None:
        build_once(self.cell, (None, self.embedding_dim * (1 + self.input_feeding)))
        build_once(self.attentional, (None, memory_size + self.hidden_dim))

    def step(self, state: "RecurrentState", embedded: Any, attend: Attend) -> "RecurrentState":
        inputs = ops.concatenate([embedded, state.output], -1) if self.input_feeding else embedded
        hidden, _ = self.cell(inputs, [state.hidden])
        hidden = tap(self, "states", hidden)
        context, weights = attend(hidden)
        # Tapped in the loop, because the next step may read it.
        output = tap(self, "read_out", self.attentional(ops.concatenate([context, hidden], -1)))
        return RecurrentState(hidden, context, output, weights)

    def read_out(self, states: "RecurrentState", embedded: Any) -> Any:
        return states.output


DECODERS: dict[str, type[RecurrentDecoder]] = {"bahdanau": BahdanauDecoder, "luong": LuongDecoder}
"""The decoders by name."""


@keras.saving.register_keras_serializable(package="qkv")
class Recurrent(TranslationModel):
    """GRU encoder and decoder (Bahdanau et al. 2015; Luong et al. 2015).

    A subclass replaces the decoder in `make_decoder`.

    Keys are projected once for all steps. Values are the encoder's states themselves. The first state of the decoder is
    `tanh(W h)`; h is the state of the backward GRU at the first word (Bahdanau et al. 2015, appendix A.2.2).

    Args:
        vocabulary_size: V, the size of the vocabulary that source and target share.
        embedding_dim: E.
        hidden_dim: N.
        cross_attention: the name of a score function (see `attention.scores`); "uniform" or "last" for fixed weights;
            or "none": the context of every step is the concatenated final states of the encoder, without weights.
        attention_dim: the width of the projected states that the score function compares.
        decoder: "bahdanau" or "luong", see `BahdanauDecoder` and `LuongDecoder`.
        input_feeding: whether each step of the Luong decoder also reads the attentional vector of the step before.
        dropout: the share of embeddings, of the encoder's states and of the decoder's output set to zero in training,
            from 0 to 1.
        tie_embeddings: which embeddings share one table: "all" (source, target and output), "target" (target and
            output), "none".
        max_positions: the maximum number of tokens of a source or a target. The model does not use it.
        **kwargs: the arguments of `keras.Model`.

    Call arguments and returns: see `TranslationModel`.

    Raises:
        ValueError: a size is not a whole number of at least 1; or `cross_attention`, `decoder` or `tie_embeddings` is
            unknown.

    Example:
        >>> model = Recurrent(vocabulary_size=20, embedding_dim=8, hidden_dim=8, attention_dim=8)
        >>> model.build()
        >>> source_ids, target_ids = keras.ops.array([[5, 6, 7, 3]]), keras.ops.array([[2, 8, 9]])
        >>> output = model.decode(target_ids, model.encode(source_ids))
        >>> output.logits.shape, output.cross[0].shape
        (TensorShape([1, 3, 20]), TensorShape([1, 1, 3, 4]))
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_dim: int = 256,
        hidden_dim: int = 256,
        cross_attention: str = "additive",
        attention_dim: int = 256,
        decoder: RecurrentDecoderName = "bahdanau",
        input_feeding: bool = False,
        dropout: float = 0.1,
        tie_embeddings: TiedEmbeddings = "all",
        max_positions: int = 512,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_sizes(vocabulary_size=vocabulary_size, embedding_dim=embedding_dim, hidden_dim=hidden_dim)
        check_sizes(attention_dim=attention_dim, max_positions=max_positions)
        self.embedding_dim, self.hidden_dim = embedding_dim, hidden_dim
        self.max_positions = max_positions
        if decoder not in DECODERS:
            raise ValueError(f"decoder: expected one of {', '.join(DECODERS)}, found {decoder!r}")
        policy = self.dtype_policy
        self.memory_size = 2 * hidden_dim
        self.target_embedding, self.source_embedding, self.output_embedding = make_embeddings(
            vocabulary_size, embedding_dim, tie_embeddings, policy
        )
        self.embedding_dropout = Dropout(dropout, name="embedding_dropout", dtype=policy)
        self.memory_dropout = Dropout(dropout, name="memory_dropout", dtype=policy)

        gru = {**GRU_ARGUMENTS, "return_sequences": True, "dtype": policy}
        self.forward_encoder = keras.layers.GRU(hidden_dim, name="forward_encoder", **gru)
        self.backward_encoder = keras.layers.GRU(hidden_dim, name="backward_encoder", go_backwards=True, **gru)
        for encoder in (self.forward_encoder, self.backward_encoder):
            encoder.supports_masking = True  # False in Keras 3.16, which then warns of a mask that it uses
        self.bridge = Dense(hidden_dim, activation="tanh", name="bridge", dtype=policy)
        self.attention = make_attention(cross_attention, attention_dim, hidden_dim, self.memory_size, policy)
        feeding = {"input_feeding": input_feeding} if decoder == "luong" else {}
        self.decoder = self.make_decoder(
            decoder, embedding_dim, hidden_dim, dropout=dropout, name="decoder", dtype=policy, **feeding
        )

    def make_decoder(
        self, decoder: RecurrentDecoderName, embedding_dim: int, hidden_dim: int, **kwargs: Any
    ) -> RecurrentDecoder:
        """Makes the decoder. A subclass overrides this method to use its own `RecurrentDecoder`.

        Args:
            decoder: the model's argument `decoder`.
            embedding_dim: E.
            hidden_dim: N.
            **kwargs: `dropout`, `name` and `dtype`, to pass on; for "luong" also `input_feeding`.
        """
        return DECODERS[decoder](embedding_dim, hidden_dim, **kwargs)

    def build(self, input_shape: Any = None) -> None:
        self.build_embeddings()
        for encoder in (self.forward_encoder, self.backward_encoder):
            build_once(encoder, (None, None, self.embedding_dim))
        build_once(self.bridge, (None, self.hidden_dim))
        if self.attention is not None:
            memory = (None, None, self.memory_size)
            build_once(self.attention, (None, None, self.hidden_dim), key_shape=memory, value_shape=memory)
        build_once(self.decoder, self.memory_size)
        self.build_added_layers()

    def encode(self, source_ids: Any, training: bool | None = None) -> Memory:
        mask = padding_mask(source_ids)
        real = mask[:, 0, 0]
        x = tap(self, "encoder.embedding", self.embedding_dropout(self.source_embedding(source_ids), training=training))
        # A masked step repeats the previous state, so the last row is the state after the last real token.
        states = tap(self, "encoder.forward.states", self.forward_encoder(x, mask=real))
        # The backward GRU returns its states in the order in which it reads; here they get the order of the source.
        backward = tap(self, "encoder.backward.states", ops.flip(self.backward_encoder(x, mask=real), axis=1))
        start = backward[:, 0]
        final = ops.concatenate([states[:, -1], start], -1)
        states = ops.concatenate([states, backward], -1)
        states, final = (self.memory_dropout(x, training=training) for x in (states, final))
        prepared = {"start": tap(self, "decoder.start", self.bridge(start)), "final": final}
        if self.attention is not None:
            prepared["keys"], prepared["values"] = self.attention.project_memory(states, states)
        return Memory(states, mask, (), prepared)

    def attention_layers(self) -> dict[str, list[AttentionLayer]]:
        return {} if self.attention is None else {"cross": [self.attention]}

    def layer_names(self, side: str) -> dict[keras.Layer, str]:
        names: dict[keras.Layer, str] = {self: "", self.decoder: "decoder"}
        return names if self.attention is None else {**names, self.attention: "decoder.0.cross"}

    def start_cache(self, memory: Memory) -> "RecurrentState":
        hidden = memory.prepared["start"]
        batch, sources = dynamic_shape(memory.states)[:2]
        sizes = self.memory_size, self.embedding_dim
        context, output = (ops.zeros((batch, size), hidden.dtype) for size in sizes)
        return RecurrentState(hidden, context, output, ops.zeros((batch, sources), "float32"))

    def decode(self, target_ids: Any, memory: Memory, cache: Any = None, training: bool | None = None) -> DecoderOutput:
        first = self.start_cache(memory) if cache is None else cache
        x = tap(self, "decoder.embedding", self.embedding_dropout(self.target_embedding(target_ids), training=training))
        states, weights, last = self.decoder(x, first=first, attend=self._attend(memory), training=training)
        return DecoderOutput(
            states,
            tap(self, "logits", self.output_embedding.logits(states)),
            () if self.attention is None else (weights,),
            (),
            None if cache is None else last,
        )

    def export(
        self,
        filepath: str | Path,
        format: str = "tf_saved_model",  # noqa: A002 (Keras' name)
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Writes the model for other programs, see `TranslationModel.export`.

        Raises:
            ValueError: the format is "onnx". TensorFlow's loop over the target cannot be converted to it.
        """
        if format == "onnx":
            raise ValueError("format: ONNX has no counterpart of the loop (tf2onnx 1.17); expected tf_saved_model")
        super().export(filepath, format, *args, **kwargs)

    def _attend(self, memory: Memory) -> Attend:
        """Returns the function by which the decoder attends to the memory; see `RecurrentDecoder`."""
        prepared = memory.prepared
        attention = self.attention
        if attention is None:

            def take_final_states(query):
                rows = dynamic_shape(query)[0]
                sources = dynamic_shape(memory.states)[1]
                return rows_for_each(prepared["final"], rows), ops.zeros((rows, sources), "float32")

            return take_final_states

        def attend(query):
            # The hypotheses of a source share its memory.
            query = attention.project_query(ops.expand_dims(query, 1))
            keys_values = prepared["keys"], prepared["values"]
            context, weights = attention.attend_from_rows(query, *keys_values, memory.mask)
            return context[:, 0], weights[:, 0, 0]

        return attend


class RecurrentState(NamedTuple):
    """The state that a step of the decoder passes to the next step.

    - hidden: `(B, N)`, the state of the GRU.
    - context: `(B, M)`, the context of the step.
    - output: `(B, E)`, the attentional vector of the step; zeros if the decoder has none.
    - weights: float32 `(B, S)`, the attention weights of the step; zeros if there is no attention.
    """

    hidden: Any
    context: Any
    output: Any
    weights: Any


def make_attention(kind: str, units: int, hidden_dim: int, memory_size: int, policy: Any) -> MultiHeadAttention | None:
    """Makes the attention layer of a `Recurrent` model, with one head. Values are not projected.

    Args:
        kind: the argument `cross_attention` of `Recurrent`.
        units: the width of the projected queries and keys, if the score function needs projections.
        hidden_dim: N, the size of the queries.
        memory_size: M, the size of the encoder's states, which are keys and values.
        policy: the Keras dtype policy.

    Returns:
        A `MultiHeadAttention`; None if `kind` is "none".

    Raises:
        ValueError: `kind` is unknown.
    """
    if kind == "none":
        return None
    if kind == "additive":
        return AdditiveAttention(units, name="attention", dtype=policy)
    has_score = kind not in MECHANISM_CLASSES  # otherwise it is a mechanism of fixed weights
    projected = kind in SCORE_CLASSES and SCORE_CLASSES[kind].projected
    score = Concat(units=units) if kind == "concat" else kind
    return MultiHeadAttention(
        num_heads=1,
        key_dim=units if projected else hidden_dim,
        value_dim=memory_size,
        **({"score": score} if has_score else {"mechanism": kind}),
        projection=projected,
        value_projection=False,
        use_bias=False,
        name="attention",
        dtype=policy,
    )
