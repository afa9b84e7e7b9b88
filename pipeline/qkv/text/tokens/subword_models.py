"""A SentencePiece model, applied by TensorFlow Text or, where that cannot be loaded, by SentencePiece itself.

Both give the same ids, text and ends of tokens, but where a unigram model finds two divisions of a word exactly equally
likely: there they may differ. TensorFlow Text has no wheels for Windows, and each of its versions fits one version of
TensorFlow.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import sentencepiece

from ...runtime.import_tensorflow import silenced_stderr
from ..lines.line import find_tag, visible, without_tag


class SubwordModel(Protocol):
    """A model that is applied."""

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the ids of each text; none for one that `is_empty`."""
        ...

    def ends(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns where each token of `encode(texts)` ends: the number of bytes of its text up to there."""
        ...

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Returns the text of each row of ids."""
        ...


class PlainModel(SubwordModel, Protocol):
    """A model that is applied without TensorFlow, and can be sent to another process."""

    vocabulary_size: int
    """The number of ids."""


def load_subword_model(model: bytes) -> SubwordModel:
    """Loads a model; raises a `RuntimeError` if it is no SentencePiece model."""
    if not has_tensorflow_text():
        return SentencePieceModel(model)
    from .tensorflow_text_model import TensorFlowTextModel

    return TensorFlowTextModel(model)


def has_tensorflow_text() -> bool:
    """Returns whether TensorFlow Text can be loaded."""
    try:
        with silenced_stderr():
            from . import tensorflow_text_model  # noqa: F401
    except Exception as error:
        # It is missing, or does not fit TensorFlow, whose own errors share no base class with Python's.
        if not isinstance(error, ImportError | OSError) and not type(error).__module__.startswith("tensorflow"):
            raise
        return False
    return True


class SentencePieceModel:
    """Applies a model by SentencePiece; see `SubwordModel`.

    Raises:
        RuntimeError: it is no SentencePiece model.
    """

    def __init__(self, model: bytes) -> None:
        if not model:  # the library would do without one
            raise RuntimeError("the model is empty")
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        self.vocabulary_size = self._processor.get_piece_size()

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return self._processor.encode(list(map(visible, texts)), num_threads=1)

    def ends(self, texts: Sequence[str]) -> list[list[int]]:
        encoded = self._processor.encode(
            list(map(visible, texts)), return_type="offset_mapping", return_bytes=True, num_threads=1
        )
        return [[end for _, end in text["offsets"]] for text in encoded]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        return self._processor.decode([list(row) for row in ids], num_threads=1) if ids else []


class TaggedSubwords:
    """A subword model with tags; see `SubwordModel`. A text that begins with a tag has it as its first token; a text
    that is nothing but a tag has no tokens.

    Args:
        model: encodes the rest of a text.
        tags: the ids of the tags.
    """

    def __init__(self, model: "SubwordModel", tags: Mapping[str, int]) -> None:
        self._model, self._tags = model, tags

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        tags = [find_tag(text, self._tags) for text in texts]
        rest = self._model.encode([without_tag(text, self._tags) for text in texts])
        return [[self._tags[tag], *ids] if tag and ids else ids for tag, ids in zip(tags, rest, strict=True)]

    def ends(self, texts: Sequence[str]) -> list[list[int]]:
        tags = [find_tag(text, self._tags) for text in texts]
        rest = self._model.ends([without_tag(text, self._tags) for text in texts])
        sizes = [0 if tag is None else len(tag.encode()) for tag in tags]
        return [
            [size, *(end + size + 1 for end in ends)] if size and ends else ends
            for size, ends in zip(sizes, rest, strict=True)
        ]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        return self._model.decode(ids)
