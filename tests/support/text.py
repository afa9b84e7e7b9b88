"""Text: sentences, odd lines, languages that are none, encoded sentences, and a tokenizer of a few pieces."""

import hashlib
import random
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from qkv.text.lines.style import StyleMeter
from qkv.text.tokens.encoding import EncodedSentences
from qkv.text.tokens.special_tokens import BOS, EOS, PAD, UNK, WORD_START
from tests.support import ROOT

SPECIAL = ["<pad>", "<unk>", "<s>", "</s>"]
PIECES = [*SPECIAL, "▁a", "b", "▁b", "ab", "▁", "a"]


class ToyTokenizer:
    """Has the interface that decoding needs; pieces `<0x..>` are bytes."""

    def __init__(self, pieces=PIECES):
        self._pieces = pieces
        self.vocabulary_size = len(pieces)

    @property
    def of_target(self):
        return self

    def as_read(self, text):
        return text

    def lacking(self, characters):
        return []

    def pieces(self, ids):
        return [self._pieces[token] for token in ids]

    def decode(self, rows):
        texts = []
        for row in rows:
            spelt = b""
            for token in row:
                byte = re.fullmatch("<0x(..)>", self._pieces[token])
                if token == UNK:
                    spelt += " ⁇ ".encode()
                elif token not in (PAD, BOS, EOS):
                    spelt += bytes([int(byte[1], 16)]) if byte else self._pieces[token].encode()
            texts.append(spelt.decode(errors="replace").replace(WORD_START, " ").removeprefix(" "))
        return texts

    def encode(self, texts):
        """The longest piece that fits, from the left."""
        rows = []
        for text in texts:
            left, row = WORD_START + text.replace(" ", WORD_START), []
            while left:
                fitting = [token for token, piece in enumerate(self._pieces) if token > EOS and left.startswith(piece)]
                best = max(fitting, key=lambda token: len(self._pieces[token]), default=UNK)
                row.append(best)
                left = left[1 if best == UNK else len(self._pieces[best]) :]
            rows.append(row)
        return rows


def contains_words(text, phrase, tokenized=True):
    """Whether a text contains a phrase as whole words; other than between spaces for letters of the alphabet alone."""
    text, inside = " ".join(text.split()), r"\S" if tokenized else r"\w"
    before = rf"(?<!{inside})" if re.match(inside, phrase[0]) or tokenized else ""
    after = rf"(?!{inside})" if re.match(inside, phrase[-1]) or tokenized else ""
    return re.search(before + re.escape(phrase) + after, text) is not None


DEMO = ROOT / "data" / "demo"
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


LENGTHS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=40)


def sentences_of(lengths, seed=0, most=50):
    ids = np.random.default_rng(seed).integers(4, most, sum(lengths)).astype("int32")
    return EncodedSentences(ids, np.concatenate([[0], np.cumsum(lengths)]))


SENTENCES = [
    "the cat sees the dog",
    "the dog sees a small cat",
    "Éva voit le chat à côté du chien",
    "le petit chien voit Éva",
    "der große Hund läuft über die Straße",
    "die Katze läuft zu dem Hund",
    "où est le cœur de l'été ?",
]
ODD = [
    *"  \t\u00a0\u3000\u2003\u200b\u200d\ufeff\u2581\u2581ΩшЖ中文日本éﬁ①Ａ½ǅ😀𝔘\x00\x01\x7f\x85\u2028\ue000",
    *"\uffff\U0010ffff<>&'\"",
    *["e\u0301", "ｆｕｌｌ", "👩‍👩‍👧", "</s>", "<s>", "<unk>", "<pad>", "ΩΩΩ", " \u2581 ", "\u2047"],
]
MARKS = [
    *".,!?;:'\"()[]{}<>&%$#@*/-_`|~^+=…„“”«»‘’´–—\u00a0 \t\r€£½²ºªÉßİΣ中文１٣\u0301\u2028\x85\ufeff😀\u00ad\u200b",
    *["''", "...", "....", "n't", "'s", "'ll", "Mr.", "p.m.", "U.S.", "No.", "12.30", "1,000", "3,", "nº\u00a0"],
    *["DOTMULTI", "o'clock", "l'homme", "aujourd'hui", "M.", "it's", "\u00a0%", "start-up"],
]


def any_character(chance):
    """A character of any script that Python knows; a browser may know newer ones."""
    while True:
        character = chr(chance.choice([chance.randrange(0xA0, 0x2FFF), chance.randrange(0xE000, 0x1FFFF)]))
        if unicodedata.category(character) != "Cn":
            return character


def lines_with(odd, seed, count=200):
    """Lines of words and odd parts, with and without spaces between them."""
    chance = random.Random(seed)
    words = [word for sentence in SENTENCES for word in sentence.split(" ")]
    lines = []
    for _ in range(count):
        line = ""
        for _ in range(chance.choice([0, 1, 2, 4, 8, 16])):
            kind = chance.random()
            line += chance.choice(words if kind < 0.45 else odd if kind < 0.9 else [any_character(chance)])
            line += " " * chance.choice([0, 0, 1, 1, 1, 3])
        lines.append(line.capitalize() if chance.random() < 0.3 else line)
    return [*SENTENCES, *lines]


def measure_look(lines, tokenized):
    meter = StyleMeter(tokenized)
    meter.add(lines)
    return meter.style
