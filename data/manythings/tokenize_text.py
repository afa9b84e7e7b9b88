"""Divides English and French text into lower-cased words as in the gold word alignments graca_enfr.

Those alignments count the words of tokenised Europarl text, so a model that is to be compared with them needs the same
words. That text, and so this script, divides at every hyphen (`start - ups`, `a - t - il`) and every French apostrophe
(`l ' homme`), keeps numbers, initials and abbreviations whole (`12.30`, `p.m.`, `m.`), but always splits off the full
stop that ends the text (`at 12.30 p.m .`). English endings are separate words (`president 's`); `n't`, which never
occurs in that text, is divided as in the Penn Treebank (`do n't`), so that the negation is a word that can be linked.
"""

import re
import sys
import unicodedata
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(_ROOT), str(_ROOT / "pipeline")]

from qkv.commands.cli import exit_cleanly
from qkv.errors import InputError
from qkv.runtime.streams import write_result
from qkv.text.lines.stream import ArrivingLines

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
"""A regular expression for each language, by its code. Its matches are the words of a unified text."""


def unify(text: str) -> str:
    """Lower-cases a text, composes accents and replaces each kind of quote, apostrophe and hyphen by one."""
    return unicodedata.normalize("NFC", text).translate(_UNIFIED).lower()


def tokenize(text: str, language: str) -> str:
    """Unifies a line and puts one space between its words. `language` is a key of `PATTERNS`."""
    return " ".join(PATTERNS[language].findall(unify(text)))


@exit_cleanly
def main(arguments: list[str]) -> None:
    """Runs the command: tokenises standard input line by line."""
    if len(arguments) != 1 or arguments[0] not in PATTERNS:
        raise InputError(
            f"expected one language, {' or '.join(PATTERNS)}, and text on standard input, found {arguments}"
        )
    for window in ArrivingLines(sys.stdin.buffer).windows():
        write_result("".join(f"{tokenize(line, arguments[0])}\n" for line in window))


if __name__ == "__main__":
    sys.exit(main())
