"""Word alignments in Pharaoh format: a line for each sentence pair, `i-j` for a link of source word i to target word j.

In memory a link is `(i, j)`, with words counted from 0. The probability in `i-j:0.93` is checked and dropped.
"""

import logging
import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import index
from pathlib import Path
from typing import Any

from ...errors import InputError, quoted
from ...files.atomic import output_when_done, write_output
from ...files.paths import matching_files
from ..lines.line import is_missing
from ..lines.text_file import read_lines
from .corpus import Corpus, chunks

__all__ = [
    "GoldAlignment",
    "OutsideLinks",
    "format_pharaoh_line",
    "iterate_pharaoh",
    "read_pharaoh",
    "write_gold",
    "write_pharaoh",
]

Link = tuple[int, int]
log = logging.getLogger(__name__)

# Advice in messages, for links that seem to be counted from 1.
FROM_0 = r"write the file again, counted from 0: perl -pe 's/(\d+)([-?p])(\d+)/($1-1).$2.($3-1)/ge' FILE > NEW"
IN_CONFIG = "set alignments_first_index: 1 beside alignments in the config"
_LINK = re.compile(r"([0-9]{1,18})([-?p])([0-9]{1,18})(?::(.*))?")
_PROBABILITY = re.compile(r"[0-9]{1,18}(\.[0-9]{1,18})?([eE]-?[0-9]{1,3})?")


@dataclass(frozen=True)
class GoldAlignment:
    """The links of a sentence pair in a gold standard.

    Args:
        sure: the links `(i, j)` of source word i and target word j that must be found.
        possible: the links that may be found. They include the sure links.

    Raises:
        ValueError: a sure link is not among the possible links.
    """

    sure: frozenset[Link]
    possible: frozenset[Link]

    def __post_init__(self) -> None:
        if not self.sure <= self.possible:
            raise ValueError(f"possible: expected all sure links too, without {sorted(self.sure - self.possible)}")

    @property
    def turned(self) -> "GoldAlignment":
        """The links of the opposite direction, `(j, i)`."""
        return GoldAlignment(*(frozenset((j, i) for i, j in links) for links in (self.sure, self.possible)))

    def shifted(self, words: int) -> "GoldAlignment":
        """Returns the links with `words` added to the number of each source word."""
        return GoldAlignment(*(frozenset((i + words, j) for i, j in links) for links in (self.sure, self.possible)))


def read_pharaoh(path: str | Path, turned: bool = False, first_index: int = 0) -> list[GoldAlignment]:
    """Reads the links of sentence pairs: `i-j` for a sure link, `i?j` or `ipj` for a possible link.

    A link may have a probability, `i-j:0.93`, as `qkv align --probabilities` writes it. It is checked and dropped.

    Args:
        path: the file, with a line for each sentence pair. An empty line is a pair without links.
        turned: whether links in the file are target-source, as in a file of the opposite direction.
        first_index: the number of the first word in the file, 0 or 1. Returned links always count from 0.

    Returns:
        The links of each pair.

    Raises:
        InputError: the file is missing, empty or not UTF-8 text; a link is malformed or has a number below
            `first_index`; or a probability is not a number from 0 to 1.
    """
    return list(iterate_pharaoh(path, turned, first_index))


def iterate_pharaoh(path: str | Path, turned: bool = False, first_index: int = 0) -> Iterator[GoldAlignment]:
    """Yields the links of sentence pairs line by line, for files of any length; see `read_pharaoh`.

    Raises:
        InputError: see `read_pharaoh`; it is raised when the line is reached.
    """
    for number, line in enumerate(read_lines(path), start=1):
        alignment = parse_pharaoh_line(line, f"{path}:{number}", first_index)
        yield alignment.turned if turned else alignment


