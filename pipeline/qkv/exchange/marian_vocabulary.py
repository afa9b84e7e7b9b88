"""The vocabulary of a Marian model in a run's order: PAD, UNK, BOS and EOS first, then all others in Marian's order.

Where source and target have vocabularies of their own, the run's is their union: a piece that both have has one id.
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

START = "<s>"  # how BOS is written; Marian starts with a vector that stands for no piece
NONE = -1


@dataclass(frozen=True)
class MarianVocabulary:
    """The ids of a run that was imported.

    Args:
        pieces: the spelling of each id.
        source: for each its number in the model's source embedding, or `NONE`: int `(V,)`.
        target: the same for target and output.
        special: the names of special tokens in text, with their ids.
        shared: whether source and target have one vocabulary.
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
        """For each side, the ids that its text can have."""
        sides = {"source": self.source, "target": self.target}
        return {name: [int(i) for i in np.flatnonzero(numbers != NONE) if i != BOS] for name, numbers in sides.items()}


def read_marian_vocabulary(folder: Path, config: MarianConfig) -> MarianVocabulary:
    """Reads `vocab.json`, and `target_vocab.json` where the tokenizer has one.

    Raises:
        InputError: one is missing or damaged, or does not fit the config.
    """
    separate = config.tokenizer.get("separate_vocabs", False) is True
    names = {"pad": "<pad>", "unk": "<unk>", "eos": "</s>"}
    names = {key: _spelling(config.tokenizer.get(f"{key}_token"), name) for key, name in names.items()}
    if not separate and config.source_size != config.target_size:
        raise InputError(
            f"{folder}: vocab_size ({config.source_size}) and decoder_vocab_size ({config.target_size}) differ, and "
            "tokenizer_config.json has no separate_vocabs; expected one vocabulary, or target_vocab.json"
        )
    source = _read(folder / "vocab.json", config.source_size, config, names)
    target = _read(folder / "target_vocab.json", config.target_size, config, names) if separate else source
    first = {names["pad"]: PAD, names["unk"]: UNK, names["eos"]: EOS}
    start = START
    if config.has_start_piece:
        start = next((piece for piece, number in target.items() if number == config.start), START)
    known = {*first, start} if config.has_start_piece else {*first}
    in_order = [piece for side in (source, target) for piece in sorted(side, key=side.__getitem__)]
    rest = [piece for piece in dict.fromkeys(in_order) if piece not in known]
    pieces = [names["pad"], names["unk"], start, names["eos"], *rest]
    of_source, of_target = (_numbers(side, pieces, config.start) for side in (source, target))
    return MarianVocabulary(pieces, of_source, of_target, _special(config, first, pieces), not separate)


def _numbers(vocabulary: Mapping[str, int], pieces: list[str], start: int) -> npt.NDArray[np.int64]:
    numbers = np.array([vocabulary.get(piece, NONE) for piece in pieces], np.int64)
    numbers[BOS] = start
    return numbers


def _special(config: MarianConfig, first: Mapping[str, int], pieces: list[str]) -> dict[str, int]:
    added = config.tokenizer.get("added_tokens_decoder")
    contents = [_spelling(token, "") for token in added.values()] if isinstance(added, dict) else []
    known = {piece: i for i, piece in enumerate(pieces) if i != BOS}
    special = {**first, **{name: known[name] for name in contents if name in known}}
    if config.start == config.pad:  # written in a text it is a token like others; BOS has its vector, and is no padding
        special[pieces[PAD]] = BOS
    return special


def _spelling(token: Any, otherwise: str) -> str:
    """Returns the spelling of a token of `tokenizer_config.json`, which is text or an object with its content."""
    content = token.get("content") if isinstance(token, dict) else token
    return content if isinstance(content, str) and content else otherwise


def _read(path: Path, size: int, config: MarianConfig, names: Mapping[str, str]) -> dict[str, int]:
    vocabulary = read_marian_file(path)
    numbers = list(vocabulary.values())
    if not all(isinstance(number, int) and 0 <= number < size for number in numbers):
        raise InputError(f"{path}: expected an id below {size}, the vocabulary of config.json, for each piece")
    if len(set(numbers)) < len(numbers):
        raise InputError(f"{path}: two pieces have one id; expected an id of its own for each")
    for key, number in (("pad", config.pad), ("eos", config.eos), ("unk", None)):
        found = vocabulary.get(names[key])
        if found is None or number not in (None, found):
            wanted = f"id {number}, the {key}_token_id of the config" if number is not None else "an id"
            raise InputError(f"{path}: {names[key]}: expected {wanted}, found {found}")
    # Rows that only fill the table up have no piece.
    spare = sorted(set(range(size)) - set(numbers))
    return {**vocabulary, **{f"<unused {number}>": number for number in spare}}
