"""The tokenizer of a trained run: encodes and decodes text of both languages, and finds the word of each token.

`text.tokens.run_tokenizer` trains its SentencePiece model, and `text.tokens.subword_models` applies it.
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

UNKNOWN = " \u2047 "  # SentencePiece's text for an unknown token; its word ends before the last space


class UnreadCharacters(NamedTuple):
    """Invisible characters without a token.

    - left_out: the characters that are left out.
    - spaces: the white space that is read as a space.
    """

    left_out: str
    spaces: str


class Tokenizer:
    """Encodes and decodes text by a SentencePiece model that the run has trained.

    Invisible characters without a token are left out or read as spaces; see `as_read`. Only `side_models`, which encode
    training text, read all text unchanged.

    If a source begins with a tag of the model, the tag is its first token; see `with_tag` for other sources.

    Args:
        path: the file of the model.

    Attributes:
        model: the content of the file.
        vocabulary_size: the number of ids.
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

    def __repr__(self) -> str:
        """Returns the class, the number of ids, and the tags; of more than four tags their number."""
        tags = f"tags {' '.join(self.tags)}" if len(self.tags) <= 4 else f"{len(self.tags)} tags"
        size = f"{self.vocabulary_size:,} tokens"
        return f"<{type(self).__name__}: {size}, {tags}>" if self.tags else f"<{type(self).__name__}: {size}>"

    _silent = frozenset((PAD, BOS, EOS))  # the ids that add no text; the tags are added to them
    tag: str | None = None
    """The tag that is put before sources without a tag; None for no tag."""

    @property
    def of_target(self) -> "Tokenizer":
        """The tokenizer of the target language. It has the same ids, but no tags, which only sources have."""
        if not self.tags:
            return self
        untagged = copy.copy(self)
        untagged.tags = {}
        untagged.tag = None
        return untagged

    def with_tag(self, tag: str | None) -> "Tokenizer":
        """Returns a tokenizer that puts a tag before every source without a tag.

        This tag is not a word of the source, and is not counted by `count_tokens`.

        Args:
            tag: the tag; None for no tag.

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

    def check_special_ids(self, name: str) -> None:
        """Raises an `InputError` if the special tokens have other ids than in the tokenizers that training makes.

        Args:
            name: the name of the tokenizer, for the message.
        """
        ids = {name: getattr(self._processor, f"{name}_id")() for name in ("pad", "unk", "bos", "eos")}
        expected = {"pad": PAD, "unk": UNK, "bos": BOS, "eos": EOS}
        if ids != expected:
            listed = ", ".join(f"{name}_id={token}" for name, token in expected.items())
            found = ", ".join(f"{name}_id={token}" for name, token in ids.items())
            raise InputError(
                f"{name}: expected a SentencePiece model with {listed}, found {found}; train it with these options"
            )

    @property
    def side_models(self) -> tuple[SentencePieceModel, SentencePieceModel]:
        """The models that encode sources and targets. They can be sent to another process."""
        model = SentencePieceModel(self.model)
        return model, model

    @cached_property
    def unread(self) -> UnreadCharacters:
        """The invisible characters without a token."""
        return UnreadCharacters(*("".join(self.lacking(kind)) for kind in (FORMAT_CHARACTERS, OTHER_SPACES)))

    def lacking(self, characters: Iterable[str]) -> list[str]:
        """Returns those of `characters` that are in no token of the vocabulary."""
        known = set().union(*self._pieces)
        return [character for character in characters if character not in known]

    @cached_property
    def _replacements(self) -> dict[int, str]:
        """The replacement of each unread character by its code, as `str.translate` needs it."""
        return str.maketrans(dict.fromkeys(self.unread.left_out, "") | dict.fromkeys(self.unread.spaces, " "))

    def as_read(self, text: str) -> str:
        """Returns a text as `encode` reads it.

        Among characters without a token, white space becomes a space, and other invisible characters are left out.
        """
        changed = text.translate(self._replacements)
        return text if changed == text else compose(changed)

    def without_format_characters(self, line: str) -> str:
        """Returns a line without the characters that `encode` leaves out.

        A word of such characters alone is not changed, so that all words keep their numbers.
        """
        left_out = str.maketrans("", "", self.unread.left_out)
        return " ".join(word.translate(left_out) or word for word in line.split(" "))

    def encode(self, sentences: Sequence[str]) -> list[list[int]]:
        """Returns the ids of each sentence, without BOS and EOS. A sentence that is only a tag has no tokens."""
        return self._encode(sentences, self.tag)

    def count_tokens(self, sentences: Sequence[str]) -> list[int]:
        """Returns the number of tokens in each sentence, without BOS, EOS and the tag of `with_tag`."""
        return [len(ids) for ids in self._encode(sentences, None)]

    def _encode(self, sentences: Sequence[str], otherwise: str | None) -> list[list[int]]:
        """Returns the ids of each sentence. `otherwise` is the tag of sentences without a tag; None for no tag."""
        sentences = list(map(self.as_read, sentences))
        tags = [find_tag(text, self.tags) or otherwise for text in sentences]
        encoded = self._subwords.encode([without_tag(text, self.tags) for text in sentences])
        return [[self.tags[tag], *ids] if tag and ids else ids for tag, ids in zip(tags, encoded, strict=True)]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Returns the text of each row of ids. PAD, BOS and EOS are skipped."""
        text_ids = [[int(token) for token in row if token not in (PAD, BOS, EOS)] for row in ids]
        return self._subwords.decode(text_ids)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Returns the spelling of each id, with a mark at the start of a word: `['▁the', '▁cat', '</s>']`."""
        return [self._pieces[token] for token in ids]

    @property
    def scores(self) -> list[float]:
        """The score of each id: minus the rank of its merge in a BPE model, the log-probability in a unigram model."""
        return [self._processor.get_score(token) for token in range(self.vocabulary_size)]

    def words_from_text(self, sentences: Sequence[str], unit: str = "spaces") -> list[list[int | None]]:
        """Returns the number of the word of each token of `encode(sentences)`; None for a token without a word.

        Words are counted in the sentences as they are written. So a word whose characters are all left out has a
        number, too.

        Args:
            sentences: the sentences.
            unit: the unit that counts as a word, a key of `config.choices.text.WORD_UNITS`.
        """
        words: list[list[int | None]] = []
        lines = list(map(self.as_read, sentences))
        ends_of_lines = self._subwords.ends([without_tag(line, self.tags) for line in lines])
        for text, line, ends in zip(sentences, lines, ends_of_lines, strict=True):
            tag = find_tag(line, self.tags)
            if tag and ends:
                size = len(tag.encode())
                ends = [size, *(end + size + 1 for end in ends)]
            if line != text:
                ends = self._ends_as_written(text, ends)
            words_of_tag = [None] if self.tag and not tag else []
            words.append([*words_of_tag, *word_of_each_token(text, ends, unit)])
        return words

    def _ends_as_written(self, text: str, ends: Sequence[int]) -> list[int]:
        """Returns for each token the number of bytes of a text up to the token's end.

        Args:
            text: the text as it is written.
            ends: for each token the number of bytes of `as_read(text)` up to the token's end.
        """
        # For each number of characters, the bytes in the text as read and in the text as written.
        bytes_read = [0]
        bytes_written = [0]
        for word in re.findall("[^ ]* ?", text):  # accents are not composed across a space
            read_before, written_before = bytes_read[-1], bytes_written[-1]
            for length in range(1, len(word) + 1):
                part = word[:length]
                bytes_read.append(read_before + len(self.as_read(part).encode()))
                bytes_written.append(written_before + len(part.encode()))
        # A token that is only the mark of a word's beginning has no bytes; it belongs to the word after it.
        lengths = np.searchsorted(np.maximum.accumulate(bytes_read), np.maximum(ends, 1))
        return np.array(bytes_written)[lengths].tolist()

    def words_from_ids(self, ids: Sequence[int], unit: str = "spaces") -> list[int | None]:
        """Returns the number of the word of each id in `decode([ids])`; None for special tokens and tags.

        A model may spell a word with other tokens than `encode`, so this uses the ids, not the text.

        Args:
            ids: the ids of a translation.
            unit: the unit that counts as a word, a key of `config.choices.text.WORD_UNITS`.
        """
        if unit == "subwords":
            return [None if token in (PAD, BOS, EOS) else position for position, token in enumerate(ids)]
        spelt = [
            "" if token in self._silent else UNKNOWN if token == UNK else piece.replace(WORD_START, " ")
            for token, piece in zip(ids, self.pieces(ids), strict=True)
        ]
        lengths = accumulate(len(text.encode()) for text in spelt)
        ends = [length - (text == UNKNOWN) for text, length in zip(spelt, lengths, strict=True)]
        words = word_of_each_token("".join(spelt), ends, unit)
        return [None if token in self._silent else word for token, word in zip(ids, words, strict=True)]
