"""Divides English and French text into lower-cased words as in the gold word alignments graca_enfr.

Those alignments count the words of tokenised Europarl text, so a model that is to be compared with them needs the same
words. That text, and so this module, divides at every hyphen (`start - ups`, `a - t - il`) and every French apostrophe
(`l ' homme`), keeps numbers, initials and abbreviations whole (`12.30`, `p.m.`, `m.`), but always splits off the full
stop that ends the text (`at 12.30 p.m .`). English endings are separate words (`president 's`); `n't`, which never
occurs in that text, is divided as in the Penn Treebank (`do n't`), so that the negation is a word that can be linked.
"""

import re
import unicodedata
from typing import Any

_UNIFIED = str.maketrans(
    dict.fromkeys("‘’‛ʼ′´`", "'")
    | dict.fromkeys("«»“”„‟″", '"')
    | dict.fromkeys("‐‑‒–—―−", "-")
    | {"…": "...", "\u00ad": "", "\u200b": "", "\u200d": "", "\ufeff": ""}  # the last four have no width
)


_WORD = r"""
    \d+(?: [.,:] \d+)+            # 12.30  2,000  10:30
  | [^\W\d_] (?: \.[^\W\d_])+ \b (?: \.(?=\s*\w))?      # p.m.  u.s.  but a last full stop apart
  | (?: {abbreviations} ) \. (?=\s*\w)
  | {clitics}
  | [^\W_]+{within}
  | \.{{2,}} | \S
"""


def _pattern(abbreviations: str, clitics: str, within: str) -> re.Pattern[str]:
    return re.compile(_WORD.format(abbreviations=abbreviations, clitics=clitics, within=within), re.VERBOSE)


_CLITIC = r"(?: n't | '(?: s | m | re | ll | ve | d ) ) \b"


PATTERNS = {
    "en": _pattern(
        abbreviations=r"\b(?: mr | mrs | ms | dr | st | prof )",
        clitics=rf"[^\W\d_]+? (?={_CLITIC}) | {_CLITIC}",
        within=r"(?: '(?=\w{2}) (?! (?: re | ll | ve )\b ) [^\W\d_]+ )*",  # o'clock
    ),
    "fr": _pattern(abbreviations=r"\b(?: m | mm | mme | mlle | dr | st )", clitics=r"(?!)", within=""),
}


def unify(text: str) -> str:
    """Lower-cases a text, composes accents and replaces each kind of quote, apostrophe and hyphen by one."""
    return unicodedata.normalize("NFC", text).translate(_UNIFIED).lower()


def tokenize(text: str, language: str) -> str:
    """Unifies a line and puts one space between its words, in one of `EUROPARL_LANGUAGES`."""
    return " ".join(PATTERNS[language].findall(unify(text)))


def rules(language: str) -> dict[str, Any]:
    """Returns the tables that `tokenize` goes by, for programs in other languages."""
    return {"language": language, "unified": {chr(code): text or "" for code, text in _UNIFIED.items()}}


def join(text: str, language: str) -> str:
    """Closes what `tokenize` divided within words: hyphens, French apostrophes and English negations."""
    text = re.sub(r"(?<=\w) - (?=\w)", "-", text)
    return re.sub(r"(?<=\w) ' (?=\w)", "'", text) if language == "fr" else text.replace(" n't", "n't")
