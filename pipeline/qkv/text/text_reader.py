"""Converts the text of users for one run: lines to token ids, and translations to plain text."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from ..config.data import DataSettings
from ..files.run_directory import RunDirectory
from .lines import moses
from .lines.line import as_line, without_tag
from .lines.sentences import Paragraph, SentenceSplitter
from .lines.style import TextStyle, find_difference
from .lines.typed_line import Normalizer, TypedText, describe_unread, find_unknown, name_characters
from .tokens.tokenizer import Tokenizer
from .tokens.words import WordSegmenter


@dataclass(frozen=True)
class TextReader:
    """Reads text that users write, by the settings and the tokenizer of a run.

    It reads all sentences from commands, Python and pages, except those of the run's validation and test sets.
    `typed_text` makes the reader of one text, such as a file. `read` reads sentences from Python calls; warnings treat
    all of them as one text.

    Args:
        directory: the folder of the run, with the styles of its training text.
        data: the settings of the run's text.
        tokenizer: the tokenizer of the run, with the tag of its config.
        max_tokens: the maximum number of tokens in a sentence that the model reads, without EOS.
    """

    directory: RunDirectory
    data: DataSettings
    tokenizer: Tokenizer
    max_tokens: int

    @cached_property
    def styles(self) -> dict[str, TextStyle | None]:
        """The style of the training text by side, `source` and `target`; None if unknown, as in an imported run."""
        paths = {"source": self.directory.source_look, "target": self.directory.target_look}
        return {side: TextStyle.read(path) for side, path in paths.items()}

    def side_tokenizer(self, side: str) -> Tokenizer:
        """Returns the tokenizer of a side, `source` or `target`."""
        return self.tokenizer if side == "source" else self.tokenizer.of_target

    def make_normalizer(self, side: str = "source", *, divides: bool = True) -> Normalizer | None:
        """Makes the function that applies `data.normalize` to a line.

        The function also leaves out the invisible characters that the model does not read, see `Tokenizer.as_read`.

        Args:
            side: `source` or `target`, the language of the line.
            divides: whether spaces are put between words and punctuation. If False, the words of a line keep their
                numbers.

        Returns:
            The function; None if `data.normalize` is null or the style of the training text is unknown.
        """
        settings = self.data.normalize
        style = self.styles[side]
        language = self.data.source_language if side == "source" else self.data.target_language
        if settings is None or style is None:
            return None
        divide = None
        if settings.moses and divides:
            divide = partial(moses.tokenize, language=language, escaped=style.escaped)
        tokenizer = self.side_tokenizer(side)
        clean = tokenizer.as_read if divides else tokenizer.without_format_characters
        return Normalizer(style, settings.lowercase, divide, clean, self.tokenizer.tags)

    @cached_property
    def splitter(self) -> SentenceSplitter:
        """The splitter of source lines into sentences. Raises an `InputError` if its library is not installed."""
        separator = " " if self.data.words.target == "spaces" else ""
        return SentenceSplitter(self.data.source_language, self.tokenizer.tags, separator)

    def typed_text(
        self, name: str, side: str = "source", *, normalizes: bool = True, divides: bool = True, splits: bool = False
    ) -> TypedText:
        """Makes the reader of one text.

        Args:
            name: the name of the text in messages, such as the path of its file.
            side: `source` or `target`, the language of the text.
            normalizes: whether `data.normalize` is applied to the text.
            divides: see `make_normalizer`.
            splits: whether `TypedText.read_paragraphs` splits lines into sentences.

        Raises:
            InputError: `splits` is True, and sentencex is not installed.
        """
        return TypedText(
            self.side_tokenizer(side),
            self.styles[side],
            self.make_normalizer(side, divides=divides) if normalizes else None,
            self.max_tokens,
            name,
            self.splitter if splits else None,
        )

    @cached_property
    def sentences(self) -> dict[str, TypedText]:
        """The readers of sentences from Python calls, by side, `source` and `target`."""
        return {side: self.typed_text("sentence", side) for side in ("source", "target")}

    def read(self, sentences: Sequence[str], side: str = "source") -> tuple[list[str], list[list[int]]]:
        """Reads sentences from Python.

        Args:
            sentences: the sentences.
            side: `source` or `target`, their language.

        Returns:
            `(texts, ids)`: each sentence as the model reads it, and all its ids without BOS and EOS, also those after
            `max_tokens`.

        Raises:
            InputError: `sentences` is a single `str`; or a sentence is not a `str`, has several lines, or has a NUL
                character or a lone surrogate.
        """
        return self.sentences[side].read(sentences)

    def split(self, text: str) -> Paragraph:
        """Splits a source text from Python, of one or more lines, into sentences for `read`.

        Invisible characters that the model leaves out are removed, with a warning.

        Raises:
            InputError: the text has a NUL character or a lone surrogate, or sentencex is not installed.
        """
        splitter = self.splitter
        lines = self.sentences["source"].readable(text.split("\n"))
        return splitter.divide_lines("\n".join(lines))

    def read_line(self, line: str, name: str) -> str:
        """Returns a source line as the model reads it, without warnings.

        Args:
            line: the line.
            name: the name of the line in messages.

        Raises:
            InputError: the line has several lines, a NUL character or a lone surrogate.
        """
        line = as_line(line, name)
        normalize = self.sentences["source"].normalize
        return self.tokenizer.as_read(line) if normalize is None else normalize(line)

    def describe_difference(self, written: str, read: str) -> str | None:
        """Returns a phrase about how a source sentence differs from the training text; None if it does not.

        Args:
            written: the sentence as the user wrote it.
            read: the sentence as the model reads it.
        """
        if unread := describe_unread(written.replace("\n", " "), self.tokenizer):
            return unread
        text = without_tag(read, self.tokenizer.tags)
        if unknown := find_unknown(text, self.tokenizer):
            return f"the vocabulary has no {name_characters(unknown)}"
        style = self.styles["source"]
        return find_difference(text, style) if style else None

    @cached_property
    def segmenter(self) -> WordSegmenter:
        """The segmenter of sentences into words, by `data.words`."""
        return WordSegmenter(
            self.data.words.source,
            self.data.words.target,
            self.data.tokenized,
            (self.tokenizer.count_tokens, self.tokenizer.of_target.count_tokens),
            tags=self.tokenizer.tags,
        )

    def detokenize(self, text: str) -> str:
        """Returns a translation as plain text: punctuation attached to words, and a capital at the beginning."""
        if not self.data.tokenized:
            return text[:1].upper() + text[1:]
        return moses.detokenize(text, self.data.target_language)
