"""Required phrases: words and phrases that a translation must contain, in a file with a line for each sentence."""

from collections.abc import Sequence
from dataclasses import dataclass

from ...errors import InputError
from ..lines.line import is_empty
from ..lines.typed_line import find_unknown
from ..tokens.special_tokens import EOS
from ..tokens.words import joins
from .automaton import APART, JOINED, PhraseAutomaton
from .banned import BannedPhrases
from .token_text import DIVIDING, END, Symbols, TokenText

MOST_PHRASES = 16
"""The maximum number of phrases of a sentence."""

_CHARACTERS_BEFORE = "。.,!a"
"""Characters behind which a phrase is encoded to get its tokens within a text of a script without spaces."""


@dataclass(frozen=True)
class RequiredPhrase:
    """A phrase that a translation must contain.

    Args:
        text: the phrase as the user wrote it.
        symbols: the symbols of the phrase as the vocabulary spells it.
        ids: tokens that spell the phrase as whole words, whatever text is before them.
    """

    text: str
    symbols: Symbols
    ids: tuple[int, ...]


def read_required(
    lines: Sequence[tuple[str, str]],
    prefix_lengths: Sequence[int],
    tokens: TokenText,
    longest: int,
    banned: BannedPhrases | None = None,
) -> list[list[RequiredPhrase]]:
    """Returns the required phrases of each sentence.

    Args:
        lines: `(place, line)` for each sentence: `file:line` for messages, and its phrases separated by tabs.
        prefix_lengths: the number of tokens in the given prefix of each translation.
        tokens: the tokens of the target language.
        longest: the maximum number of tokens in a target.
        banned: the banned phrases; None if there are none.

    Raises:
        InputError: a sentence has a phrase that is empty, banned or cannot be spelled with the vocabulary; or it has
            too many or too long phrases.
    """
    rows = []
    for (place, line), prefix_length in zip(lines, prefix_lengths, strict=True):
        phrases = map(tokens.tokenizer.as_read, line.split("\t"))
        texts = list(dict.fromkeys(" ".join(text.split()) for text in phrases))
        texts = [] if is_empty(line) else texts
        if "" in texts:
            raise InputError(
                f"{place}: an empty phrase; expected words or phrases separated by single tabs, or an empty line"
            )
        if len(texts) > MOST_PHRASES:
            raise InputError(f"{place}: {len(texts)} phrases; expected at most {MOST_PHRASES} for a sentence")
        row = [write_phrase(text, tokens, place) for text in texts]
        for phrase in row:
            if banned and (conflict := banned.find(phrase.symbols)):
                raise InputError(
                    f"{place}: {phrase.text!r} is required, and {conflict!r} is banned; remove one of them"
                )
        needed = tokens_needed(row)
        if row and prefix_length + needed > longest:
            after = f" after {prefix_length:,} of the prefix" if prefix_length else ""
            raise InputError(
                f"{place}: the phrases need {needed:,} tokens{after}; expected at most {longest:,}, "
                "model.max_positions; require less"
            )
        rows.append(row)
    return rows


def tokens_needed(phrases: Sequence[RequiredPhrase]) -> int:
    """Returns the largest number of tokens that phrases can need in a translation.

    It is the number of their tokens, one more for each phrase, which separates it from the text before, and EOS. It is
    0 without phrases.
    """
    return sum(len(phrase.ids) + 1 for phrase in phrases) + bool(phrases)


def write_phrase(text: str, tokens: TokenText, place: str) -> RequiredPhrase:
    """Returns a required phrase with its tokens.

    Args:
        text: the phrase.
        tokens: the tokens of the target language.
        place: `file:line` of the phrase, for the message.

    Raises:
        InputError: the phrase cannot be spelled with the vocabulary.
    """
    tokenizer = tokens.tokenizer
    spellings = []
    if not joins(text[0]) and not tokens.tokenized:
        for character in _CHARACTERS_BEFORE:  # to get rid of the space that a tokenizer puts before a text
            row = tokenizer.encode([character + text])[0]
            before = tokenizer.encode([character])[0]
            if row[: len(before)] == before:
                spellings.append(row[len(before) :])
    spellings.append(tokenizer.encode([text])[0])
    for ids in spellings:
        if ids and min(ids) > EOS:
            symbols = tokens.of_text(tokenizer.decode([ids])[0])
            if symbols and _is_written(symbols, tokens.of_tokens(ids)):
                return RequiredPhrase(text, symbols, tuple(ids))
    unknown = find_unknown(text, tokenizer)
    because = f": it has no token for {unknown[0]!r}" if unknown else ""
    raise InputError(f"{place}: {text!r} cannot be written with this vocabulary{because}; require another word")


def _is_written(phrase: Symbols, written: Sequence[int]) -> bool:
    """Returns whether tokens that add the symbols `written` spell a phrase as whole words, whatever is before them."""
    automaton = PhraseAutomaton([phrase], [1], unsure_divides=False)
    ends = [automaton.read(written, state)[0] for state in (APART, JOINED)]
    return DIVIDING <= written[0] < END and all(automaton.pending[ends])
