"""Text of other scripts with a known translation: the demo's English, word for word in made-up characters."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

DEMO = Path(__file__).parents[2] / "data" / "demo"
CJK, CJK_COUNT = 0x4E00, 3000
HEBREW = "אבגדהוזחטיכלמנסעפצקרשת"


def demo_pairs(count: int, name: str = "train") -> list[tuple[str, str]]:
    """Returns the first pairs of the demo corpus of at most eight words, as people would type them.

    Words are joined with their punctuation, and sentences begin with a capital.
    """
    sides = [(DEMO / f"{name}.{suffix}").read_text(encoding="utf-8").splitlines() for suffix in ("en", "fr")]
    short = [pair for pair in zip(*sides, strict=True) if len(pair[0].split()) <= 8]
    return [(plain(source), plain(target)) for source, target in short[:count]]


def plain(words: str) -> str:
    """Joins words with the punctuation after them, and begins with a capital."""
    text = words.replace("' ", "'").replace(" .", ".").replace(" ,", ",")
    return text[:1].upper() + text[1:]


def chinese_like(sentence: str) -> str:
    """Writes each word of a sentence as one or two characters, without spaces, and ends it with a full stop."""
    words = [chr(CJK + number % CJK_COUNT) + _second(number) for number in map(_number, _words(sentence))]
    return "".join(words) + "。"


def _second(number: int) -> str:
    return chr(CJK + number // CJK_COUNT % CJK_COUNT) if number % 3 == 0 else ""


def hebrew_like(sentence: str) -> str:
    """Writes each word of a sentence in Hebrew letters, and ends it with a full stop."""
    return " ".join(_letters(_number(word)) for word in _words(sentence)) + "."


def _letters(number: int) -> str:
    letters = ""
    for _ in range(2 + number % 4):
        number, letter = divmod(number, len(HEBREW))
        letters += HEBREW[letter]
    return letters


def _words(sentence: str) -> Sequence[str]:
    return sentence.rstrip(".!?").lower().replace(",", "").split()


def _number(word: str) -> int:
    return int.from_bytes(hashlib.sha256(word.encode()).digest()[:6], "big")


def write_table(path: Path, pairs: Sequence[tuple[str, str]]) -> None:
    """Writes sentence pairs as a table of two columns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
