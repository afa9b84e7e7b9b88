"""The tokenizer of an imported Marian model: a SentencePiece model for each side and one list of pieces by id."""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import sentencepiece

from ...errors import InputError
from ...files.json import read_json_object
from ..lines.line import visible
from .special_tokens import UNK, WORD_START
from .subword_models import SentencePieceModel, parse_model
from .tokenizer import Tokenizer, UnreadCharacters

SIDES = ("source", "target")
LARGEST_MODEL = 1 << 28  # the maximum size of a model in bytes; a model of 32,000 pieces has 800,000
_TAG = re.compile(r">>.*?<<", re.DOTALL)  # a language tag, such as >>fra<<


class MarianTokenizer(Tokenizer):
    """Encodes and decodes text by two SentencePiece models. A list of all pieces assigns the ids.

    A tag at the beginning of a text, such as `>>fra<<`, is its first token. If a text contains the name of a special
    token, such as `</s>`, the name is encoded as that token, as in Hugging Face's `MarianTokenizer`.

    Args:
        path: the file with the list, `given.json`. The models, `source.spm` and `target.spm`, are in the same folder.
        side: the language of the text to encode, `source` or `target`.

    The list is a JSON object with these keys:

    - pieces: the piece of each id.
    - sides: for `source` and `target`, the ids that their text can have.
    - special: the ids of special tokens by name.
    - decodes: `source` or `target`, the model that decodes translations.
    - sha256: the digests of both models.

    Raises:
        InputError: a file is missing or damaged, or the files do not belong together.
    """

    def __init__(self, path: Path, side: str = "source") -> None:
        self._path = Path(path)
        files = {name: read_model(self._path.with_name(f"{name}.spm")) for name in SIDES}
        try:
            listed = read_json_object(self._path)
            for name, model in files.items():
                if listed["sha256"][name] != hashlib.sha256(model).hexdigest():
                    raise ValueError(f"{name}.spm is not the file that was imported")
            models = {name: _load(model) for name, model in files.items()}
            self._pieces = listed["pieces"]
            self.vocabulary_size = len(self._pieces)
            ids = {self._pieces[token]: token for token in listed["sides"][side]}
            speller = models[listed["decodes"]]
            self._marian = _MarianSubwords(models[side], ids, listed["special"], speller, self._pieces)
            self._subwords = self._marian
        except (OSError, RuntimeError, ValueError, KeyError, TypeError, IndexError) as error:
            raise InputError(
                f"{path}: not the tokenizer of an imported run, or damaged: {error}; import it again"
            ) from None
        self._side = side
        self.tags = {}  # the tags of Marian are part of the text

    @cached_property
    def of_target(self) -> "MarianTokenizer":
        """The tokenizer of the target language, with the same ids."""
        return self if self._side == "target" else MarianTokenizer(self._path, "target")

    @cached_property
    def unread(self) -> UnreadCharacters:
        """Two empty strings: no character is left out or read as a space.

        An invisible character that the vocabulary lacks is an unknown token, as in Hugging Face's tokenizer.
        """
        return UnreadCharacters("", "")

    def lacking(self, characters: Iterable[str]) -> list[str]:
        """Returns those of `characters` that are read as unknown tokens, even after the model's normalisation."""
        return self._marian.lacking(characters)

    @property
    def side_models(self) -> tuple[SentencePieceModel, SentencePieceModel]:
        """The models that encode sources and targets."""
        return self._marian, self.of_target._marian


class _MarianSubwords(SentencePieceModel):
    """Encodes the text of one side, and decodes translations.

    Args:
        model: the model that encodes.
        ids: the id of each piece that text of that side can have, by its spelling.
        special: the ids of special tokens by name.
        speller: the model that decodes translations.
        pieces: the spelling of each id.
    """

    def __init__(
        self,
        model: sentencepiece.SentencePieceProcessor,
        ids: Mapping[str, int],
        special: Mapping[str, int],
        speller: sentencepiece.SentencePieceProcessor,
        pieces: Sequence[str],
    ) -> None:
        self._model = model
        self._ids = ids
        self._special = special
        self._speller = speller
        self._pieces = pieces
        self.vocabulary_size = len(pieces)
        self._parts = re.compile("|".join(map(re.escape, sorted(special, key=len, reverse=True))))

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [[token for token, _ in self._tokens(text)] for text in texts]

    def ends(self, texts: Sequence[str]) -> list[list[int]]:
        return [[end for _, end in self._tokens(text)] for text in texts]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        unknown = self._speller.id_to_piece(self._speller.unk_id())
        rows = ([unknown if token == UNK else self._pieces[token] for token in row] for row in ids)
        return [self._speller.decode_pieces(row).replace(WORD_START, " ").strip() for row in rows]

    def lacking(self, characters: Iterable[str]) -> list[str]:
        """Returns those of `characters` that are read as unknown tokens."""
        pieces = {character: self._model.encode(character, out_type=str) for character in characters}
        known = {*self._ids, WORD_START}
        return [character for character, spelt in pieces.items() if not known.issuperset(spelt)]

    def _tokens(self, text: str) -> list[tuple[int, int]]:
        """Returns `(id, end)` for each token: `end` is the number of bytes of the text up to the token's end."""
        tokens = []
        start = 0
        text = visible(text)
        for match in self._parts.finditer(text):
            tokens += self._tokens_between(text, start, match.start())
            tokens.append((self._special[match.group()], len(text[: match.end()].encode())))
            start = match.end()
        return tokens + self._tokens_between(text, start, len(text))

    def _tokens_between(self, text: str, start: int, end: int) -> list[tuple[int, int]]:
        """Returns `(id, end)`, as `_tokens` does, for the tokens from character `start` to before `end` of a text.

        This part of the text must not contain the name of a special token.
        """
        tokens = []
        if tag := _TAG.match(text, start, end):
            start = tag.end()
            tokens.append((self._ids.get(tag.group(), UNK), len(text[:start].encode())))
        before = len(text[:start].encode())
        encoded = self._model.encode(text[start:end], return_type="offset_mapping", return_bytes=True)
        for piece, (_, last) in zip(encoded["pieces"], encoded["offsets"], strict=True):
            tokens.append((self._ids.get(piece.decode("utf-8", "replace"), UNK), before + last))
        return tokens


def read_model(path: Path) -> bytes:
    """Returns the bytes of a SentencePiece model.

    Raises:
        InputError: the file is missing, is larger than `LARGEST_MODEL`, is not a SentencePiece model, or is cut off.
    """
    if not path.is_file() or path.stat().st_size > LARGEST_MODEL:
        raise InputError(f"{path}: expected a SentencePiece model, a file of at most {LARGEST_MODEL:,} bytes")
    model = path.read_bytes()
    try:
        _load(model)
    except RuntimeError:
        raise InputError(f"{path}: not a SentencePiece model, or damaged") from None
    whole = parse_model(model)
    if not (whole.pieces and whole.HasField("trainer_spec") and whole.HasField("normalizer_spec")):
        raise InputError(f"{path}: a SentencePiece model, empty or cut off; expected the whole file: copy it again")
    return model


def _load(model: bytes) -> sentencepiece.SentencePieceProcessor:
    """Returns the processor of a model; raises a `RuntimeError` if the bytes are not a SentencePiece model."""
    return sentencepiece.SentencePieceProcessor(model_proto=model)
