"""A SentencePiece model, applied by TensorFlow Text or, if that cannot be loaded, by SentencePiece itself.

Both give the same ids, text and ends of tokens, with one exception: they may differ if two segmentations of a word are
exactly equally likely under a unigram model. TensorFlow Text has no wheels for Windows, and each of its versions fits
one version of TensorFlow.
"""

from collections.abc import Sequence
from importlib import import_module
from itertools import chain
from typing import Any

import numpy as np
import sentencepiece

from ...runtime.import_tensorflow import silenced_stderr
from ..lines.line import visible


class SentencePieceModel:
    """Applies a model by SentencePiece, without TensorFlow. It can be sent to another process.

    Args:
        model: the content of the model's file.

    Raises:
        RuntimeError: the bytes are not a SentencePiece model.
    """

    def __init__(self, model: bytes) -> None:
        if not model:  # the library would accept it
            raise RuntimeError("the model is empty")
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        self.vocabulary_size: int = self._processor.get_piece_size()

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the ids of each text. A text that `text.lines.line.is_empty` has none."""
        return self._processor.encode(list(map(visible, texts)), num_threads=1)

    def ends(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns for each token of `encode(texts)` the number of bytes of its text up to the token's end."""
        texts = list(map(visible, texts))
        encoded = self._processor.encode(texts, return_type="offset_mapping", return_bytes=True, num_threads=1)
        return [[end for _, end in text["offsets"]] for text in encoded]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Returns the text of each row of ids."""
        return self._processor.decode([list(row) for row in ids], num_threads=1) if ids else []


def load_subword_model(model: bytes) -> SentencePieceModel:
    """Returns a model that is applied by TensorFlow Text or, if that cannot be loaded, by SentencePiece.

    Raises:
        RuntimeError: the bytes are not a SentencePiece model.
    """
    return TensorFlowTextModel(model) if has_tensorflow_text() else SentencePieceModel(model)


def has_tensorflow_text() -> bool:
    """Returns whether TensorFlow Text can be loaded."""
    try:
        with silenced_stderr():
            import_module("tensorflow_text")
    except Exception as error:
        # It is missing or does not fit TensorFlow. TensorFlow's errors have no base class among Python's.
        if not isinstance(error, ImportError | OSError) and not type(error).__module__.startswith("tensorflow"):
            raise
        return False
    return True


class TensorFlowTextModel(SentencePieceModel):
    """Applies a model by TensorFlow Text, which is imported by the constructor.

    Args:
        model: the content of the model's file.

    Raises:
        RuntimeError: the bytes are not a SentencePiece model.
    """

    def __init__(self, model: bytes) -> None:
        self._model = model
        self._tensorflow = import_module("tensorflow")
        try:
            with silenced_stderr():
                self._tokenizer  # noqa: B018  # a damaged model fails here, not at its first use
        except self._tensorflow.errors.OpError as error:
            raise RuntimeError(error.message) from None

    @property
    def _tokenizer(self) -> Any:
        """The tokenizer of TensorFlow Text. It is made for each use, which takes 0.2 ms.

        A stored one would fail: its model is in TensorFlow's kernel cache, which `keras.utils.set_random_seed` and
        `keras.backend.clear_session` empty.
        """
        return import_module("tensorflow_text").SentencepieceTokenizer(self._model, out_type=self._tensorflow.int32)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return self._tokenizer.tokenize(self._strings(texts)).to_list()

    def ends(self, texts: Sequence[str]) -> list[list[int]]:
        _, _, ends = self._tokenizer.tokenize_with_offsets(self._strings(texts))
        return ends.to_list()

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        # `tf.ragged.constant` would look at each number in Python, which takes longer than decoding.
        lengths = np.fromiter(map(len, ids), np.int64, len(ids))
        tokens = np.fromiter(chain.from_iterable(ids), np.int32, int(lengths.sum()))
        rows = self._tensorflow.RaggedTensor.from_row_lengths(tokens, lengths, validate=False)
        return [text.decode() for text in self._tokenizer.detokenize(rows).numpy()]

    def _strings(self, texts: Sequence[str]) -> Any:
        """Returns texts as a tensor of strings; a text that `text.lines.line.is_empty` becomes the empty string."""
        return self._tensorflow.constant(list(map(visible, texts)), self._tensorflow.string, shape=(len(texts),))
