"""Words and phrases that a translation must contain: a line for each sentence, phrases separated by tabs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import InputError
from .banned import BannedPhrases
from .given_lines import GivenLines
from .line import is_empty
from .phrase_automaton import APART, JOINED, PhraseAutomaton
from .token_text import DIVIDING, END, Symbols, TokenText
from .tokenizer import EOS
from .words import joins

MOST_PHRASES = 16
"""Of one sentence."""
_BESIDE = "。.,!a"  # characters after which a text without spaces goes on


@dataclass(frozen=True)
class RequiredPhrase:
    """A phrase.

    Args:
        text: as it was given.
        symbols: of what the vocabulary writes for it.
        ids: the tokens that write it, whatever stands before it.
    """

    text: str
    symbols: Symbols
    ids: tuple[int, ...]


def tokens_needed(phrases: Sequence[RequiredPhrase]) -> int:
    """Returns how many tokens are enough for phrases, each with one before it that keeps it from becoming a banned one
    with others, and EOS."""
    return sum(len(phrase.ids) + 1 for phrase in phrases) + bool(phrases)


class RequiredFile(GivenLines):
    """Reads the required phrases of sentences, in turn.

    Args:
        path: the file.
        tokens: the tokens of the target language.
        max_positions: the maximum number of tokens of a target.
        banned: what no translation may contain, if anything.
    """

    def __init__(self, path: Path, tokens: TokenText, max_positions: int, banned: BannedPhrases | None = None) -> None:
        super().__init__(path)
        self._tokens, self._longest, self._banned = tokens, max_positions, banned

    def take(self, count: int, prefixes: Sequence[list[int]] | None = None) -> list[list[RequiredPhrase]]:
        """Returns the phrases of the next `count` sentences.

        Args:
            count: of the sentences.
            prefixes: the tokens with which their translations begin.

        Raises:
            InputError: there are fewer, or phrases are empty, banned, too many or too long, or cannot be written with
                this vocabulary.
        """
        rows = []
        for number, (place, line) in enumerate(self.take_lines(count)):
            texts = list(dict.fromkeys(" ".join(text.split()) for text in line.split("\t")))
            texts = [] if is_empty(line) else texts
            if "" in texts:
                raise InputError(
                    f"{place}: an empty phrase; expected words or phrases separated by single tabs, and an empty line "
                    "for a sentence without any"
                )
            if len(texts) > MOST_PHRASES:
                raise InputError(f"{place}: {len(texts)} phrases; expected at most {MOST_PHRASES} for a sentence")
            row = [write_phrase(text, self._tokens, place) for text in texts]
            for phrase in row:
                if self._banned and (banned := self._banned.find(phrase.symbols)):
                    raise InputError(
                        f"{place}: {phrase.text!r} is required, and {banned!r} is banned; remove one of the two"
                    )
            given = len(prefixes[number]) if prefixes else 0
            needed = tokens_needed(row)
            if row and given + needed > self._longest:
                raise InputError(
                    f"{place}: the phrases need {needed:,} tokens{f' after {given:,} of the prefix' * bool(given)}; "
                    f"expected at most {self._longest:,}, model.max_positions; require less"
                )
            rows.append(row)
        return rows


def write_phrase(text: str, tokens: TokenText, place: str) -> RequiredPhrase:
    """Returns a phrase with the tokens that the tokenizer gives it.

    Args:
        text: the phrase.
        tokens: the tokens of the target language.
        place: where it was given, as the message names it.

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
    unknown = next((letter for letter in text if not letter.isspace() and not _is_known(letter, tokens)), None)
    because = f": it has no token for {unknown!r}" if unknown else ""
    raise InputError(
        f"{place}: {text!r} cannot be written with this vocabulary{because}; require another word, in the form of the "
        "training text"
    )


def _is_written(phrase: Symbols, written: Sequence[int]) -> bool:
    """Returns whether a text contains a phrase as whole words when tokens have added these symbols, whatever it was
    before."""
    automaton = PhraseAutomaton([phrase], [1], unsure_divides=False)
    ends = [automaton.read(written, state)[0] for state in (APART, JOINED)]
    return DIVIDING <= written[0] < END and all(automaton.pending[ends])


def _is_known(letter: str, tokens: TokenText) -> bool:
    (ids,) = tokens.tokenizer.encode([letter])
    return bool(ids) and min(ids) > EOS
