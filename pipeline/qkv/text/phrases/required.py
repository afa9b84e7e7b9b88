"""Required phrases: words and phrases that a translation must contain, from a file with a line for each sentence."""

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
"""Characters before which a phrase is encoded to get its tokens without a space before them, as in scripts without
spaces. They are tried in this order."""


@dataclass(frozen=True)
class RequiredPhrase:
    """A phrase that a translation must contain.

    Args:
        text: the phrase as the user wrote it, with single spaces.
        symbols: the symbols of the phrase as it is decoded from its ids.
        ids: the ids of tokens that spell the phrase as whole words after any text.
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
        lines: `(file:line, line)` for each sentence; `file:line` is for messages. The line has the phrases, separated
            by tabs; an empty line has none.
        prefix_lengths: the number of tokens in the prefix of each translation; 0 without a prefix.
        tokens: the text of the target language's tokens.
        longest: the maximum number of tokens in a target.
        banned: the banned phrases; None if there are none.

    Raises:
        InputError: a phrase is empty, contains a banned phrase, or cannot be spelled with the vocabulary; or a sentence
            has more than `MOST_PHRASES` phrases, or phrases that need more than `longest` tokens.
    """
    rows = []
    for (location, line), prefix_length in zip(lines, prefix_lengths, strict=True):
        cells = map(tokens.tokenizer.as_read, line.split("\t"))
        texts = list(dict.fromkeys(" ".join(cell.split()) for cell in cells))
        texts = [] if is_empty(line) else texts
        if "" in texts:
            raise InputError(
                f"{location}: an empty phrase; expected words or phrases separated by single tabs, or an empty line"
            )
        if len(texts) > MOST_PHRASES:
            raise InputError(f"{location}: {len(texts)} phrases; expected at most {MOST_PHRASES} for a sentence")
        phrases_of_sentence = [encode_phrase(text, tokens, location) for text in texts]
        for phrase in phrases_of_sentence:
            if banned and (conflict := banned.find(phrase.symbols)):
                raise InputError(
                    f"{location}: {phrase.text!r} is required, and {conflict!r} is banned; remove one of them"
                )
        needed = tokens_needed(phrases_of_sentence)
        if phrases_of_sentence and prefix_length + needed > longest:
            after = f" after {prefix_length:,} of the prefix" if prefix_length else ""
            raise InputError(
                f"{location}: the phrases need {needed:,} tokens{after}; expected at most {longest:,}, "
                "model.max_positions; require less"
            )
        rows.append(phrases_of_sentence)
    return rows


def tokens_needed(phrases: Sequence[RequiredPhrase]) -> int:
    """Returns the maximum number of tokens that phrases need in a translation; 0 without phrases.

    It counts the tokens of the phrases, a token before each phrase that separates it from the text, and EOS.
    """
    return sum(len(phrase.ids) + 1 for phrase in phrases) + bool(phrases)


def encode_phrase(text: str, tokens: TokenText, location: str) -> RequiredPhrase:
    """Returns a required phrase with its tokens.

    Args:
        text: the phrase, with single spaces.
        tokens: the text of the target language's tokens.
        location: `file:line` of the phrase, for the message.

    Raises:
        InputError: the phrase cannot be spelled with the vocabulary.
    """
    tokenizer = tokens.tokenizer
    spellings = []
    if not joins(text[0]) and not tokens.tokenized:
        for character in _CHARACTERS_BEFORE:  # a tokenizer puts a space before a text, but not before the phrase then
            ids = tokenizer.encode([character + text])[0]
            ids_before = tokenizer.encode([character])[0]
            if ids[: len(ids_before)] == ids_before:
                spellings.append(ids[len(ids_before) :])
    spellings.append(tokenizer.encode([text])[0])
    for ids in spellings:
        if ids and min(ids) > EOS:
            symbols = tokens.of_text(tokenizer.decode([ids])[0])
            if symbols and _is_spelled(symbols, tokens.of_tokens(ids)):
                return RequiredPhrase(text, symbols, tuple(ids))
    unknown = find_unknown(text, tokenizer)
    reason = f": it has no token for {unknown[0]!r}" if unknown else ""
    raise InputError(f"{location}: {text!r} cannot be written with this vocabulary{reason}; require another word")


def _is_spelled(phrase: Symbols, symbols: Sequence[int]) -> bool:
    """Returns whether tokens with these symbols spell a phrase as whole words after any text."""
    automaton = PhraseAutomaton([phrase], [1], unsure_divides=False)
    last_states = [automaton.read(symbols, state)[0] for state in (APART, JOINED)]
    return DIVIDING <= symbols[0] < END and all(automaton.pending[last_states])
