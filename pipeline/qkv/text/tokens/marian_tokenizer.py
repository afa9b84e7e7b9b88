"""The tokenizer of another program: a SentencePiece model for each side, and one list of pieces that gives the ids."""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import sentencepiece
from sentencepiece.sentencepiece_model_pb2 import ModelProto

from ...errors import InputError
from ...files.json import read_json_object
from ..lines.line import visible
from .special_tokens import UNK, WORD_START
from .subword_models import SentencePieceModel
from .tokenizer import Tokenizer, UnreadCharacters

SIDES = ("source", "target")
LARGEST_MODEL = 1 << 28  # bytes; one of 32,000 pieces has 800,000
_TAG = re.compile(r">>.*?<<", re.DOTALL)  # a language tag, such as >>fra<<


class MarianTokenizer(Tokenizer):
    """Applies two SentencePiece models whose pieces have the ids of a list.

    Text that begins with a tag, such as `>>fra<<`, has it as its first token; names of special tokens in the text are
    these tokens, as in Hugging Face's `MarianTokenizer`.

    Args:
        path: the list, `given.json`, beside `source.spm` and `target.spm`. It holds `pieces`, by id; `sides`, for each
            side the ids that its text can have; `special`, the names of special tokens with their ids; `decodes`, the
            side whose model spells translations; `sha256` of both models.
        side: of which text is encoded; see `of_target`.

    Raises:
        InputError: a file is missing or damaged, or they do not belong together.
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
            self._given = self._subwords = _MarianSubwords(models[side], ids, listed["special"], speller, self._pieces)
        except (OSError, RuntimeError, ValueError, KeyError, TypeError, IndexError) as error:
            raise InputError(
                f"{path}: not the tokenizer of an imported run, or damaged: {error}; import it anew"
            ) from None
        self._side = side
        self.tags = {}  # its own tags stand in the text

    @cached_property
    def of_target(self) -> "MarianTokenizer":
        """See `Tokenizer.of_target`."""
        return self if self._side == "target" else MarianTokenizer(self._path, "target")

    @cached_property
    def unread(self) -> UnreadCharacters:
        """None: text is read as by Hugging Face's tokenizer, to which such characters are unknown."""
        return UnreadCharacters("", "")

    def lacking(self, characters: Iterable[str]) -> list[str]:
        """Returns the characters that are no tokens, nor are changed into some by the model's own rules."""
        return self._given.lacking(characters)

    @property
    def side_models(self) -> tuple[SentencePieceModel, SentencePieceModel]:
        """See `Tokenizer.side_models`."""
        return self._given, self.of_target._given


class _MarianSubwords(SentencePieceModel):
    """Encodes the text of one side, and spells text of the target."""

    def __init__(
        self,
        model: sentencepiece.SentencePieceProcessor,
        ids: Mapping[str, int],
        special: Mapping[str, int],
        speller: sentencepiece.SentencePieceProcessor,
        pieces: Sequence[str],
    ) -> None:
        self._model, self._ids, self._special = model, ids, special
        self._speller, self._pieces = speller, pieces
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
        """Returns the characters that are read as unknown."""
        pieces = {character: self._model.encode(character, out_type=str) for character in characters}
        known = {*self._ids, WORD_START}
        return [character for character, spelt in pieces.items() if not known.issuperset(spelt)]

    def _tokens(self, text: str) -> list[tuple[int, int]]:
        """Returns each token with the number of bytes of the text up to its end."""
        tokens = []
        start = 0
        text = visible(text)
        for match in self._parts.finditer(text):
            tokens += self._tokens_between(text, start, match.start())
            tokens.append((self._special[match.group()], len(text[: match.end()].encode())))
            start = match.end()
        return tokens + self._tokens_between(text, start, len(text))

    def _tokens_between(self, text: str, start: int, end: int) -> list[tuple[int, int]]:
        """Returns the tokens of a part of the text that names no special token."""
        tokens = []
        if tag := _TAG.match(text, start, end):
            start = tag.end()
            tokens.append((self._ids.get(tag.group(), UNK), len(text[:start].encode())))
        before = len(text[:start].encode())
        found = self._model.encode(text[start:end], return_type="offset_mapping", return_bytes=True)
        for piece, (_, last) in zip(found["pieces"], found["offsets"], strict=True):
            tokens.append((self._ids.get(piece.decode("utf-8", "replace"), UNK), before + last))
        return tokens


def read_model(path: Path) -> bytes:
    """Reads a SentencePiece model.

    Raises:
        InputError: it is missing, or something else.
    """
    if not path.is_file() or path.stat().st_size > LARGEST_MODEL:
        raise InputError(f"{path}: expected a SentencePiece model, a file of at most {LARGEST_MODEL:,} bytes")
    model = path.read_bytes()
    try:
        _load(model)
    except RuntimeError:
        raise InputError(f"{path}: not a SentencePiece model, or damaged") from None
    whole = ModelProto.FromString(model)
    if not (whole.pieces and whole.HasField("trainer_spec") and whole.HasField("normalizer_spec")):
        raise InputError(f"{path}: a SentencePiece model, empty or cut off; expected the whole file: copy it anew")
    return model


def _load(model: bytes) -> sentencepiece.SentencePieceProcessor:
    return sentencepiece.SentencePieceProcessor(model_proto=model)