def parse_pharaoh_line(line: str, location: str, first_index: int) -> GoldAlignment:
    """Returns the links in a line of Pharaoh text.

    Args:
        line: the line.
        location: `file:line`, for messages.
        first_index: see `read_pharaoh`.

    Raises:
        InputError: a link is malformed or has a number below `first_index`, or a probability is not from 0 to 1.
    """
    sure, possible = set(), set()
    for text in line.split():
        match = _LINK.fullmatch(text)
        if match is None:
            raise InputError(
                f"{location}: {quoted(text)} is not a link; expected i-j (sure) or i?j (possible) with word numbers"
            )
        if match[4] is not None and not (_PROBABILITY.fullmatch(match[4]) and float(match[4]) <= 1):
            raise InputError(
                f"{location}: {quoted(text)} has no probability after its colon; expected a number from 0 to 1, such "
                f"as {match[1]}{match[2]}{match[3]}:0.93, found {quoted(match[4])}; or leave out the colon"
            )
        link = int(match[1]) - first_index, int(match[3]) - first_index
        if min(link) < 0:
            raise InputError(
                f"{location}: {text!r} has a word 0; expected words counted from 1, as the first index says; if the "
                "file counts from 0, leave that out"
            )
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    return GoldAlignment(frozenset(sure), frozenset(possible))


def links_as_line(links: Any, location: str) -> str:
    """Returns the word links that a user of the Python API has passed for a sentence pair, as a line of Pharaoh text.

    Args:
        links: Pharaoh text, such as `0-0 1-2`; or pairs `(i, j)` in a list, another collection or the keys of a
            mapping. A missing value stands for no links.
        location: the location of the links, for messages.

    Raises:
        InputError: the links have another form.
    """
    if is_missing(links):
        return ""
    if isinstance(links, str):
        parse_pharaoh_line(links, location, first_index=0)
        return " ".join(links.split())
    try:
        pairs = {(index(i), index(j)) for i, j in links}
    except (TypeError, ValueError):
        pairs = {(-1, -1)}
    if any(min(pair) < 0 for pair in pairs):
        raise InputError(
            f"{location}: expected word links, text such as '0-0 1-2' or a list of pairs (i, j) of word numbers from "
            f"0, found {quoted(links)}"
        )
    return format_pharaoh_line(pairs).rstrip("\n")


def write_pharaoh(path: str | Path, links: Iterable[Collection[Link]]) -> None:
    """Writes a file with a line of `format_pharaoh_line` for each sentence pair. It appears whole or not at all."""
    with output_when_done(Path(path)) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(map(format_pharaoh_line, links))


def format_pharaoh_line(links: Collection[Link]) -> str:
    """Returns the line of a sentence pair: its links `i-j`, counted from 0, in ascending order.

    Args:
        links: the links. If they are a mapping to probabilities, links are written with them: `i-j:0.93`.
    """
    texts = (f"{i}-{j}:{links[i, j]:.2f}" if isinstance(links, Mapping) else f"{i}-{j}" for i, j in sorted(links))
    return " ".join(texts) + "\n"


def write_gold(path: str | Path, gold: Iterable[GoldAlignment]) -> None:
    """Writes a file of gold alignments: `i-j` for sure links, `i?j` for links that are only possible, from 0.

    The file appears whole or not at all.
    """
    lines = []
    for alignment in gold:
        links = sorted(alignment.possible)
        lines.append(" ".join(f"{i}{'-' if (i, j) in alignment.sure else '?'}{j}" for i, j in links) + "\n")
    write_output(Path(path), "".join(lines).encode())


def iterate_links(
    corpus: Corpus, path: Path, turned: bool, first_index: int = 0
) -> Iterator[tuple[str, GoldAlignment]]:
    """Yields `(location, links)` for each pair of a corpus; the location is `file:line` of the links.

    Args:
        corpus: the pairs.
        path: the file of the links, or a pattern of several files.
        turned: see `read_pharaoh`.
        first_index: see `read_pharaoh`.

    Raises:
        InputError: no file matches the pattern, or see `read_pharaoh`. At the end: the numbers of pairs and of lines
            differ.
    """
    lines = 0
    for file in matching_files(path):
        for number, alignment in enumerate(iterate_pharaoh(file, turned, first_index), start=1):
            lines += 1
            yield f"{file}:{number}", alignment
    check_line_count(path, lines, corpus)


