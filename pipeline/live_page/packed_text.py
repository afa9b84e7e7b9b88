"""A run's tokenizer and its normalisation of typed text as a page holds them, for `subword.js` and `typed_text.js`."""

from collections.abc import Iterator
from typing import Any

from ..errors import InputError
from ..text import europarl_words, moses
from ..text.tokenizer import BOS, EOS, PAD
from ..trained_run import TrainedRun

KINDS = {1: "unigram", 2: "bpe"}
UNKNOWN, CONTROL = 2, 3
ORDINARY = 1
PAGE = "a page with the model inside"


def pack_tokenizer(run: TrainedRun) -> dict[str, Any]:
    """Returns the pieces, their scores, and what kind of model it is.

    Raises:
        InputError: the tokenizer is of another kind, or does something with text that the page does not.
    """
    if run.config.tokenizer.kind == "given":
        raise InputError(f"{run.directory.root}: an imported run, whose tokenizer has no counterpart in {PAGE}")
    model = dict(_fields(run.tokenizer.model, repeated=(1,)))
    trainer, normalizer = (dict(_fields(model.get(number, b""))) for number in (2, 3))
    kinds = [dict(_fields(piece)).get(3, ORDINARY) for piece in model[1]]
    unknown = [token for token, kind in enumerate(kinds) if kind == UNKNOWN]
    plain = (
        trainer.get(3, 1) in KINDS
        and len(unknown) == 1
        and set(kinds) <= {ORDINARY, UNKNOWN, CONTROL}
        and not trainer.get(24, 0)  # spaces belong to the word after them
        and not normalizer.get(2, b"")  # the table of a normalisation; "identity" has none
        and all(normalizer.get(number, 1) for number in (3, 4, 5))  # spaces: one before, no others, written as marks
    )
    if not plain:
        raise InputError(
            f"{run.directory.tokenizer}: this SentencePiece model has no counterpart in {PAGE}; expected one that "
            "training has made: bpe or unigram, without normalisation, byte pieces and own symbols"
        )
    return {
        "kind": KINDS[trainer.get(3, 1)],
        "pieces": run.tokenizer.pieces(range(run.tokenizer.vocabulary_size)),
        "scores": run.tokenizer.scores,
        "reserved": [token for token, kind in enumerate(kinds) if kind != ORDINARY],
        "unknown": unknown[0],
        "special": [PAD, BOS, EOS],
    }


def pack_normalizer(run: TrainedRun) -> dict[str, Any] | None:
    """Returns what `data.normalize` does to typed text, for `typed_text.js`; None where it does nothing."""
    settings, look, language = run.config.data.normalize, run.source_look, run.config.data.source_language
    if settings is None or look is None:
        return None
    divided = settings.moses or settings.europarl
    return {
        "lowercase": settings.lowercase,
        "capitals": look.capitals,
        "capitalised": sorted(look.capitalised),
        "marked": sorted(look.marked) if divided else [],
        "moses": moses.rules(language, escaped=look.escaped) if settings.moses else None,
        "europarl": europarl_words.rules(language) if settings.europarl else None,
    }


def _fields(message: bytes, repeated: tuple[int, ...] = ()) -> Iterator[tuple[int, Any]]:
    """Yields number and value of a protocol buffer's fields; those of a repeated one together."""
    several: dict[int, list[Any]] = {number: [] for number in repeated}
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        number, kind = key >> 3, key & 7
        value: Any
        if kind == 0:
            value, place = _varint(message, place)
        else:
            length, place = _varint(message, place) if kind == 2 else ({1: 8, 5: 4}[kind], place)
            value, place = message[place : place + length], place + length
        if number in several:
            several[number].append(value)
        else:
            yield number, value
    yield from several.items()


def _varint(message: bytes, place: int) -> tuple[int, int]:
    """Returns a number of the variable length, and the place after it."""
    number = shift = 0
    while True:
        byte = message[place]
        number |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return number, place
