"""What else a model might have said: the likeliest tokens at each position of a translation.

Letters: S source positions, T target positions, K tokens that are shown.
"""

from typing import Any

import tensorflow as tf
from keras import ops

from ..text.batch import forced_batch
from ..text.tokens.tokenizer import Tokenizer

SHOWN_TOKENS = 8


class Alternatives:
    """Reads a translation and lists the likeliest tokens at each of its positions.

    Args:
        model: any `TranslationModel`.
        tokenizer: the tokenizer with which it was trained.
    """

    def __init__(self, model: Any, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

        def read(source, target_input):
            memory = model.encode(source, training=False)
            logits = model.decode(target_input, memory, training=False).logits
            return ops.top_k(ops.log_softmax(ops.cast(logits, "float32")), min(SHOWN_TOKENS, tokenizer.vocabulary_size))

        self._read = tf.function(read, input_signature=(tf.TensorSpec([1, None], tf.int32),) * 2, autograph=False)

    def at_each_token(self, source_ids: list[int], target_ids: list[int]) -> list[list[tuple[int, str, float]]]:
        """Returns (id, piece, log-probability) of the likeliest tokens, the likeliest first, for each target token.

        Args:
            source_ids: without EOS.
            target_ids: up to EOS, or to where it is cut.
        """
        batch = forced_batch([(source_ids, target_ids)])
        values, tokens = (x.numpy()[0, : len(target_ids)] for x in self._read(*batch.ids[:2]))
        pieces = [self._tokenizer.pieces([int(token) for token in row]) for row in tokens]
        return [
            [(int(token), piece, round(float(value), 4)) for token, piece, value in zip(*row, strict=True)]
            for row in zip(tokens, pieces, values, strict=True)
        ]
