"""A parallel text whose words are linked."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import overload


@dataclass(frozen=True)
class AlignedText:
    """Sentences and their translations.

    Args:
        source: sentences.
        target: their translations.
        source_words: the words of the sentences, see `read_given_words`; None where they are to be found.
        target_words: those of the translations.
        names: what messages call the sentences and the translations, such as the paths of their files.
    """

    source: Sequence[str]
    target: Sequence[str]
    source_words: Sequence[str] | None = None
    target_words: Sequence[str] | None = None
    names: tuple[str, str] = ("source", "target")

    def __len__(self) -> int:
        return len(self.source)

    @property
    def words(self) -> tuple[Sequence[str] | None, Sequence[str] | None]:
        """The given words of the source and of the target."""
        return self.source_words, self.target_words

    def turned(self) -> "AlignedText":
        """Returns the text with source and target exchanged."""
        return AlignedText(self.target, self.source, self.target_words, self.source_words, self.names[::-1])

    def part(self, start: int, stop: int) -> "AlignedText":
        """Returns some pairs of the text."""
        source, target = (None if side is None else list(side[start:stop]) for side in self.words)
        lines = list(self.source[start:stop]), list(self.target[start:stop])
        return AlignedText(*lines, source, target, self.names)


class ChangedLines(Sequence[str]):
    """Lines, each changed when it is read.

    Args:
        lines: the lines.
        change: returns what a line becomes.
    """

    def __init__(self, lines: Sequence[str], change: Callable[[str], str]) -> None:
        self._lines, self._change = lines, change

    def __len__(self) -> int:
        return len(self._lines)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        found = self._lines[index]
        return self._change(found) if isinstance(found, str) else list(map(self._change, found))
