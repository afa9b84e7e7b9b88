"""The tokeniser, the normaliser of punctuation and the detokeniser of Moses (Koehn et al. 2007), by `sacremoses`."""

import functools
import re
from importlib import import_module
from typing import Any

from .line import class_of

JAVASCRIPT = r"\u{{{:x}}}"  # a character in a regular expression of JavaScript, see `class_of`


def tokenize(text: str, language: str, *, escaped: bool = False) -> str:
    """Unifies punctuation and puts one space between words and marks, as the text of many corpora has them.

    Args:
        text: one line of plain text.
        language: its code, such as `en` or `pt-BR`; for one that Moses does not know, the English rules apply.
        escaped: whether `'`, `"` and the like are written as `&apos;` and `&quot;`.
    """
    plain = _sacremoses("PunctNormalizer", _code(language)).normalize(text)
    return str(_sacremoses("Tokenizer", _code(language)).tokenize(plain, escape=escaped, return_str=True))


def detokenize(text: str, language: str) -> str:
    """Turns words with spaces between them into plain text: marks are attached, contractions closed, the first letter
    is a capital, and `&apos;` and the like are written as the characters that they stand for.

    Args:
        text: one line of tokenised text.
        language: its code, such as `en` or `pt-BR`.
    """
    plain = str(_sacremoses("Detokenizer", _code(language)).detokenize(text.split(" ")))
    return plain[:1].upper() + plain[1:]


def rules(language: str, *, escaped: bool = False) -> dict[str, Any]:
    """Returns what `tokenize` goes by, for programs in other languages.

    Args:
        language: its code.
        escaped: see `tokenize`.

    Returns:
        `substitutions`: pairs of a regular expression and what replaces it, as JavaScript has them;
        `alnum`, `alpha`, `number`, `lower`: the characters of these kinds as ranges of a regular expression's class;
        `prefixes` and `numeric`: words after which a full stop is theirs, always or before numbers;
        `apostrophes`: whose rules for them apply: `en`, `fr` or `other`;
        `escape`: pairs of a character and how it is written.
    """
    code = _code(language)
    tokenizer = _sacremoses("Tokenizer", code)
    kinds = {"alnum": "IsAlnum", "alpha": "IsAlpha", "number": "IsN", "lower": "IsLower"}
    return {
        "substitutions": [_to_javascript(*pair) for pair in _sacremoses("PunctNormalizer", code).substitutions],
        **{name: class_of(getattr(tokenizer, kind), JAVASCRIPT) for name, kind in kinds.items()},
        "prefixes": sorted(tokenizer.NONBREAKING_PREFIXES),
        "numeric": sorted(tokenizer.NUMERIC_ONLY_PREFIXES),
        "apostrophes": {"en": "en", "fr": "fr", "it": "fr"}.get(code, "other"),
        "escape": [[p.pattern[-1], name] for p, name in tokenizer.MOSES_ESCAPE_XML_REGEXES] if escaped else [],
    }


def _to_javascript(pattern: str, replacement: str) -> list[str]:
    """Returns a substitution as JavaScript has it, whose classes are of ASCII alone and whose escapes are fewer."""
    pattern = re.sub(r"\\([!%])", r"\1", pattern).replace(r"\d", r"\p{Nd}")
    return [pattern, re.sub(r"\\g<(\d)>", r"$\1", replacement)]


def _code(language: str) -> str:
    return language.replace("_", "-").split("-")[0].lower()


@functools.cache
def _sacremoses(kind: str, code: str) -> Any:
    # Imported where it is used: that takes a third of a second, and many lines do without.
    return getattr(import_module("sacremoses"), f"Moses{kind}")(code)
