"""Word alignments in Pharaoh format: one sentence pair a line, `i-j` for a link of source word i and target word j.

In memory a link is `(i, j)`, from 0. The probability in `i-j:0.93` is checked and left out.
"""

import logging
import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import InputError, quoted
from ...files.atomic import output_when_done, write_output
from ...files.paths import matching_files
from ..lines.text_file import read_lines
from .corpus import Corpus, chunks

Link = tuple[int, int]
log = logging.getLogger(__name__)
FROM_0 = r"write the file again, counted from 0: perl -pe 's/(\d+)([-?p])(\d+)/($1-1).$2.($3-1)/ge' FILE > NEW"
IN_CONFIG = "set alignments_first_index: 1 beside alignments in the config"
_LINK = re.compile(r"([0-9]{1,18})([-?p])([0-9]{1,18})(?::(.*))?")
_PROBABILITY = re.compile(r"[0-9]{1,18}(\.[0-9]{1,18})?([eE]-?[0-9]{1,3})?")


@dataclass(frozen=True)
class GoldAlignment:
    """The links of one sentence pair in a gold standard; `possible` includes `sure`."""

    sure: frozenset[Link]
    possible: frozenset[Link]

    def __post_init__(self) -> None:
        if not self.sure <= self.possible:
            raise ValueError(f"possible: expected all sure links too, without {sorted(self.sure - self.possible)}")

    @property
    def turned(self) -> "GoldAlignment":
        """The links from target to source."""
        return GoldAlignment(*(frozenset((j, i) for i, j in links) for links in (self.sure, self.possible)))

    def moved(self, words: int) -> "GoldAlignment":
        """The links after so many words were put before the source."""
        return GoldAlignment(*(frozenset((i + words, j) for i, j in links) for links in (self.sure, self.possible)))


def read_pharaoh(path: str | Path, turned: bool = False, first_index: int = 0) -> list[GoldAlignment]:
    """Reads links `i-j` (sure) and `i?j` or `ipj` (possible), one sentence pair a line.

    A link may have a probability, `i-j:0.93`, as `qkv align --probabilities` writes it. It changes nothing.

    Args:
        path: the file; an empty line is a sentence pair without links.
        turned: whether the links in the file are target-source, as in a file of the opposite direction.
        first_index: the number of the first word in the file, 0 or 1. The links that are returned count from 0.

    Raises:
        InputError: as `read_lines`; a link is malformed or below `first_index`, or a probability is no number from 0
            to 1.
    """
    return list(iterate_pharaoh(path, turned, first_index))


def iterate_pharaoh(path: str | Path, turned: bool = False, first_index: int = 0) -> Iterator[GoldAlignment]:
    """Yields what `read_pharaoh` returns line by line, for files of any length.

    Raises:
        InputError: as `read_pharaoh`, when the line is reached.
    """
    for number, line in enumerate(read_lines(path), start=1):
        alignment = _parse_line(line, f"{path}:{number}", first_index)
        yield alignment.turned if turned else alignment


def _parse_line(line: str, place: str, first_index: int) -> GoldAlignment:
    sure, possible = set(), set()
    for text in line.split():
        match = _LINK.fullmatch(text)
        if match is None:
            raise InputError(
                f"{place}: {quoted(text)} is no link; expected i-j (sure) or i?j (possible) with word numbers"
            )
        if match[4] is not None and not (_PROBABILITY.fullmatch(match[4]) and float(match[4]) <= 1):
            raise InputError(
                f"{place}: {quoted(text)} has no probability after its colon; expected a number from 0 to 1, such as "
                f"{match[1]}{match[2]}{match[3]}:0.93, found {quoted(match[4])}; or leave out the colon"
            )
        link = int(match[1]) - first_index, int(match[3]) - first_index
        if min(link) < 0:
            raise InputError(
                f"{place}: {text!r} has a word 0; expected words counted from 1, as the first index says; if the file "
                "counts from 0, leave that out"
            )
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    return GoldAlignment(frozenset(sure), frozenset(possible))


def write_pharaoh(path: str | Path, links: Iterable[Collection[Link]]) -> None:
    """Writes the line of `format_pharaoh_line` for each sentence pair. The file appears whole or not at all."""
    with output_when_done(Path(path)) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(map(format_pharaoh_line, links))


