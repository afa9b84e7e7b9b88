"""Paragraphs: divided into sentences, which a model translates one by one, and put together again."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from ...errors import import_optional
from .line import find_tag, without_tag


class Paragraph(NamedTuple):
    """A line of text, or several, as sentences.

    Attributes:
        sentences: one or more; an empty line is one empty sentence.
        spaces: the white space between them, one fewer.
    """

    sentences: list[str]
    spaces: list[str]

    def join(self, translations: Sequence[str]) -> str:
        """Returns the translations of the sentences as one text, with the spaces of the source between them."""
        return "".join(text for pair in zip(translations, [*self.spaces, ""], strict=True) for text in pair)


class SentenceSplitter:
    """Divides lines by sentencex (https://github.com/wikimedia/sentencex), whose rules are for some 240 languages.

    Args:
        language: the code of the lines' language, such as `en`; the rules of English are used where it is unknown.
        tags: words with which a line may begin; each of its sentences then begins so.
        between: what is put between two translations whose sources have no space between them, as in Chinese.

    Raises:
        InputError: sentencex is not installed.
    """

    def __init__(self, language: str, tags: Collection[str] = (), between: str = " ") -> None:
        self._segment = import_optional(
            "sentencex", "split: sentencex, which finds sentences, is not installed; install it: pip install sentencex"
        ).segment
        self._language = language.replace("_", "-").partition("-")[0].lower()
        self._tags, self._between = tags, between

    def divide_lines(self, text: str) -> Paragraph:
        """Returns the sentences of all lines of a text, between which line feeds stand, too."""
        sentences, spaces = [], []
        for line in map(self, text.split("\n")):
            sentences += line.sentences
            spaces += [*line.spaces, "\n"]
        return Paragraph(sentences, spaces[:-1])

    def __call__(self, line: str) -> Paragraph:
        """Returns the sentences of a line; what it begins and ends with, but for sentences, is left out."""
        parts: list[str] = self._segment(self._language, without_tag(line, self._tags))
        sentences, spaces, space = [], [], ""
        for part in parts:
            if sentence := part.strip():
                before, _, after = part.partition(sentence)
                spaces.append(space + before or self._between)
                sentences.append(sentence)
                space = after
            else:
                space += part
        if len(sentences) < 2:
            return Paragraph([line], [])
        tag = find_tag(line, self._tags)
        return Paragraph([one if tag is None else f"{tag} {one}" for one in sentences], spaces[1:])
