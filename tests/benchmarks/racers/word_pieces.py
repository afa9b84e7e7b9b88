"""KerasHub's WordPiece tokens of one language, learnt and applied within the words that spaces separate.

KerasHub cuts words at punctuation too, which would lose where the spaces of tokenised text were.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import keras_hub
from tensorflow_text.tools.wordpiece_vocab import wordpiece_tokenizer_learner_lib as learner

PAD, UNK, START, END = range(4)
FREQUENCY = 5
RESERVED = ["[PAD]", "[UNK]", "[START]", "[END]"]


class WordPieces:
    """The tokens of a vocabulary.

    Args:
        file: the vocabulary, a token a line.
    """

    def __init__(self, file: Path) -> None:
        self.vocabulary = file.read_text(encoding="utf-8").removesuffix("\n").split("\n")
        self._tokenizer = keras_hub.tokenizers.WordPieceTokenizer(self.vocabulary, split=False)
        self._words: dict[str, list[int]] = {}

    @classmethod
    def learn(cls, lines: Sequence[str], file: Path) -> "WordPieces":
        """Learns a vocabulary of all pieces that are frequent enough, and writes it to the file.

        It is what `compute_word_piece_vocabulary` does, but for its search for the frequency that gives a wanted size,
        which takes a minute here.
        """
        words = Counter(word for line in lines for word in line.split())
        vocabulary = learner.learn(
            list(words.items()), 50_000, RESERVED, upper_thresh=FREQUENCY + 1, lower_thresh=FREQUENCY
        )
        file.write_text("".join(f"{piece}\n" for piece in vocabulary), encoding="utf-8")
        return cls(file)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns the ids of each line, with START and END."""
        rows = [line.split() for line in lines]
        new = sorted({word for row in rows for word in row} - self._words.keys())
        if new:
            self._words |= zip(new, self._tokenizer([[word] for word in new]), strict=True)
        return [[START, *(i for word in row for i in self._words[word]), END] for row in rows]

    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """Returns the text of ids."""
        return [" ".join(self.vocabulary[i] for i in row).replace(" ##", "") for row in rows]
