"""Recurrent translation: a GRU reads the source, another writes the target, and attention connects them.

Letters: B batch, T target positions, S source positions, E embedding size, N size of a GRU's state, M size of the
memory's states (2 N when the source is read from both ends, else N), V vocabulary.
"""

import keras
from keras import ops

from ..attention.masks import padding_mask
from ..layers.dense import Dense
from ..layers.dropout import Dropout
from ..layers.dynamic_shape import check_sizes, dynamic_shape, rows_of_each
from .embedding import make_embeddings
from .interface import DecoderOutput, Memory, TranslationModel, rows_for_each
from .places import Heads, Returned
from .recurrent_attention import make_attention
from .recurrent_decoder import BahdanauDecoder, LuongDecoder, RecurrentState

DECODERS = {"bahdanau": BahdanauDecoder, "luong": LuongDecoder}


@keras.saving.register_keras_serializable(package="qkv")
class Recurrent(TranslationModel):
    """GRU encoder and decoder (Bahdanau et al. 2015; Luong et al. 2015).

    Keys are projected once for all steps, values are the encoder's states themselves, and the decoder starts from
    `tanh(W h)`, where h is the state of the backward GRU at the first word (Bahdanau et al. 2015, appendix A.2.2).

    Args:
        vocabulary_size: V, of the vocabulary that source and target share.
        embedding_dim: E.
        hidden_dim: N.
        cross_attention: a score function (see `qkv.attention.scores`), "uniform" or "last" for fixed weights, or
            "none": every step gets the encoder's final states, concatenated, and there are no weights to show.
        attention_dim: the width of the projected states that are compared.
        decoder: "bahdanau" or "luong", see `qkv.model.recurrent_decoder`.
        input_feeding: whether each step of the luong decoder also reads the attentional vector of the one before.
        dropout: on embeddings, on the encoder's states, and on what is read out.
        tie_embeddings: which embeddings share one table: "all" (source, target and output), "target" (target and
            output), "none".
        max_positions: the maximum number of tokens on either side; nothing here depends on it.

    Call arguments and returns: see `TranslationModel`.

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
        vocabulary_size,
        embedding_dim=256,
        hidden_dim=256,
        cross_attention="additive",
        attention_dim=256,
        decoder="bahdanau",
        input_feeding=False,
        dropout=0.1,
        tie_embeddings="all",
        max_positions=512,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_sizes(vocabulary_size=vocabulary_size, embedding_dim=embedding_dim, hidden_dim=hidden_dim)
        check_sizes(attention_dim=attention_dim, max_positions=max_positions)
        self.embedding_dim, self.hidden_dim = embedding_dim, hidden_dim
        if decoder not in DECODERS:
            raise ValueError(f"decoder: expected one of {', '.join(DECODERS)}, found {decoder!r}")
        policy = self.dtype_policy
        self.memory_size = 2 * hidden_dim
        self.target_embedding, self.source_embedding, self.output_embedding = make_embeddings(
            vocabulary_size, embedding_dim, tie_embeddings, policy
        )
        self.embedding_dropout = Dropout(dropout, name="embedding_dropout", dtype=policy)
        self.memory_dropout = Dropout(dropout, name="memory_dropout", dtype=policy)

        def encoder(name, backwards):
            return keras.layers.GRU(
                hidden_dim,
                return_sequences=True,
                go_backwards=backwards,
                reset_after=False,
                name=name,
                dtype=policy,
            )

        self.forward_encoder = encoder("forward_encoder", False)
        self.backward_encoder = encoder("backward_encoder", True)
        self.bridge = Dense(hidden_dim, activation="tanh", name="bridge", dtype=policy)
        self.attention = make_attention(cross_attention, attention_dim, hidden_dim, self.memory_size, policy)
        feeding = {"input_feeding": input_feeding} if decoder == "luong" else {}
        self.decoder = DECODERS[decoder](embedding_dim, hidden_dim, dropout, name="decoder", dtype=policy, **feeding)

    def build(self, source_ids_shape=None, target_ids_shape=None):
        width, hidden = self.embedding_dim, self.hidden_dim
        for embedding in (self.target_embedding, self.source_embedding, self.output_embedding):
            if not embedding.built:
                embedding.build((None, None))
        for encoder in (self.forward_encoder, self.backward_encoder):
            encoder.build((None, None, width))
        self.bridge.build((None, hidden))
        if self.attention is not None:
            memory = (None, None, self.memory_size)
            self.attention.build((None, None, hidden), key_shape=memory, value_shape=memory)
        self.decoder.build(self.memory_size)
        self.built = True

    def encode(self, source_ids, training=None):
        mask = padding_mask(source_ids)
        real = mask[:, 0, 0]
        x = self.embedding_dropout(self.source_embedding(source_ids), training=training)
        # A masked step repeats the state before it, so the last row is the state after the last real token.
        states = self.forward_encoder(x, mask=real)
        backward = self.read_backward(x, real)
        start = backward[:, 0]
        final = ops.concatenate([states[:, -1], start], -1)
        states = ops.concatenate([states, backward], -1)
        states, final = (self.memory_dropout(x, training=training) for x in (states, final))
        prepared = {"start": self.bridge(start), "final": final}
        if self.attention is not None:
            prepared["keys"], prepared["values"] = self.attention.project_memory(states, states)
        return Memory(states, mask, (), prepared)

    def read_backward(self, x, real):
        """Reads the source from its end, and returns the states in its order: `(B, S, E)` and bool `(B, S)` to
        `(B, S, N)`."""
        return ops.flip(self.backward_encoder(x, mask=real), axis=1)

    def places(self, side):
        yield Returned(self.embedding_dropout, "call", f"{side}.embedding")
        cross = "decoder.0.cross"
        if side == "encoder":
            yield Returned(self.forward_encoder, "call", "encoder.forward.states")
            yield Returned(self, "read_backward", "encoder.backward.states")
            yield Returned(self.bridge, "call", "decoder.start")
            if self.attention is not None:
                yield Returned(self.attention, "project_memory", (f"{cross}.keys", f"{cross}.values"))
            return
        if self.attention is not None:
            yield Returned(self.attention, "project_query", f"{cross}.queries")
            yield Heads(self.attention, cross)
        yield from self.decoder.places()
        yield Returned(self.output_embedding, "logits", "logits")

    def start_cache(self, memory):
        hidden = memory.prepared["start"]
        batch, sources = dynamic_shape(memory.states)[:2]
        return RecurrentState(
            hidden,
            ops.zeros((batch, self.memory_size), hidden.dtype),
            ops.zeros((batch, self.embedding_dim), hidden.dtype),
            ops.zeros((batch, sources), "float32"),
        )

    def decode(self, target_ids, memory, cache=None, training=None):
        first = self.start_cache(memory) if cache is None else cache
        x = self.embedding_dropout(self.target_embedding(target_ids), training=training)
        states, weights, last = self.decoder(x, first=first, attend=self._attend(memory), training=training)
        return DecoderOutput(
            states,
            self.output_embedding.logits(states),
            () if self.attention is None else (weights,),
            (),
            None if cache is None else last,
        )

    def _attend(self, memory):
        """Returns the function by which the decoder attends to the memory."""
        prepared, attention = memory.prepared, self.attention
        batch, sources = dynamic_shape(memory.states)[:2]
        if attention is None:

            def final(query):
                rows = dynamic_shape(query)[0]
                return rows_for_each(prepared["final"], rows), ops.zeros((rows, sources), "float32")

            return final

        def attend(query):
            # Hypotheses of one source are queries to one memory.
            rows, size = dynamic_shape(query)
            query = attention.project_query(ops.reshape(query, (batch, rows_of_each(rows, batch), size)))
            context, weights = attention.attend(query, prepared["keys"], prepared["values"], memory.mask)
            return ops.reshape(context, (rows, self.memory_size)), ops.reshape(weights, (rows, sources))

        return attend
