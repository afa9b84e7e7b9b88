"""A run as a translator of whole texts: lines and sentences are translated one by one and put together again."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from ..errors import InputError
from ..markup.translation import as_plain, translate_marked
from ..run.trained_run import TrainedRun
from ..text.lines.line import as_line

MOST_ALTERNATIVES = 3
"""The largest number of further translations of a text."""


class DividedText(NamedTuple):
    """A text, divided into sentences.

    - sentences: the sentences, without white space at their ends; none if the text is only white space.
    - spaces: the text before the first sentence, between neighbouring sentences, and after the last one; one more than
      `sentences`.
    """

    sentences: list[str]
    spaces: list[str]

    def join(self, translations: Sequence[str]) -> str:
        """Returns the translations of the sentences as one text, with the white space and line ends of the source."""
        pairs = zip(self.spaces, [*translations, ""], strict=True)
        return "".join(text for pair in pairs for text in pair)


class Direction:
    """A run that translates texts of any length from one language to another.

    Args:
        run: the run, which translates as its config says.
        searching: the same run with a beam search of `1 + MOST_ALTERNATIVES` translations for each sentence.

    Attributes:
        source: the code of the source language, as in the config.
        target: the code of the target language.
    """

    def __init__(self, run: TrainedRun, searching: TrainedRun) -> None:
        self._run = run
        self._searching = searching
        self.source = run.config.data.source_language
        self.target = run.config.data.target_language

    def divide(self, text: str) -> DividedText:
        """Divides a text into its lines, these into sentences, and sentences that the model would cut into parts.

        Raises:
            InputError: the text has a NUL character or a lone surrogate.
        """
        sentences: list[str] = []
        spaces = [""]
        for line in text.splitlines(keepends=True):
            content = line.strip()
            if not content:
                spaces[-1] += line
                continue
            before, _, after = line.partition(content)
            readable = self._run.tokenizer.without_format_characters(as_line(content, "q"))
            paragraph = self._run.reader.splitter(readable)
            spaces[-1] += before
            for sentence, space in zip(paragraph.sentences, [*paragraph.spaces, after], strict=True):
                for part, part_space in self._fit(sentence, space):
                    sentences.append(part)
                    spaces.append(part_space)
        return DividedText(sentences, spaces)

    def translate_sentences(self, sentences: Sequence[str]) -> list[list[str]]:
        """Translates sentences.

        Returns:
            For each sentence a list with its translation, as plain text.
        """
        return self._translate(self._run, sentences)

    def search_sentences(self, sentences: Sequence[str]) -> list[list[str]]:
        """Searches several translations of each sentence, the best first: at most `1 + MOST_ALTERNATIVES`."""
        return self._translate(self._searching, sentences)

    def translate_html(self, texts: Sequence[str]) -> list[str]:
        """Translates parts of HTML pages, sentence by sentence, and puts their tags where word links say.

        Raises:
            InputError: the model has no cross-attention, so that it has no word links.
        """
        return translate_marked(self._run, texts, "html-page")

    def prepare(self) -> None:
        """Translates a letter, and letters in HTML, to trace the graphs and to find all that word links need."""
        self.translate_sentences(["a"])
        with suppress(InputError):  # the model has no cross-attention
            self.translate_html(["<b>a</b> b"])  # a tag around the whole text would need no links

    def _translate(self, run: TrainedRun, sentences: Sequence[str]) -> list[list[str]]:
        # `read_line` logs nothing: the warnings of other readers name characters that the user has typed.
        read = [run.reader.read_line(sentence, "q") for sentence in sentences]
        n_bests = run.translator.translate_ids(run.tokenizer.encode(read))
        return [
            [as_plain(run, sentence, translation.text) for translation in n_best]
            for sentence, n_best in zip(sentences, n_bests, strict=True)
        ]

    def _fit(self, sentence: str, space: str) -> Iterator[tuple[str, str]]:
        """Yields the parts of a sentence that the model reads as a whole, each with the space after it.

        A sentence of too many tokens is halved at the space nearest to its middle, or in a word if there is no space.

        Args:
            sentence: the sentence.
            space: the space after the sentence.
        """
        (ids,) = self._run.tokenizer.encode([self._run.reader.read_line(sentence, "q")])
        if len(ids) <= self._run.reader.max_tokens or len(sentence) < 2:
            yield sentence, space
            return
        middle = len(sentence) // 2
        gaps = [i for i in range(1, len(sentence) - 1) if sentence[i] == " "]
        if gaps:
            middle = min(gaps, key=lambda i: abs(i - middle))
        first, second = sentence[:middle], sentence[middle:].removeprefix(" ")
        yield from self._fit(first, " " if gaps else "")
        yield from self._fit(second, space)
