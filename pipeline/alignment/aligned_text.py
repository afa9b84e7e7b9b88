"""A parallel text whose words are linked."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class AlignedText:
    """Sentences and their translations.

    Args:
        source: sentences.
        target: their translations.
        source_words: the words of the sentences, see `read_given_words`; None where they are to be found.
        target_words: those of the translations.
    """

    source: Sequence[str]
    target: Sequence[str]
    source_words: Sequence[str] | None = None
    target_words: Sequence[str] | None = None

    def __len__(self) -> int:
        return len(self.source)

    @property
    def words(self) -> tuple[Sequence[str] | None, Sequence[str] | None]:
        """The given words of the source and of the target."""
        return self.source_words, self.target_words

    def turned(self) -> "AlignedText":
        """Returns the text with source and target exchanged."""
        return AlignedText(self.target, self.source, self.target_words, self.source_words)

    def part(self, start: int, stop: int) -> "AlignedText":
        """Returns some pairs of the text."""
        words = (None if side is None else list(side[start:stop]) for side in self.words)
        return AlignedText(list(self.source[start:stop]), list(self.target[start:stop]), *words)
