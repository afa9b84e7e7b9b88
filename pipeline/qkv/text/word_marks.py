"""The words of tokens that another tokenizer has made, found by the marks in the tokens' spelling."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True)
class Marks:
    """How tokens spell where words begin and end.

    Args:
        begins: whether a token begins a word, given the token before it; the first one does.
        spell: returns the text of a word's tokens, without marks.
        sign: the mark.
        needed: whether a text of several words must have it.
    """

    begins: Callable[[str, str], bool]
    spell: Callable[[Sequence[str]], str]
    sign: str = ""
    needed: bool = False


@cache
def _bytes_of_characters() -> dict[str, int]:
    """Returns the byte that each character stands for in byte-level tokens (Radford et al. 2019, GPT-2's encoder)."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + place): byte for place, byte in enumerate(others)}


def _spell_bytes(tokens: Sequence[str]) -> str:
    table, text = _bytes_of_characters(), "".join(tokens)
    if not set(text) <= table.keys():  # an added token, which is plain text
        return text
    return bytes(table[character] for character in text).decode("utf-8", errors="replace")


MARKS: dict[str, Marks] = {
    "sentencepiece": Marks(
        lambda token, before: token.startswith("\u2581"),
        lambda tokens: "".join(tokens).replace("\u2581", ""),
        "\u2581",
        needed=True,
    ),
    "byte_level": Marks(lambda token, before: token.startswith("\u0120"), _spell_bytes, "\u0120", needed=True),
    "wordpiece": Marks(
        lambda token, before: not token.startswith("##"),
        lambda tokens: "".join(token.removeprefix("##") for token in tokens),
        "##",
    ),
    "end_of_word": Marks(
        lambda token, before: before.endswith("</w>"),
        lambda tokens: "".join(token.removesuffix("</w>") for token in tokens),
        "</w>",
        needed=True,
    ),
    "joiner": Marks(
        lambda token, before: not before.endswith("@@"),
        lambda tokens: "".join(token.removesuffix("@@") for token in tokens),
        "@@",
    ),
    "none": Marks(lambda token, before: True, lambda tokens: "".join(tokens).replace("\u2581", "")),
}
"""The functions of each of `config.names.text.WORD_MARKS`."""


def words_by_marks(tokens: Sequence[str], marks: str, special_tokens: Iterable[str]) -> list[int | None]:
    """Returns the word of each token, from 0; None for special tokens, which belong to no word.

    Args:
        tokens: the tokens of a sentence.
        marks: one of `config.names.text.WORD_MARKS`.
        special_tokens: such as `</s>`.
    """
    begins, special = MARKS[marks].begins, set(special_tokens)
    words: list[int | None] = []
    before: str | None
    word, before = -1, None
    for token in tokens:
        if token in special:
            words.append(None)
            before = None
            continue
        if before is None or begins(token, before):
            word += 1
        words.append(word)
        before = token
    return words


def spell_words(tokens: Sequence[str], words: Sequence[int | None], marks: str) -> list[str]:
    """Returns the text of each word by its number, without spaces; empty for a number that no token has."""
    of_word: list[list[str]] = [[] for _ in range(1 + max((word for word in words if word is not None), default=-1))]
    for token, word in zip(tokens, words, strict=True):
        if word is not None:
            of_word[word].append(token)
    spell = MARKS[marks].spell
    return ["".join(spell(one).split()) or "".join(one) for one in of_word]


def other_marks(sentences: Iterable[Sequence[str]], marks: str) -> str | None:
    """Returns what shows that tokens are spelled with other marks than these; None if nothing does.

    A text in which a needed mark never occurs, or in which only another one does, has not been cut as it was said.
    """
    given = MARKS[marks]
    sign = given.sign
    if not sign:
        return None
    several, found = False, set()
    for tokens in sentences:
        several = several or len(tokens) > 1
        for token in tokens:
            if sign in token:
                return None
            found |= {name for name, row in MARKS.items() if row.needed and row.sign in token}
    if found:
        return f"no token has {sign!r}, some have {MARKS[min(found)].sign!r}: expected {' or '.join(sorted(found))}"
    return f"no token has {sign!r}" if given.needed and several else None
