"""The vocabulary of a Marian model in the order of a run: PAD, UNK, BOS and EOS, then the other pieces as in Marian.

If source and target have separate vocabularies, the run's vocabulary is their union. A piece of both has one id.

Letters: V vocabulary of the run.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..text.tokens.special_tokens import BOS, EOS, PAD, UNK
from .marian_config import MarianConfig, read_marian_file

START_PIECE = "<s>"
"""The spelling of BOS if Marian has no piece for it: its own models start with the vector of padding."""

MISSING_ROW = -1
"""The number of a piece that a side does not have."""


@dataclass(frozen=True)
class MarianVocabulary:
    """The vocabulary of an imported run.

    Args:
        pieces: the spelling of each id of the run.
        source: the row of each id in Marian's source embedding, int `(V,)`; `MISSING_ROW` if it has no row.
        target: the row of each id in Marian's target embedding, int `(V,)`; `MISSING_ROW` if it has no row.
        special: the id of each special token, by its spelling in text.
        shared: True if source and target share a vocabulary in Marian, False if their vocabularies are separate.
    """

    pieces: list[str]
    source: npt.NDArray[np.int64]
    target: npt.NDArray[np.int64]
    special: dict[str, int]
    shared: bool

    @property
    def tags(self) -> list[str]:
        """The language tags among the pieces, such as `>>fra<<`."""
        return [piece for piece in self.pieces if piece.startswith(">>") and piece.endswith("<<") and len(piece) > 4]

    @property
    def sides(self) -> dict[str, list[int]]:
        """The ids that can occur in text of each side, by the name of the side, `source` or `target`."""
        sides = {"source": self.source, "target": self.target}
        return {
            name: [int(i) for i in np.flatnonzero(numbers != MISSING_ROW) if i != BOS]
            for name, numbers in sides.items()
        }


def read_marian_vocabulary(folder: Path, config: MarianConfig) -> MarianVocabulary:
    """Reads `vocab.json`, and `target_vocab.json` if the tokenizer has `separate_vocabs`.

    Args:
        folder: the Marian folder.
        config: the settings of the Marian model.

    Raises:
        InputError: a file is missing or damaged, or does not match the config.
    """
    separate = config.tokenizer.get("separate_vocabs", False) is True
    names = {"pad": "<pad>", "unk": "<unk>", "eos": "</s>"}
    names = {key: _spelling(config.tokenizer.get(f"{key}_token"), name) for key, name in names.items()}
    if not separate and config.source_size != config.target_size:
        raise InputError(
            f"{folder}: vocab_size ({config.source_size}) and decoder_vocab_size ({config.target_size}) differ, and "
            "tokenizer_config.json does not set separate_vocabs; expected equal sizes, or separate_vocabs true and "
            "target_vocab.json"
        )
    source = _read(folder / "vocab.json", config.source_size, config, names)
    target = _read(folder / "target_vocab.json", config.target_size, config, names) if separate else source
    first = {names["pad"]: PAD, names["unk"]: UNK, names["eos"]: EOS}
    start = START_PIECE
    if config.has_start_piece:
        start = next((piece for piece, number in target.items() if number == config.start), START_PIECE)
    known = {*first, start} if config.has_start_piece else {*first}
    in_order = [piece for side in (source, target) for piece in sorted(side, key=side.__getitem__)]
    rest = [piece for piece in dict.fromkeys(in_order) if piece not in known]
    pieces = [names["pad"], names["unk"], start, names["eos"], *rest]
    source_rows = _rows(source, pieces, config.start)
    target_rows = _rows(target, pieces, config.start)
    return MarianVocabulary(pieces, source_rows, target_rows, _special(config, first, pieces), not separate)


def _rows(vocabulary: Mapping[str, int], pieces: list[str], start: int) -> npt.NDArray[np.int64]:
    """Returns the row of each piece in the embedding of a side.

    Args:
        vocabulary: the row of each piece of the side.
        pieces: the spelling of each id of the run.
        start: the row of the first input token of the decoder, which becomes the row of BOS.

    Returns:
        int `(V,)`; `MISSING_ROW` if the side does not have the piece.
    """
    numbers = np.array([vocabulary.get(piece, MISSING_ROW) for piece in pieces], np.int64)
    numbers[BOS] = start
    return numbers


def _special(config: MarianConfig, first: Mapping[str, int], pieces: list[str]) -> dict[str, int]:
    """Returns the id of each special token, by its spelling.

    Args:
        config: the settings of the Marian model.
        first: the ids of PAD, UNK and EOS, by their spelling.
        pieces: the spelling of each id of the run.

    Returns:
        The ids of `first` and of the special tokens that were added to the tokenizer. If the decoder starts with PAD,
        the spelling of PAD has the id of BOS.
    """
    added = config.tokenizer.get("added_tokens_decoder")
    contents = [_spelling(token, "") for token in added.values()] if isinstance(added, dict) else []
    known = {piece: i for i, piece in enumerate(pieces) if i != BOS}
    special = {**first, **{name: known[name] for name in contents if name in known}}
    if config.start == config.pad:  # a pad token written in a text has the vector of BOS, and must not be masked
        special[pieces[PAD]] = BOS
    return special


def _spelling(token: Any, default: str) -> str:
    """Returns the spelling of a token in `tokenizer_config.json`.

    Args:
        token: the value in the file: the spelling, or an object with the spelling as `content`.
        default: the result if the value has neither form, or if the spelling is empty.
    """
    content = token.get("content") if isinstance(token, dict) else token
    return content if isinstance(content, str) and content else default


def _read(path: Path, size: int, config: MarianConfig, names: Mapping[str, str]) -> dict[str, int]:
    """Reads and checks a vocabulary file.

    Args:
        path: the file.
        size: the number of rows of the embedding.
        config: the settings of the Marian model.
        names: the spelling of the tokens `pad`, `unk` and `eos`.

    Returns:
        The row of each piece in the embedding. A row without a piece gets the piece `<unused ROW>`.

    Raises:
        InputError: the file is missing or damaged, or does not match the config.
    """
    vocabulary = read_marian_file(path)
    numbers = list(vocabulary.values())
    if not all(isinstance(number, int) and 0 <= number < size for number in numbers):
        raise InputError(f"{path}: expected an id below {size}, the vocabulary of config.json, for each piece")
    if len(set(numbers)) < len(numbers):
        raise InputError(f"{path}: two pieces have the same id; expected a different id for each piece")
    for key, number in (("pad", config.pad), ("eos", config.eos), ("unk", None)):
        piece_number = vocabulary.get(names[key])
        if piece_number is None or number not in (None, piece_number):
            expected = f"id {number}, the {key}_token_id of the config" if number is not None else "an id"
            found = "none" if piece_number is None else piece_number
            raise InputError(f"{path}: {names[key]}: expected {expected}, found {found}")
    # Marian pads its tables with rows that have no piece.
    spare = sorted(set(range(size)) - set(numbers))
    return {**vocabulary, **{f"<unused {number}>": number for number in spare}}
