"""A tokenizer of a few pieces, and what it means that a text contains a phrase, by a regular expression."""

import re

from qkv.text.tokenizer import BOS, EOS, PAD, UNK, WORD_START

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
