"""Turns text into ids and back with one SentencePiece model for both languages; maps each token to its word.

`run_tokenizer` trains the model; `subword_models` apply it.
"""

import copy
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import numpy as np
import sentencepiece

from ...errors import InputError
from ..lines.line import FORMAT_CHARACTERS, OTHER_SPACES, compose, find_tag, without_tag
from .special_tokens import BOS, EOS, PAD, UNK, WORD_START
from .subword_models import SentencePieceModel, load_subword_model
from .words import word_of_each_token

UNKNOWN = " \u2047 "  # what SentencePiece writes for an unknown token, whose word ends before the last space


class UnreadCharacters(NamedTuple):
    """Invisible characters that a vocabulary lacks.

    - left_out: those that are left out.
    - spaces: white space, which is read as a space.
    """

    left_out: str
    spaces: str


class Tokenizer:
    """Applies a trained subword model.

    Invisible characters without a token are not read as unknown ones, see `as_read`. Only `side_models`, which encode
    training text, leave text as it is.

    If the model has tags, a source that begins with one has it as its first token; see `with_tag` for the others.

    Args:
        path: the file of the model.

    Attributes:
        tags: the ids of the tags, by their spelling.

    Raises:
        InputError: the file is missing or is not a SentencePiece model.
    """

    def __init__(self, path: Path) -> None:
        try:
            self.model = Path(path).read_bytes()
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=self.model)
            self.vocabulary_size = self._processor.get_piece_size()
            self._pieces = [self._processor.id_to_piece(token) for token in range(self.vocabulary_size)]
            self._subwords = load_subword_model(self.model)
            self.tags = {
                self._pieces[token]: token
                for token in range(EOS + 1, self.vocabulary_size)
                if self._processor.is_control(token)
            }
            self._silent = self._silent.union(self.tags.values())
        except (OSError, RuntimeError, UnicodeDecodeError):
            raise InputError(f"{path}: not a tokenizer; expected the SentencePiece model that train.py wrote") from None

    _silent = frozenset((PAD, BOS, EOS))  # ids that add nothing to the text
    tag: str | None = None
    """What is put before sources that begin with no tag."""

    @property
    def of_target(self) -> "Tokenizer":
        """The tokenizer of the target language, with the same ids; itself if there are no tags, which sources have."""
        if not self.tags:
            return self
        plain = copy.copy(self)
        plain.tags, plain.tag = {}, None
        return plain

    def with_tag(self, tag: str | None) -> "Tokenizer":
        """Returns a tokenizer that puts a tag before every source that begins with none; None for no tag. It is no word
        of the text and is not counted as a token of it.

        Raises:
            InputError: the model has no such tag.
        """
        if tag == self.tag:
            return self
        if tag is not None and tag not in self.tags:
            known = ", ".join(self.tags) or "none"
            raise InputError(f"decoding.tag: the vocabulary has no tag {tag!r:.60}; expected one of its tags: {known}")
        tagged = copy.copy(self)
        tagged.tag = tag
        return tagged

    @property
    def side_models(self) -> tuple[SentencePieceModel, SentencePieceModel]:
        """The models that encode sources and targets, in this process or in another."""
        model = SentencePieceModel(self.model)
        return model, model

    @cached_property
    def unread(self) -> UnreadCharacters:
        """The invisible characters without a token."""
        return UnreadCharacters(*("".join(self.lacking(kind)) for kind in (FORMAT_CHARACTERS, OTHER_SPACES)))

    def lacking(self, characters: Iterable[str]) -> list[str]:
        """Returns the characters without a token."""
        known = set().union(*self._pieces)
        return [character for character in characters if character not in known]

    @cached_property
    def _read_instead(self) -> dict[int, str]:
        return str.maketrans(dict.fromkeys(self.unread.left_out, "") | dict.fromkeys(self.unread.spaces, " "))

    def as_read(self, text: str) -> str:
        """Returns a text as `encode` reads it: with a space for white space without a token, and without other
        invisible characters that have none. Training text has none of these."""
        read = text.translate(self._read_instead)
        return text if read == text else compose(read)

    def without_format_characters(self, line: str) -> str:
        """Returns a line without the characters that `encode` leaves out. The words of the line keep their numbers: one
        of such characters alone stays."""
        left_out = str.maketrans("", "", self.unread.left_out)
        return " ".join(word.translate(left_out) or word for word in line.split(" "))

    def encode(self, sentences: Sequence[str]) -> list[list[int]]:
        """Encodes sentences as ids, without BOS and EOS. What is nothing but a tag has no tokens."""
        return self._encode(sentences, self.tag)

    def count_tokens(self, sentences: Sequence[str]) -> list[int]:
        """Returns the number of tokens of each sentence, without BOS and EOS."""
        return [len(ids) for ids in self._encode(sentences, None)]

    def _encode(self, sentences: Sequence[str], otherwise: str | None) -> list[list[int]]:
        sentences = list(map(self.as_read, sentences))
        tags = [find_tag(text, self.tags) or otherwise for text in sentences]
        encoded = self._subwords.encode([without_tag(text, self.tags) for text in sentences])
        return [[self.tags[tag], *ids] if tag and ids else ids for tag, ids in zip(tags, encoded, strict=True)]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Decodes ids to text; PAD, BOS and EOS are left out."""
        text_ids = [[int(token) for token in row if token not in (PAD, BOS, EOS)] for row in ids]
        return self._subwords.decode(text_ids)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Returns the spelling of each id in the vocabulary, with a mark where a word starts:
        `['▁the', '▁cat', '</s>']`."""
        return [self._pieces[token] for token in ids]

    @property
    def scores(self) -> list[float]:
        """The score of each id: the order of merges, or the log-probability of a unigram model."""
        return [self._processor.get_score(token) for token in range(self.vocabulary_size)]

    def words_from_text(self, sentences: Sequence[str], unit: str = "spaces") -> list[list[int | None]]:
        """Returns the word of each token of `encode(sentences)` by byte offsets, for `spaces` as in `words_of`. Words
        are those of the sentences as they are written, so one that is not read keeps its number."""
        words: list[list[int | None]] = []
        lines = list(map(self.as_read, sentences))
        rest = self._subwords.ends([without_tag(line, self.tags) for line in lines])
        for text, line, ends in zip(sentences, lines, rest, strict=True):
            tag = find_tag(line, self.tags)
            if tag and ends:
                size = len(tag.encode())
                ends = [size, *(end + size + 1 for end in ends)]
            if line != text:
                ends = self._ends_as_written(text, ends)
            added = [None] if self.tag and not tag else []
            words.append([*added, *word_of_each_token(text, ends, unit)])
        return words

    def _ends_as_written(self, text: str, ends: Sequence[int]) -> list[int]:
        """Returns the number of bytes of a text up to the end of each token, given those of the text `as_read`."""
        read, written = [0], [0]
        for word in re.findall("[^ ]* ?", text):  # accents are not composed across a space
            before = read[-1], written[-1]
            for length in range(1, len(word) + 1):
                part = word[:length]
                read.append(before[0] + len(self.as_read(part).encode()))
                written.append(before[1] + len(part.encode()))
        # A mark of a word's beginning, which has no bytes, is where the word begins.
        places = np.searchsorted(np.maximum.accumulate(read), np.maximum(ends, 1))
        return np.array(written)[places].tolist()

    def words_from_ids(self, ids: Sequence[int], unit: str = "spaces") -> list[int | None]:
        """Returns the word of each id in `decode([ids])`, see `word_of_each_token`; None for special tokens and tags.

        A model may spell a word with other tokens than `encode`, so this uses the ids, not the text.
        """
        if unit == "subwords":
            return [None if token in (PAD, BOS, EOS) else place for place, token in enumerate(ids)]
        spelt = [
            "" if token in self._silent else UNKNOWN if token == UNK else piece.replace(WORD_START, " ")
            for token, piece in zip(ids, self.pieces(ids), strict=True)
        ]
        lengths = accumulate(len(text.encode()) for text in spelt)
        ends = [length - (text == UNKNOWN) for text, length in zip(spelt, lengths, strict=True)]
        words = word_of_each_token("".join(spelt), ends, unit)
        return [None if token in self._silent else word for token, word in zip(ids, words, strict=True)]
