"""A parallel text that is aligned, and its words.

Words are found by the run, or given by the user as a tokenised copy of the text.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import accumulate
from pathlib import Path

from ..config import load_run_config
from ..config.run import settings_of_set
from ..errors import InputError
from ..files.run_directory import RunDirectory
from ..inspection.record import Record
from ..text.corpora.corpus import Corpus
from ..text.corpora.formats import read_corpus
from ..text.corpora.held_out import with_held_out_files
from ..text.lines.line import as_line, shorten, words_of
from ..text.lines.text_file import read_lines


@dataclass(frozen=True)
class AlignedText:
    """Sentences and their translations.

    Args:
        source: the sentences.
        target: the translation of each sentence.
        words: for the source and for the target, the lines of a tokenised copy, one for each sentence, see
            `read_given_words`; None for a side whose words the run finds.
        names: the names of the two sides in messages, such as the paths of their files.
    """

    source: Sequence[str]
    target: Sequence[str]
    words: tuple[Sequence[str] | None, Sequence[str] | None] = (None, None)
    names: tuple[str, str] = ("source", "target")

    def __len__(self) -> int:
        return len(self.source)

    def turned(self) -> "AlignedText":
        """Returns the text with source and target exchanged, and so with their words and names exchanged."""
        return AlignedText(self.target, self.source, self.words[::-1], self.names[::-1])

    def part(self, start: int, stop: int) -> "AlignedText":
        """Returns the text of the pairs from `start` to `stop - 1`, with their words."""
        source_words, target_words = (None if side is None else list(side[start:stop]) for side in self.words)
        words = source_words, target_words
        return AlignedText(list(self.source[start:stop]), list(self.target[start:stop]), words, self.names)

    def parts(self, pairs: int) -> Iterator["AlignedText"]:
        """Yields the text in parts of this number of pairs; the last part may have fewer."""
        return (self.part(start, start + pairs) for start in range(0, len(self), pairs))


@dataclass(frozen=True)
class ChangedLines:
    """Lines that are changed when they are read, so that the changed text is never in memory as a whole.

    It has a length and returns the changed lines of a slice.

    Args:
        lines: the lines.
        change: the function that is applied to each line.
    """

    lines: Sequence[str]
    change: Callable[[str], str]

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, part: slice) -> list[str]:
        return list(map(self.change, self.lines[part]))


def read_set(run: RunDirectory, name: str) -> Corpus:
    """Returns the sentence pairs of a set of a run's config.

    Args:
        run: the folder of the run.
        name: the name of the set, one of `config.choices.text.DATA_SETS`.

    Raises:
        InputError: the config has no such set; its files cannot be read; or the set is the training set and its
            sources begin with tags of their corpora, which would be linked like words.
    """
    config = with_held_out_files(load_run_config(run.config), run)
    settings = settings_of_set(config, name, run.config)
    if config.data.tags and name == "train":
        raise InputError(f"{run.config}: data.train has tags, which would be linked as words; give --source, --target")
    return read_corpus(settings)


PAIR_SEPARATORS = "\t", "|||"
"""The separators of source and target in a line with a sentence pair: a tab, or that of Moses and fast_align."""


def split_pair(line: str, location: str) -> tuple[str, str]:
    """Returns the source and the target of a line: `source<TAB>target`, or `source ||| target` if it has no tab.

    Args:
        line: the line, without its end.
        location: the location of the line, for messages.

    Raises:
        InputError: the line has no separator, or several; or it has a NUL character.
    """
    separator = next((separator for separator in PAIR_SEPARATORS if separator in line), None)
    if separator is None:
        raise InputError(
            f"{location}: expected a sentence pair, source and target with a tab or ||| between them, found "
            f"{shorten(line)!r}; two files become such lines by: paste SOURCE TARGET"
        )
    sides = as_line(line, location).split(separator)
    if len(sides) != 2:
        name = "tab" if separator == "\t" else separator
        raise InputError(
            f"{location}: expected one {name}, between source and target, found {len(sides) - 1}; leave out other "
            "columns, such as by: cut -f1,2"
        )
    source, target = sides if separator == "\t" else map(str.strip, sides)
    return source, target


def read_pairs(windows: Iterable[Sequence[str]], name: str) -> Iterator[AlignedText]:
    """Yields the sentence pairs of each window of lines, see `split_pair`.

    Args:
        windows: windows of lines, such as `text.lines.stream.ArrivingLines.windows`.
        name: the name of the lines in messages.

    Raises:
        InputError: a line is not a sentence pair. The pairs before it are yielded first.
    """
    first_number = 1
    for lines in windows:
        pairs: list[tuple[str, str]] = []
        problem = None
        for number, line in enumerate(lines, first_number):
            try:
                pairs.append(split_pair(line, f"{name}:{number}"))
            except InputError as error:
                problem = error
                break
        if pairs:
            source, target = map(list, zip(*pairs, strict=True))
            yield AlignedText(source, target, names=(f"source in {name}", f"target in {name}"))
        if problem:
            raise problem
        first_number += len(lines)


def with_given_words(
    corpus: Corpus, source_words: Path | None, target_words: Path | None, names: tuple[str, str]
) -> AlignedText:
    """Combines a corpus with the words of tokenised copies, see `read_given_words`.

    Args:
        corpus: the sentence pairs.
        source_words: the file of the tokenised sources; None if the run finds the words.
        target_words: the file of the tokenised targets; None if the run finds the words.
        names: the names of the two sides in messages.

    Raises:
        InputError: a tokenised copy cannot be read, or it does not fit its text.
    """
    source, target = (
        read_given_words(path, sentences) if path else None
        for path, sentences in ((source_words, corpus.source), (target_words, corpus.target))
    )
    return AlignedText(corpus.source, corpus.target, (source, target), names)


def read_given_words(path: Path, sentences: Sequence[str]) -> Sequence[str]:
    """Reads a tokenised copy of a text. Each line holds the words of one sentence, with spaces between them.

    Args:
        path: the file of the tokenised copy.
        sentences: the sentences of the text.

    Returns:
        The lines of the file, one for each sentence.

    Raises:
        InputError: the file cannot be read; it has another number of lines than there are sentences; or a line differs
            from its sentence by more than spaces.
    """
    lines = read_lines(path)
    if problem := _find_problem(path, lines, sentences):
        del lines  # closes the file; the traceback of the error would keep it open
        raise InputError(problem)
    return lines


def _find_problem(path: Path, lines: Sequence[str], sentences: Sequence[str]) -> str | None:
    """Returns an error message if the lines are not a tokenised copy of the sentences; None if they are."""
    if len(lines) != len(sentences):
        counts = f"{len(lines):,} lines for {len(sentences):,} sentences"
        return f"{path}: {counts}; expected a tokenised copy of the text, line by line"
    for number, (line, sentence) in enumerate(zip(lines, sentences, strict=True), 1):
        if "".join(line.split()) != "".join(sentence.split()):
            return (
                f"{path}:{number}: expected the characters of {shorten(sentence)!r}, with spaces between words; "
                f"found {shorten(line)!r}; a tokenised copy may differ from the text by spaces alone"
            )
    return None


def number_words(record: Record, source: str | None, target: str | None) -> Record:
    """Returns a copy of a record, with its words numbered as in another version of the text.

    The other version is a tokenised copy of the text, or the text before it was normalised.

    Args:
        record: the record. Its unit of words is `spaces` or `characters` on each side.
        source: the other version of the source, with spaces between its words; None to leave `source_words` unchanged.
        target: the other version of the target, with spaces between its words; None to leave `target_words` unchanged.
    """
    return replace(
        record,
        source_words=_renumber(record.source_words, record.source_unit, record.source, source),
        target_words=_renumber(record.target_words, record.target_unit, record.hypothesis, target),
    )


def _renumber(numbers: list[int | None], unit: str, text: str, line: str | None) -> list[int | None]:
    """Returns for each token the index of its word in another version of the text; None for EOS.

    Args:
        numbers: for each token the index of its word in the text; None for EOS.
        unit: the unit of words in the text, `spaces` or `characters`.
        text: the text.
        line: the other version of the text, with spaces between words; None to return `numbers` unchanged.
    """
    if line is None or (text == line and unit == "spaces"):
        return numbers
    # All characters are counted without white space.
    word_of_character = [number for number, word in enumerate(words_of(line)) for _ in _characters(word)]
    positions = _match_characters(_characters(text), _characters(line))
    if not positions:
        return [None] * len(numbers)
    if unit == "spaces":  # the position of a word is that of its last character
        ends = accumulate(len(_characters(word)) for word in words_of(text))
        positions = [positions[max(end - 1, 0)] for end in ends]
    return [None if number is None else word_of_character[positions[number]] for number in numbers]


def _characters(text: str) -> list[str]:
    """Returns the characters of a text in lower case, without white space."""
    return [character.lower() for character in text if not character.isspace()]


def _match_characters(text: list[str], line: list[str]) -> list[int]:
    """Returns, for each character of a text, the index of the matching character of another version of the text.

    A character without a match gets an index among the characters of the other version that stand in the same position.
    The characters of `&apos;`, for example, may all get the index of an apostrophe.

    Args:
        text: the characters of the text.
        line: the characters of the other version.
    """
    if text == line:
        return list(range(len(text)))
    indices: list[int] = []
    for _, first, last, start, end in SequenceMatcher(None, line, text, autojunk=False).get_opcodes():
        scale = (last - first) / max(end - start, 1)
        indices += [min(first + int(scale * step), len(line) - 1) for step in range(end - start)]
    return indices
