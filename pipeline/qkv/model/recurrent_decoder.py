"""The two recurrent decoders with attention: each is a loop over target positions and a read-out of its states.

Letters: B batch, T target positions, S source positions, E embedding size, N size of the decoder's state, M size of the
memory's states.
"""

from typing import Any, NamedTuple

import keras
from keras import ops

from ..layers.dense import Dense
from ..layers.dropout import Dropout
from ..layers.dynamic_shape import check_sizes
from .places import Returned


class RecurrentState(NamedTuple):
    """The state that one step passes to the next.

    - hidden: `(B, N)`, the state of the GRU.
    - context: `(B, M)`, what the step read from the memory.
    - output: `(B, E)`, the attentional vector that the step put out; zeros where the decoder has none.
    - weights: float32 `(B, S)`, where the step's attention went.
    """

    hidden: Any
    context: Any
    output: Any
    weights: Any


class RecurrentDecoder(keras.Layer):
    """A GRU that attends at every step; subclasses define at which point of the step.

    Args:
        embedding_dim: E.
        hidden_dim: N.
        dropout: on what is read out, before the output projection.

    Methods take `attend`, a function of queries `(B, N)` that returns `(context, weights)`, `(B, M)` and `(B, S)`.
    """

    def __init__(self, embedding_dim, hidden_dim, dropout=0.0, **kwargs):
        super().__init__(autocast=False, **kwargs)  # or Keras would round the float32 weights of the state
        check_sizes(embedding_dim=embedding_dim, hidden_dim=hidden_dim)
        self.embedding_dim = embedding_dim
        self.hidden_dim = hidden_dim
        # The paper's GRU has its reset gate before the matrix product (Cho et al. 2014, equation 8).
        self.cell = keras.layers.GRUCell(hidden_dim, reset_after=False, name="cell", dtype=self.dtype_policy)
        self.dropout = Dropout(dropout, name="dropout", dtype=self.dtype_policy)

    def step(self, state, embedded, attend):
        """Advances by one target position: `RecurrentState` and `(B, E)` to `RecurrentState`."""
        raise NotImplementedError

    def read_out(self, states, embedded):
        """Computes the input of the output embedding, `(B, T, E)`, from all states of the loop, `(B, T, ...)` each."""
        raise NotImplementedError

    def places(self):
        """Names what the decoder computes, see `TranslationModel.places`: `decoder.states` and `decoder.read_out`."""
        yield Returned(self.cell, "call", ("decoder.states",))
        yield self._read_out_place()

    def _read_out_place(self):
        return Returned(self, "read_out", "decoder.read_out")

    def call(self, embedded, first, attend, training=None):
        """Steps through a target.

        Args:
            embedded: `(B, T, E)`, the target tokens.
            first: `RecurrentState` before them.
            attend: see the class.
            training: whether dropout is applied.

        Returns:
            `(states, weights, last)`: `(B, T, E)`, float32 `(B, 1, T, S)`, and the last `RecurrentState`.
        """

        def step(state, x):
            state = self.step(state, x, attend)
            return state, state

        last, states = ops.scan(step, first, ops.swapaxes(embedded, 0, 1))
        states = RecurrentState(*(ops.swapaxes(x, 0, 1) for x in states))
        read = self.read_out(states, embedded)
        return self.dropout(read, training=training), ops.expand_dims(states.weights, 1), RecurrentState(*last)

    def get_config(self):
        return {
            **super().get_config(),
            "embedding_dim": self.embedding_dim,
            "hidden_dim": self.hidden_dim,
            "dropout": self.dropout.rate,
        }


@keras.saving.register_keras_serializable(package="qkv")
class BahdanauDecoder(RecurrentDecoder):
    """The state before a step is the query, and the context enters the step (Bahdanau et al. 2015, section 3.1).

    `c_i = attend(s_{i-1})`, `s_i = GRU([y_{i-1}; c_i], s_{i-1})`, and the deep output with a maxout layer
    (appendix A.2.2) `t_i = maxout(U s_i + V y_{i-1} + C c_i)`; the appendix has s_{i-1} there, equation 4 has s_i.

    Args: see `RecurrentDecoder`.

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

    def __init__(self, embedding_dim, hidden_dim, dropout=0.0, **kwargs):
        super().__init__(embedding_dim, hidden_dim, dropout, **kwargs)
        self.deep_output = Dense(2 * embedding_dim, name="deep_output", dtype=self.dtype_policy)

    def build(self, memory_size):
        self.cell.build((None, self.embedding_dim + memory_size))
        self.deep_output.build((None, None, self.hidden_dim + self.embedding_dim + memory_size))
        self.built = True

    def step(self, state, embedded, attend):
        context, weights = attend(state.hidden)
        hidden, _ = self.cell(ops.concatenate([embedded, context], -1), [state.hidden])
        return RecurrentState(hidden, context, state.output, weights)

    def read_out(self, states, embedded):
        both = self.deep_output(ops.concatenate([states.hidden, embedded, states.context], -1))
        return ops.maximum(both[..., : self.embedding_dim], both[..., self.embedding_dim :])


@keras.saving.register_keras_serializable(package="qkv")
class LuongDecoder(RecurrentDecoder):
    """The state after a step is the query, and the context enters the output (Luong et al. 2015, sections 3 and 3.3).

    `s_i = GRU([y_{i-1}; o_{i-1}], s_{i-1})`, `c_i = attend(s_i)`, and the attentional vector
    `o_i = tanh(W [c_i; s_i])`; without input feeding the GRU reads y_{i-1} alone.

    Args: see `RecurrentDecoder`, and:
        input_feeding: whether each step also reads the attentional vector of the one before.

    Example:
        >>> decoder = LuongDecoder(embedding_dim=4, hidden_dim=6)
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

    def __init__(self, embedding_dim, hidden_dim, dropout=0.0, input_feeding=False, **kwargs):
        super().__init__(embedding_dim, hidden_dim, dropout, **kwargs)
        self.input_feeding = input_feeding
        self.attentional = Dense(
            embedding_dim, activation="tanh", use_bias=False, name="attentional", dtype=self.dtype_policy
        )

    def build(self, memory_size):
        self.cell.build((None, self.embedding_dim * (1 + self.input_feeding)))
        self.attentional.build((None, memory_size + self.hidden_dim))
        self.built = True

    def step(self, state, embedded, attend):
        inputs = ops.concatenate([embedded, state.output], -1) if self.input_feeding else embedded
        hidden, _ = self.cell(inputs, [state.hidden])
        context, weights = attend(hidden)
        output = self.attentional(ops.concatenate([context, hidden], -1))
        return RecurrentState(hidden, context, output, weights)

    def read_out(self, states, embedded):
        return states.output

    def _read_out_place(self):
        return Returned(self.attentional, "call", "decoder.read_out")  # in the loop, since the next step may read it

    def get_config(self):
        return {**super().get_config(), "input_feeding": self.input_feeding}