def iterate_links_inside(
    corpus: Corpus,
    path: Path,
    turned: bool,
    first_index: int,
    count: Callable[[Sequence[str], Sequence[str]], tuple[list[int], list[int]]],
) -> Iterator[GoldAlignment]:
    """Yields the links of each pair of a corpus, without links that point outside its sentences.

    Logs a warning at the end if there were such links.

    Args:
        corpus: see `iterate_links`.
        path: see `iterate_links`.
        turned: see `iterate_links`.
        first_index: see `iterate_links`.
        count: a function from sources and targets to the number of words in each source and in each target.

    Raises:
        InputError: see `iterate_links`. At the end: the file seems to count words from 1, see `OutsideLinks.report`.
    """
    outside = OutsideLinks(first_index, IN_CONFIG)
    links = iterate_links(corpus, path, turned, first_index)
    for sources, targets in zip(chunks(corpus.source), chunks(corpus.target), strict=True):
        for source_words, target_words, (location, alignment) in zip(*count(sources, targets), links, strict=False):
            yield outside.leave_out(alignment, source_words, target_words, location)
    deque(links, maxlen=0)  # checks that no line is left
    outside.report()


def check_line_count(path: str | Path, lines: int, corpus: Corpus) -> None:
    """Raises an `InputError` if the number of lines in a file of alignments is not the number of pairs in a corpus.

    Args:
        path: the file, for the message.
        lines: the number of its lines.
        corpus: the pairs.
    """
    if lines != len(corpus):
        raise InputError(
            f"{path}: {lines} lines of alignments for the {len(corpus)} pairs of {corpus.name}; expected one per pair"
        )


class OutsideLinks:
    """Drops links that point outside their sentences, and counts them.

    Some published files have a few such links. Many such links mean that the file counts words differently.

    Args:
        first_index: the number of the first word with which the file was read, 0 or 1.
        remedy: the advice in the message of `report` for a file that counts words from 1.

    Attributes:
        links: the number of links that were dropped.
    """

    def __init__(self, first_index: int = 0, remedy: str = FROM_0) -> None:
        self.links = self._lines = 0
        self._first = ""
        self._first_index, self._remedy = first_index, remedy
        self._seems_from_1 = first_index == 0

    def leave_out(self, alignment: GoldAlignment, source_words: int, target_words: int, location: str) -> GoldAlignment:
        """Returns the links of a pair that are inside its sentences, and counts the other links.

        Args:
            alignment: the links of the pair.
            source_words: the number of words in the source.
            target_words: the number of words in the target.
            location: `file:line` of the links.
        """
        links = alignment.possible
        inside = frozenset((i, j) for i, j in links if i < source_words and j < target_words)
        self._seems_from_1 &= all(min(link) > 0 for link in links)
        if len(inside) == len(links):
            return alignment
        self._first = self._first or f"{location}, of {source_words} and {target_words} words"
        self._lines += 1
        self.links += len(links) - len(inside)
        return GoldAlignment(alignment.sure & inside, inside)

    def report(self) -> None:
        """Logs a warning if links were dropped.

        Raises:
            InputError: links were dropped, `first_index` is 0, and no link has the number 0. So the file seems to count
                words from 1.
        """
        if not self.links:
            return
        problem = f"{self.links} word links on {self._lines} lines point outside their sentences"
        if self._seems_from_1:
            raise InputError(
                f"{self._first}: {problem}, the first ones here, and no link has a 0; expected words counted from 0. "
                f"If they are counted from 1, {self._remedy}; otherwise remove the links that lie outside"
            )
        log.warning(
            "%s and are left out, the first ones at %s, counted from %d", problem, self._first, self._first_index
        )
