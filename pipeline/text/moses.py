"""The tokeniser, the normaliser of punctuation and the detokeniser of Moses (Koehn et al. 2007), by `sacremoses`."""

import functools
from typing import Any

# sacremoses is imported where it is used: that takes a third of a second, and many lines do without.


def tokenize(text: str, language: str, *, escaped: bool = False) -> str:
    """Unifies punctuation and puts one space between words and marks, as the text of many corpora has them.

    Args:
        text: one line of plain text.
        language: its code, such as `en` or `pt-BR`; of one that Moses does not know, the rules for English
            abbreviations are applied.
        escaped: whether `'`, `"` and the like are written as `&apos;` and `&quot;`.
    """
    plain = _normalizer(_code(language)).normalize(text)
    return str(_tokenizer(_code(language)).tokenize(plain, escape=escaped, return_str=True))


def detokenize(text: str, language: str) -> str:
    """Turns words with spaces between them into plain text: marks are attached, contractions closed, the first letter
    is a capital, and `&apos;` and the like are written as the characters that they stand for.

    Args:
        text: one line of tokenised text.
        language: its code, such as `en` or `pt-BR`.
    """
    plain = str(_detokenizer(_code(language)).detokenize(text.split(" ")))
    return plain[:1].upper() + plain[1:]


def _code(language: str) -> str:
    return language.replace("_", "-").split("-")[0].lower()


@functools.cache
def _normalizer(language: str) -> Any:
    from sacremoses import MosesPunctNormalizer

    return MosesPunctNormalizer(language)


@functools.cache
def _tokenizer(language: str) -> Any:
    from sacremoses import MosesTokenizer

    return MosesTokenizer(language)


@functools.cache
def _detokenizer(language: str) -> Any:
    from sacremoses import MosesDetokenizer

    return MosesDetokenizer(language)
