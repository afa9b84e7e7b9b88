"""A sentence pair whose attention somebody else's program has computed: its tokens, and what else is known of it."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, NamedTuple

from ..config.names import describe
from ..config.names.text import WORD_MARKS
from ..errors import InputError
from ..files.paths import is_unicode
from ..text.lines.line import words_of
from ..text.tokens.words import other_marks, spell_words, words_by_marks
from .record import Record

SPECIAL_TOKENS = frozenset(
    [
        *("<s>", "</s>", "<pad>", "<bos>", "<eos>", "[CLS]", "[SEP]", "[PAD]", "[BOS]", "[EOS]"),
        *("<|startoftext|>", "<|endoftext|>"),
    ]
)
"""Tokens that belong to no word."""

MOST_WORDS = 1_000_000  # of a sentence


@dataclass(frozen=True)
class Sentence:
    """A sentence pair and its tokens, for `write_archive`.

    Args:
        source_tokens: the keys of the cross-attention, as text, special tokens such as `</s>` included.
        target_tokens: what its rows predict: the labels, not the decoder's input; `</s>` included.
        source: the sentence; by default it is spelled from its tokens.
        target: the translation; by default it is spelled from its tokens.
        reference: a given translation to compare with.
        source_words: for each source token the number of its word, from 0; None for tokens that belong to no word. By
            default the marks in the tokens' spelling tell.
        target_words: the same for the target tokens.
        log_probabilities: the natural logarithm of each target token's probability, where they are known.
        start: the decoder's first input, from which it predicts the first target token: `<pad>` of T5 and Marian.
        truncated: whether the target was cut short.
    """

    source_tokens: Sequence[str]
    target_tokens: Sequence[str]
    source: str | None = None
    target: str | None = None
    reference: str | None = None
    source_words: Sequence[int | None] | None = None
    target_words: Sequence[int | None] | None = None
    log_probabilities: Sequence[float] = ()
    start: str = "<s>"
    truncated: bool = False


class _Side(NamedTuple):
    tokens: list[str]
    text: str
    words: list[int | None]
    unit: str


def check_marks(sentences: Sequence[Sentence], marks: tuple[str, str]) -> None:
    """Checks that the tokens of both sides are spelled with their marks.

    Raises:
        InputError: a name is unknown, or the tokens have other marks.
    """
    for side, name in zip(("source", "target"), marks, strict=True):
        if name not in WORD_MARKS:
            raise InputError(f"marks: expected one of {', '.join(WORD_MARKS)}, found {name!r}")
        unnumbered = [getattr(one, f"{side}_tokens") for one in sentences if getattr(one, f"{side}_words") is None]
        if found := other_marks(([token for token in tokens if _is_text(token)] for tokens in unnumbered), name):
            raise InputError(
                f"marks: {name} for the {side}, but {found}; name the tokens' own marks, or give {side}_words "
                f"({describe(WORD_MARKS)})"
            )


def make_record(
    id_: int, sentence: Sentence, *, mode: str, marks: tuple[str, str], special_tokens: Collection[str]
) -> Record:
    """Makes the record of a sentence, without attention.

    Raises:
        InputError: its lists do not fit together.
    """
    source, target = (
        _read_side(sentence, side, name, special_tokens) for side, name in zip(("source", "target"), marks, strict=True)
    )
    for name in ("reference", "start"):
        if not _is_text(text := getattr(sentence, name)) and (name, text) != ("reference", None):
            raise InputError(f"{name}: expected text, found {text!r:.60}")
    return Record(
        id=id_,
        source=source.text,
        reference=sentence.reference,
        hypothesis=target.text,
        source_tokens=source.tokens,
        target_input_tokens=[sentence.start, *target.tokens[:-1]],
        target_output_tokens=target.tokens,
        source_words=source.words,
        target_words=target.words,
        token_log_probabilities=_read_log_probabilities(sentence.log_probabilities, len(target.tokens)),
        mode=mode,
        truncated=bool(sentence.truncated),
        attention={},
        source_unit=source.unit,
        target_unit=target.unit,
    )


def _read_side(sentence: Sentence, side: str, marks: str, special_tokens: Collection[str]) -> _Side:
    tokens, text = list(getattr(sentence, f"{side}_tokens")), getattr(sentence, side)
    for token in tokens:
        if not _is_text(token):
            raise InputError(f"{side}_tokens: expected tokens as text, found {token!r:.60}: convert ids to tokens")
    if not tokens:
        raise InputError(f"{side}_tokens: expected at least one token, such as </s>, found none")
    given = getattr(sentence, f"{side}_words")
    words = words_by_marks(tokens, marks, special_tokens) if given is None else _read_words(given, side, len(tokens))
    spelling = spell_words(tokens, words, marks)
    unit = "subwords" if given is None and marks == "none" else "spaces"
    if text is not None:
        if not _is_text(text):
            raise InputError(f"{side}: expected text, found {text!r:.60}")
        found, exact = len(words_of(text)), given is None and not sentence.truncated
        if unit == "spaces" and (len(spelling) > found or (exact and len(spelling) < found)):
            raise InputError(
                f"{side}: its tokens are those of {len(spelling)} words ({' '.join(spelling):.60}), and the text has "
                f"{found} between spaces ({text:.60}): leave the text out, put spaces where the words are cut, or give "
                f"{side}_words"
            )
        return _Side(tokens, text, words, unit)
    if "" in spelling:
        raise InputError(f"{side}_words: no token has word {spelling.index('')}, so the text must be given as {side}")
    return _Side(tokens, " ".join(spelling), words, unit)


def _read_words(given: Sequence[int | None], side: str, tokens: int) -> list[int | None]:
    words = [None if word is None else int(word) if isinstance(word, Integral) else -1 for word in given]
    if len(words) != tokens:
        raise InputError(f"{side}_words: expected {tokens} entries, one per token, found {len(words)}")
    for word, as_given in zip(words, given, strict=True):
        if word is not None and not 0 <= word < MOST_WORDS:
            raise InputError(f"{side}_words: expected numbers of words from 0 on, or None, found {as_given!r:.60}")
    return words


def _read_log_probabilities(given: Sequence[float], tokens: int) -> list[float]:
    values = [float(value) if isinstance(value, Real) else math.nan for value in given]
    if len(values) not in (0, tokens):
        raise InputError(f"log_probabilities: expected {tokens}, one per target token, or none, found {len(values)}")
    for value in values:
        if not -1e30 < value < 0.01:  # also not-a-number
            raise InputError(f"log_probabilities: expected natural logarithms, 0 or less and finite, found {value}")
    return values


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and is_unicode(value)
