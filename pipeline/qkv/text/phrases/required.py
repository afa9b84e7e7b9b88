"""Words and phrases that a translation must contain: a line for each sentence, phrases separated by tabs."""

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

MOST_PHRASES = 16  # of one sentence
_BESIDE = "。.,!a"  # characters after which a text without spaces goes on


@dataclass(frozen=True)
class RequiredPhrase:
    """A phrase that a translation must contain.

    Args:
        text: as it was given.
        symbols: of its text as the vocabulary writes it.
        ids: the tokens that write it, whatever stands before it.
    """

    text: str
    symbols: Symbols
    ids: tuple[int, ...]


def read_required(
    lines: Sequence[tuple[str, str]],
    taken: Sequence[int],
    tokens: TokenText,
    longest: int,
    banned: BannedPhrases | None = None,
) -> list[list[RequiredPhrase]]:
    """Returns the phrases of each sentence.

    Args:
        lines: their phrases between tabs, each line after its place, as messages name it.
        taken: the number of tokens with which each translation begins.
        tokens: the tokens of the target language.
        longest: the maximum number of tokens of a target.
        banned: what no translation may contain, if anything.

    Raises:
        InputError: phrases are empty, banned, too many or too long, or cannot be written with this vocabulary.
    """
    rows = []
    for (place, line), given in zip(lines, taken, strict=True):
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
            if banned and (found := banned.find(phrase.symbols)):
                raise InputError(f"{place}: {phrase.text!r} is required, and {found!r} is banned; remove one of them")
        needed = tokens_needed(row)
        if row and given + needed > longest:
            after = f" after {given:,} of the prefix" if given else ""
            raise InputError(
                f"{place}: the phrases need {needed:,} tokens{after}; expected at most {longest:,}, "
                "model.max_positions; require less"
            )
        rows.append(row)
    return rows


def tokens_needed(phrases: Sequence[RequiredPhrase]) -> int:
    """Returns the most tokens that phrases need: their own, one before each to keep it apart, and EOS."""
    return sum(len(phrase.ids) + 1 for phrase in phrases) + bool(phrases)


def write_phrase(text: str, tokens: TokenText, place: str) -> RequiredPhrase:
    """Returns a phrase, given at a place, with the tokens that the tokenizer gives it.

    Raises:
        InputError: it cannot be written with this vocabulary.
    """
    tokenizer = tokens.tokenizer
    beside = _BESIDE if not joins(text[0]) and not tokens.tokenized else ""
    ways = []
    for before in beside:  # without the space that a tokenizer puts before a text
        (row,), (first,) = tokenizer.encode([before + text]), tokenizer.encode([before])
        if row[: len(first)] == first:
            ways.append(row[len(first) :])
    ways.append(tokenizer.encode([text])[0])
    for ids in ways:
        if ids and min(ids) > EOS:
            symbols = tokens.of_text(tokenizer.decode([ids])[0])
            if symbols and _is_written(symbols, tokens.of_tokens(ids)):
                return RequiredPhrase(text, symbols, tuple(ids))
    unknown = find_unknown(text, tokenizer)
    because = f": it has no token for {unknown[0]!r}" if unknown else ""
    raise InputError(f"{place}: {text!r} cannot be written with this vocabulary{because}; require another word")


def _is_written(phrase: Symbols, written: Sequence[int]) -> bool:
    """Returns whether tokens that add these symbols write a phrase as whole words, whatever stands before."""
    automaton = PhraseAutomaton([phrase], [1], unsure_divides=False)
    ends = [automaton.read(written, state)[0] for state in (APART, JOINED)]
    return DIVIDING <= written[0] < END and all(automaton.pending[ends])