def format_pharaoh_line(links: Collection[Link]) -> str:
    """Returns the line of one pair: sorted links `i-j` from 0, of a mapping with their probabilities: `i-j:0.93`."""
    shown = (f"{i}-{j}:{links[i, j]:.2f}" if isinstance(links, Mapping) else f"{i}-{j}" for i, j in sorted(links))
    return " ".join(shown) + "\n"


def write_gold(path: str | Path, gold: Iterable[GoldAlignment]) -> None:
    """Writes gold alignments whole or not at all: `i-j` for sure links, `i?j` for other possible ones, from 0."""
    lines = (
        " ".join(f"{i}{'-' if (i, j) in one.sure else '?'}{j}" for i, j in sorted(one.possible)) + "\n" for one in gold
    )
    write_output(Path(path), "".join(lines).encode())


def iterate_links(
    corpus: Corpus, path: Path, turned: bool, first_index: int = 0
) -> Iterator[tuple[str, GoldAlignment]]:
    """Yields the links of each pair of a corpus, with their file and line.

    Args:
        corpus: the pairs.
        path: the file of the links, or the pattern of its files.
        turned, first_index: see `read_pharaoh`.

    Raises:
        InputError: as `read_pharaoh`; at the end, if there are more or fewer lines of links than pairs.
    """
    lines = 0
    for file in matching_files(path):
        for number, alignment in enumerate(iterate_pharaoh(file, turned, first_index), start=1):
            lines += 1
            yield f"{file}:{number}", alignment
    check_count(path, lines, corpus)


def iterate_links_inside(
    corpus: Corpus,
    path: Path,
    turned: bool,
    first_index: int,
    count: Callable[[Sequence[str], Sequence[str]], tuple[list[int], list[int]]],
) -> Iterator[GoldAlignment]:
    """Yields the links of each pair of a corpus but those that point outside its sentences; warns of these at the end.

    Args:
        corpus, path, turned, first_index: see `iterate_links`.
        count: counts the words of sources and targets.

    Raises:
        InputError: as `iterate_links`; at the end, if the words seem to be counted from 1.
    """
    outside = OutsideLinks(first_index, IN_CONFIG)
    links = iterate_links(corpus, path, turned, first_index)
    for sources, targets in zip(chunks(corpus.source), chunks(corpus.target), strict=True):
        for source_words, target_words, (place, alignment) in zip(*count(sources, targets), links, strict=False):
            yield outside.leave_out(alignment, source_words, target_words, place)
    deque(links, maxlen=0)  # checks that no line is left
    outside.report()


def check_count(path: str | Path, lines: int, corpus: Corpus) -> None:
    """Raises an `InputError` unless a file has as many lines of alignments as a corpus has pairs."""
    if lines != len(corpus):
        raise InputError(
            f"{path}: {lines} lines of alignments for the {len(corpus)} pairs of {corpus.name}; expected one per pair"
        )


class OutsideLinks:
    """Finds links outside their sentences: a few in some published files, most if words are counted otherwise.

    Args:
        first_index: the number of the first word with which the file was read, 0 or 1.
        remedy: what to do if it should have been 1.
    """

    def __init__(self, first_index: int = 0, remedy: str = FROM_0) -> None:
        self.links = self._lines = 0
        self._first = ""
        self._first_index, self._remedy = first_index, remedy
        self._seems_from_1 = first_index == 0

    def leave_out(self, alignment: GoldAlignment, source_words: int, target_words: int, place: str) -> GoldAlignment:
        """Returns the links inside a pair of so many words, and counts the others; `place` is their file and line."""
        links = alignment.possible
        inside = frozenset((i, j) for i, j in links if i < source_words and j < target_words)
        self._seems_from_1 &= all(min(link) > 0 for link in links)
        if len(inside) == len(links):
            return alignment
        self._first = self._first or f"{place}, of {source_words} and {target_words} words"
        self._lines += 1
        self.links += len(links) - len(inside)
        return GoldAlignment(alignment.sure & inside, inside)

    def report(self) -> None:
        """Warns of the links that lie outside, if any.

        Raises:
            InputError: some do, and no link has a 0, so words seem to be counted from 1.
        """
        if not self.links:
            return
        found = f"{self.links} word links on {self._lines} lines point outside their sentences"
        if self._seems_from_1:
            raise InputError(
                f"{self._first}: {found}, the first ones here, and no link has a 0; expected words counted from 0. If "
                f"they are counted from 1, {self._remedy}; otherwise remove the links that lie outside"
            )
        log.warning("%s and are left out, the first ones at %s, counted from %d", found, self._first, self._first_index)
