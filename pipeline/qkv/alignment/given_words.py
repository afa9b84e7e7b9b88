"""Words that are given by a tokenised copy of a text: the same characters, with spaces between words."""

from collections.abc import Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import accumulate
from pathlib import Path

from ..errors import InputError
from ..inspection.record import Record
from ..text.lines.line import words_of
from ..text.lines.text_file import read_lines

SHOWN_CHARACTERS = 60  # of a line in an error message


def read_given_words(path: Path, sentences: Sequence[str]) -> Sequence[str]:
    """Reads the tokenised copy of a text.

    Args:
        path: the file; line i holds the words of sentence i.
        sentences: the text.

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
        return (
            f"{path}: {len(lines):,} lines for {len(sentences):,} sentences; expected a tokenised copy of the text, "
            "line by line"
        )
    for number, (line, sentence) in enumerate(zip(lines, sentences, strict=True), 1):
        if "".join(line.split()) != "".join(sentence.split()):
            return (
                f"{path}:{number}: expected the characters of {_shorten(sentence)}, with spaces between words; "
                f"found {_shorten(line)}; a tokenised copy may differ from the text by spaces alone"
            )
    return None


def number_words(record: Record, source: str | None, target: str | None) -> Record:
    """Returns a record whose words are those of the same text written otherwise: of a tokenised copy, or as it was
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
    """Returns the characters by which a text and the line that it was made from are compared."""
    return [character.lower() for character in text if not character.isspace()]


def _places(text: list[str], line: list[str]) -> list[int]:
    """Returns for each character of a text its place in the line that it was made from; for one that is not there, such
    as those of `&apos;`, the place that it stands for."""
    if text == line:
        return list(range(len(text)))
    places: list[int] = []
    for _, first, last, start, end in SequenceMatcher(None, line, text, autojunk=False).get_opcodes():
        scale = (last - first) / max(end - start, 1)
        places += [min(first + int(scale * step), len(line) - 1) for step in range(end - start)]
    return places


def _shorten(text: str) -> str:
    return repr(text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…")
