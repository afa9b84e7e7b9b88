"""Words that are given by a tokenised copy of a text: the same characters, with spaces between words."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..errors import InputError
from ..inspection.record import Record
from ..text.lines import read_lines

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
    """Returns a record whose words are those of tokenised copies.

    Args:
        record: its words are characters on each side that has a copy.
        source: the source with spaces between words; None to keep the record's own words.
        target: the same for the target.
    """
    return replace(
        record,
        source_words=_number(record.source_words, source),
        target_words=_number(record.target_words, target),
    )


def _number(characters: list[int | None], line: str | None) -> list[int | None]:
    if line is None:
        return characters
    words = [number for number, word in enumerate(line.split()) for _ in word]
    return [None if character is None else words[character] for character in characters]


def _shorten(text: str) -> str:
    return repr(text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…")
