"""Tokenisation, normalisation of punctuation and detokenisation as in Moses (Koehn et al. 2007), by `sacremoses`."""

import functools
import re
from importlib import import_module
from typing import Any

from .line import character_ranges

JAVASCRIPT = r"\u{{{:x}}}"  # the format string of a character's code in a regular expression of JavaScript


def tokenize(text: str, language: str, *, escaped: bool = False) -> str:
    """Returns a line with normalised punctuation, and with one space between words and punctuation.

    Args:
        text: a line of plain text.
        language: the code of the language, such as `en` or `pt-BR`. A language that Moses does not know has the rules
            of English.
        escaped: whether to write characters such as `'` and `"` as `&apos;` and `&quot;`.
    """
    normalised = _sacremoses("PunctNormalizer", _code(language)).normalize(text)
    return str(_sacremoses("Tokenizer", _code(language)).tokenize(normalised, escape=escaped, return_str=True))


def detokenize(text: str, language: str) -> str:
    """Returns tokenised text as plain text.

    Punctuation and contractions are attached to words, the first letter becomes a capital, and escapes such as `&apos;`
    become the characters that they stand for.

    Args:
        text: a line of tokenised text.
        language: the code of the language, such as `en` or `pt-BR`.
    """
    plain = str(_sacremoses("Detokenizer", _code(language)).detokenize(text.split(" ")))
    return plain[:1].upper() + plain[1:]


def rules(language: str, *, escaped: bool = False) -> dict[str, Any]:
    """Returns the rules that `tokenize` applies, for programs in JavaScript.

    Args:
        language: the code of the language.
        escaped: see `tokenize`.

    Returns:
        A dict of values that JSON can hold. `substitutions`: pairs of a regular expression and its replacement.
        `alnum`, `alpha`, `number`, `lower`: the characters of each kind, by `text.lines.line.character_ranges`.
        `prefixes`: words that keep a full stop after them. `numeric`: words that keep it before a number.
        `apostrophes`: the language whose rules for apostrophes apply, `en`, `fr` or `other`. `escape`: pairs of a
        character and its escape; empty unless `escaped`.
    """
    code = _code(language)
    tokenizer = _sacremoses("Tokenizer", code)
    kinds = {"alnum": "IsAlnum", "alpha": "IsAlpha", "number": "IsN", "lower": "IsLower"}
    return {
        "substitutions": [_to_javascript(*pair) for pair in _sacremoses("PunctNormalizer", code).substitutions],
        **{name: character_ranges(getattr(tokenizer, kind), JAVASCRIPT) for name, kind in kinds.items()},
        "prefixes": sorted(tokenizer.NONBREAKING_PREFIXES),
        "numeric": sorted(tokenizer.NUMERIC_ONLY_PREFIXES),
        "apostrophes": {"en": "en", "fr": "fr", "it": "fr"}.get(code, "other"),
        "escape": [[p.pattern[-1], name] for p, name in tokenizer.MOSES_ESCAPE_XML_REGEXES] if escaped else [],
    }


def _to_javascript(pattern: str, replacement: str) -> list[str]:
    """Returns a regular expression of Python and its replacement in the syntax of JavaScript.

    In JavaScript `\\d` matches ASCII digits only, and some escapes of Python are errors.
    """
    pattern = re.sub(r"\\([!%])", r"\1", pattern).replace(r"\d", r"\p{Nd}")
    return [pattern, re.sub(r"\\g<(\d)>", r"$\1", replacement)]


def _code(language: str) -> str:
    """Returns the code of a language without its region, such as `pt` for `pt-BR`."""
    return language.replace("_", "-").split("-")[0].lower()


@functools.cache
def _sacremoses(kind: str, code: str) -> Any:
    """Returns an instance of sacremoses's class `Moses{kind}` for a language. It is made once and cached."""
    # sacremoses is imported at its first use: that takes a third of a second, and most commands do not need it.
    return getattr(import_module("sacremoses"), f"Moses{kind}")(code)
