"""Splits paragraphs into sentences, which a model translates one by one, and joins the translations again."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from ...errors import import_optional
from .line import find_tag, without_tag


class Paragraph(NamedTuple):
    """One or more lines of text, split into sentences.

    - sentences: the sentences, one or more; an empty line is one empty sentence.
    - spaces: the white space between neighbouring sentences; one string fewer than `sentences`.
    """

    sentences: list[str]
    spaces: list[str]

    def join(self, translations: Sequence[str]) -> str:
        """Returns the translations of the sentences as one text, with the white space of the source between them."""
        return "".join(text for pair in zip(translations, [*self.spaces, ""], strict=True) for text in pair)


class SentenceSplitter:
    """Splits text into sentences by sentencex (https://github.com/wikimedia/sentencex), which has rules for some 240
    languages. The translations of the sentences can be joined to one text again.

    Args:
        language: the code of the text's language, such as `en`. For an unknown language, the rules of English are used.
        tags: the words that are tags at the beginning of a line. Each sentence of such a line gets the tag.
        separator: the text between two translations whose sources have no space between them, as in Chinese.

    Raises:
        InputError: sentencex is not installed.
    """

    def __init__(self, language: str, tags: Collection[str] = (), separator: str = " ") -> None:
        self._segment = import_optional(
            "sentencex", "split: sentencex, which finds sentences, is not installed; install it: pip install sentencex"
        ).segment
        self._language = language.replace("_", "-").partition("-")[0].lower()
        self._tags = tags
        self._separator = separator

    def divide_lines(self, text: str) -> Paragraph:
        """Splits a text of several lines into sentences. Line feeds count as white space between sentences."""
        sentences: list[str] = []
        spaces: list[str] = []
        for line in map(self, text.split("\n")):
            sentences += line.sentences
            spaces += [*line.spaces, "\n"]
        return Paragraph(sentences, spaces[:-1])

    def __call__(self, line: str) -> Paragraph:
        """Splits a line into sentences.

        White space at both ends of the line is dropped. But a line of fewer than two sentences is returned unchanged,
        as one sentence.
        """
        parts: list[str] = self._segment(self._language, without_tag(line, self._tags))
        sentences = []
        spaces = []
        space = ""
        for part in parts:
            if sentence := part.strip():
                before, _, after = part.partition(sentence)
                spaces.append(space + before or self._separator)
                sentences.append(sentence)
                space = after
            else:
                space += part
        if len(sentences) < 2:
            return Paragraph([line], [])
        tag = find_tag(line, self._tags)
        if tag is not None:
            sentences = [f"{tag} {sentence}" for sentence in sentences]
        return Paragraph(sentences, spaces[1:])
