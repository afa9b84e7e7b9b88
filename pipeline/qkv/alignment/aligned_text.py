"""The parallel text that is aligned, and its words: a run's own, or the words of a tokenised copy of the text."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import accumulate
from pathlib import Path

from ..config import load_run_config
from ..config.run import settings_of_set
from ..errors import InputError
from ..files.run_directory import RunDirectory
from ..inspection.record import Record, shorten
from ..text.corpora.corpus import Corpus
from ..text.corpora.formats import read_corpus
from ..text.corpora.held_out import with_held_out_files
from ..text.lines.line import words_of
from ..text.lines.text_file import read_lines


@dataclass(frozen=True)
class AlignedText:
    """Sentences and their translations.

    Args:
        source: sentences.
        target: their translations.
        words: the words of the sentences and of the translations, see `read_given_words`; None where they are to be
            found.
        names: what messages call the sentences and the translations, such as the paths of their files.
    """

    source: Sequence[str]
    target: Sequence[str]
    words: tuple[Sequence[str] | None, Sequence[str] | None] = (None, None)
    names: tuple[str, str] = ("source", "target")

    def __len__(self) -> int:
        return len(self.source)

    def turned(self) -> "AlignedText":
        """Returns the text with source and target exchanged."""
        return AlignedText(self.target, self.source, self.words[::-1], self.names[::-1])

    def part(self, start: int, stop: int) -> "AlignedText":
        """Returns some pairs of the text."""
        lines = list(self.source[start:stop]), list(self.target[start:stop])
        source, target = (None if side is None else list(side[start:stop]) for side in self.words)
        return AlignedText(*lines, (source, target), self.names)


@dataclass(frozen=True)
class ChangedLines:
    """Lines, each changed when it is read, some at a time.

    Args:
        lines: the lines.
        change: returns what a line becomes.
    """

    lines: Sequence[str]
    change: Callable[[str], str]

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, part: slice) -> list[str]:
        return list(map(self.change, self.lines[part]))


def read_set(run: RunDirectory, name: str) -> Corpus:
    """Reads a set that the config of a run names.

    Args:
        run: the folder of the run.
        name: one of `config.choices.text.DATA_SETS`.

    Raises:
        InputError: there is no such set, or the set joins corpora with tags.
    """
    config = with_held_out_files(load_run_config(run.config), run)
    settings = settings_of_set(config, name, run.config)
    if config.data.tags and name == "train":
        raise InputError(f"{run.config}: data.train has tags, which would be linked as words; give --source, --target")
    return read_corpus(settings)


def with_given_words(
    corpus: Corpus, source_words: Path | None, target_words: Path | None, names: tuple[str, str]
) -> AlignedText:
    """Returns a text with the words of tokenised copies of it, where those are given; see `read_given_words`."""
    source, target = (
        read_given_words(path, sentences) if path else None
        for path, sentences in ((source_words, corpus.source), (target_words, corpus.target))
    )
    return AlignedText(corpus.source, corpus.target, (source, target), names)


def read_given_words(path: Path, sentences: Sequence[str]) -> Sequence[str]:
    """Reads the tokenised copy of a text: line i holds the words of sentence i.

    Raises:
        InputError: the file has another number of lines, or a line differs from its sentence by more than spaces.
    """
    lines = read_lines(path)
    if problem := _find_problem(path, lines, sentences):
        del lines  # closes the file, which the error would keep open
        raise InputError(problem)
    return lines


def _find_problem(path: Path, lines: Sequence[str], sentences: Sequence[str]) -> str | None:
    if len(lines) != len(sentences):
        found = f"{len(lines):,} lines for {len(sentences):,} sentences"
        return f"{path}: {found}; expected a tokenised copy of the text, line by line"
    for number, (line, sentence) in enumerate(zip(lines, sentences, strict=True), 1):
        if "".join(line.split()) != "".join(sentence.split()):
            return (
                f"{path}:{number}: expected the characters of {shorten(sentence)!r}, with spaces between words; "
                f"found {shorten(line)!r}; a tokenised copy may differ from the text by spaces alone"
            )
    return None


def number_words(record: Record, source: str | None, target: str | None) -> Record:
    """Returns a record whose words are numbered in the same text written otherwise: in a tokenised copy, or in the text
    before it was normalised.

    Args:
        record: its words are characters or lie between spaces.
        source: the source with spaces between the words that count; None to keep the record's own words.
        target: the same for the target.
    """
    return replace(
        record,
        source_words=_number(record.source_words, record.source_unit, record.source, source),
        target_words=_number(record.target_words, record.target_unit, record.hypothesis, target),
    )


def _number(numbers: list[int | None], unit: str, text: str, line: str | None) -> list[int | None]:
    if line is None or (text == line and unit == "spaces"):
        return numbers
    words = [number for number, word in enumerate(words_of(line)) for _ in _characters(word)]
    places = _places(_characters(text), _characters(line))
    if not places:
        return [None] * len(numbers)
    if unit == "spaces":
        sizes = accumulate(len(_characters(word)) for word in words_of(text))
        places = [places[max(size - 1, 0)] for size in sizes]
    return [None if number is None else words[places[number]] for number in numbers]


def _characters(text: str) -> list[str]:
    return [character.lower() for character in text if not character.isspace()]


def _places(text: list[str], line: list[str]) -> list[int]:
    """Returns for each character of a text its place in the line that it was made from; for one that is not there, as
    in `&apos;`, the place that it stands for."""
    if text == line:
        return list(range(len(text)))
    places: list[int] = []
    for _, first, last, start, end in SequenceMatcher(None, line, text, autojunk=False).get_opcodes():
        scale = (last - first) / max(end - start, 1)
        places += [min(first + int(scale * step), len(line) - 1) for step in range(end - start)]
    return places
