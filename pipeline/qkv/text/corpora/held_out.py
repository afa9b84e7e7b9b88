"""Validation and test sets held out from the training files, so that no sentence is in two parts of a corpus.

Pairs that share a sentence, directly or through other pairs, stay together. The sets are written into the run as files
of their own, so that they stay the same whatever becomes of the training files.
"""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...config import RunConfig
from ...config.corpus import CorpusSettings, SetSettings
from ...config.data import DataSettings
from ...errors import InputError
from ...files.atomic import write_atomically
from ...files.paths import matching_files
from ...files.run_directory import RunDirectory
from ..lines.line import tagged_lines
from ..lines.text_file import read_lines
from ..tokens.words import WordCutter, WordUnits
from .corpus import Corpus, JoinedSequence
from .filters import _digest
from .formats import _parts, _tags_of, read_corpus
from .word_links import GoldAlignment, Link, check_links, iterate_pharaoh, write_gold

LARGEST_COMPONENT = 10  # different pairs; to hold out a larger one would cost training many pairs for few sentences


Rows = npt.NDArray[np.intp]


_EMPTY = np.uint64(0)


def hold_out(corpus: Corpus, sizes: Mapping[str, int]) -> dict[str, Rows]:
    """Divides a corpus into a validation set, a test set and the training text, by its sentences alone: neither their
    order nor chance plays a part.

    Pairs that share a source or a target sentence, white space apart, form a component, and no component is in two
    parts. Large components, and those with an empty sentence, are trained on. The others are sorted by a digest of one
    of their sentences, so that pairs that are added to a corpus move few of the others; the test set is taken from the
    front and the validation set from the back, so that the size of one does not move the other. A set has each of its
    source sentences once: repeated pairs and further translations are left out of all parts.

    Args:
        corpus: all pairs.
        sizes: the number of pairs of `validation`, of `test`, or of both.

    Returns:
        The rows of each set and of `train`, ascending.

    Raises:
        InputError: a set would be empty, the sets would be more than half of the pairs, or too few can be held out.
    """
    _check_sizes(corpus, sizes)
    source, target = (_digest(side) for side in (corpus.source, corpus.target))
    numbers = [np.unique(side, return_inverse=True)[1] for side in (source, target)]
    components = find_components(*numbers)
    different = np.unique(numbers[0] * np.int64(len(corpus)) + numbers[1], return_index=True)[1]
    too_large = np.bincount(components[different], minlength=len(corpus)) > LARGEST_COMPONENT
    too_large[components[(source == _EMPTY) | (target == _EMPTY)]] = True
    rows = np.flatnonzero(~too_large[components])

    smallest = np.full(len(corpus), np.iinfo(np.uint64).max, np.uint64)
    np.minimum.at(smallest, components[rows], source[rows])
    # The smallest of many digests is small, but its last bytes are not: in their order no component comes early because
    # it is large.
    places = smallest[components[rows]].byteswap()
    rows = rows[np.lexsort((target[rows], source[rows], places))]
    rows = rows[np.diff(source[rows], prepend=source[rows[:1]] + 1) != 0]  # the first pair of each source sentence

    sets: dict[str, Rows] = {}
    is_free = np.ones(len(corpus), bool)  # by the component's number
    for name in sorted(sizes):
        free = rows[is_free[components[rows]]][:: 1 if name == "test" else -1]
        if len(free) < sizes[name]:
            raise InputError(
                f"{corpus.name}: of {len(corpus):,} pairs only {len(free):,} can be held out as data.{name}, expected "
                f"{sizes[name]:,}; the others share a sentence with too many pairs or with the other set, or are empty "
                "on one side: ask for fewer, or give the set files of its own"
            )
        sets[name] = np.sort(free[: sizes[name]])
        is_free[components[sets[name]]] = False
    return {**sets, "train": np.flatnonzero(is_free[components])}


def _check_sizes(corpus: Corpus, sizes: Mapping[str, int]) -> None:
    for name, size in sizes.items():
        if size < 1:
            raise InputError(
                f"data.{name}.share: the share of the {len(corpus):,} pairs of {corpus.name} is less than one pair; "
                "expected some hundred pairs: raise the share"
            )
    wanted = sum(sizes.values())
    if 2 * wanted > len(corpus):
        raise InputError(
            f"{corpus.name}: {' and '.join(f'data.{name}' for name in sizes)} would hold out {wanted:,} of "
            f"{len(corpus):,} pairs; expected at most half of them, so that enough is left to train on: ask for fewer"
        )


def find_components(*sides: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    """Finds the connected components of pairs: two pairs are connected if they have the same sentence on one side.

    Args:
        sides: for each side int `(pairs,)`, a number from 0 for each sentence; equal sentences have equal numbers.

    Returns:
        int `(pairs,)`, for each pair the index of the first pair of its component.
    """
    # Every pair follows a leader. In each round it takes the smallest leader among the pairs with one of its sentences,
    # and takes its former leader along (Zhang, Azad and Hu 2020), so that long chains need few rounds.
    leaders = np.arange(len(sides[0]), dtype=np.int64)
    while True:
        smallest = leaders
        for numbers in sides:
            of_sentence = np.full(int(numbers.max(initial=-1)) + 1, len(leaders), np.int64)
            np.minimum.at(of_sentence, numbers, smallest)
            smallest = of_sentence[numbers]
        if np.array_equal(smallest, leaders):
            return leaders
        followed = smallest.copy()
        np.minimum.at(followed, leaders, smallest)
        leaders = followed[followed]


FEW_PAIRS = 100


log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainingPairs:
    """The pairs to train on.

    Args:
        corpora: the sections of the config that name the training files.
        files: all pairs of these files.
        rows: the pairs that are trained on, ascending; None: all.
    """

    corpora: Sequence[CorpusSettings]
    files: Corpus
    rows: Rows | None = None

    def read_corpus(self) -> Corpus:
        """Returns the pairs that are trained on."""
        return self.files if self.rows is None else self.files.select(self.rows)

    def check_links(self, cutter: WordCutter, units: WordUnits) -> None:
        """Checks the word links of all pairs, which count words in these units; see `check_links`."""
        count = partial(cutter.count, units=units)
        for part, corpus in zip(_parts(self.files, self.corpora), self.corpora, strict=True):
            assert corpus.alignments is not None  # the config has been checked
            links = _read_placed_links([corpus])
            check_links(part, links, count, corpus.alignments)

    def read_links(self) -> Iterator[Collection[Link]]:
        """Yields the word links of each pair that is trained on."""
        is_trained_on = np.ones(len(self.files), bool)
        if self.rows is not None:
            is_trained_on[:] = False
            is_trained_on[self.rows] = True
        return (one.possible for one in compress(_read_links(self.corpora), is_trained_on))


def hold_out_sets(config: RunConfig, run: RunDirectory) -> tuple[TrainingPairs, dict[str, Any]]:
    """Reads the training files, and writes the sets that are held out from them, if any, into the run.

    Returns:
        The pairs to train on; and for each set, and for the pairs that are `left_out` of all, the number of pairs and
        their lines in the training files.

    Raises:
        InputError: as `read_corpus` and `hold_out`, or there are more or fewer lines of alignments than pairs.
    """
    corpora, sets = config.data.training_corpora, config.data.held_out
    files = read_corpus(config.data.training_text)
    if not sets:
        return TrainingPairs(corpora, files), {}
    parts = hold_out(files, {name: section.held_out_pairs(len(files)) for name, section in sets.items()})
    data = with_held_out_files(config, run).data
    for name in sets:
        if config.data.listed_corpora:
            _write_set_of_list(files, parts[name], config.data, getattr(data, name))
        else:
            _write_set(files, parts[name], corpora[0].alignments, getattr(data, name))
        if len(parts[name]) < FEW_PAIRS:
            log.warning(
                "data.%s has %d pairs; scores of so few say little, some hundred are better", name, len(parts[name])
            )
    training = TrainingPairs(corpora, files, parts.pop("train"))
    everywhere = np.concatenate([training.rows, *parts.values()])
    parts["left_out"] = np.setdiff1d(np.arange(len(files)), everywhere, assume_unique=True)
    log.info(
        "held out from %s: %s; left out, since they share sentences with those: %d",
        files.name,
        ", ".join(f"{len(parts[name])} pairs for {name}" for name in sets),
        len(parts["left_out"]),
    )
    return training, {
        name: {"pairs": len(rows), "lines": [files.shown_line(row) for row in rows.tolist()]}
        for name, rows in parts.items()
    }


def with_held_out_files(config: RunConfig, run: RunDirectory) -> RunConfig:
    """Returns the config with the run's own files as the sets that are held out."""
    sets = config.data.held_out
    if not sets:
        return config
    data, first = config.data, config.data.training_corpora[0]
    turned = first.alignments_turned and not data.listed_corpora
    files = {
        name: SetSettings(
            source=run.held_out / f"{name}.source",
            target=run.held_out / f"{name}.target",
            alignments=run.held_out / f"{name}.alignments" if data.has_word_links else None,
            alignments_turned=turned,
        )
        for name in sets
    }
    return config.model_copy(update={"data": data.model_copy(update=files)})


def _write_set(files: Corpus, rows: Rows, alignments: Path | None, settings: CorpusSettings) -> None:
    pairs = files.select(rows)
    sides = [(settings.source, pairs.source), (settings.target, pairs.target)]
    if alignments is not None:
        links = JoinedSequence([read_lines(path) for path in matching_files(alignments)])
        if len(links) != len(files):
            raise InputError(
                f"{alignments}: {len(links):,} lines of alignments for the {len(files):,} pairs of {files.name}; "
                "expected one per pair"
            )
        sides.append((settings.alignments, [links[row] for row in rows.tolist()]))
    for path, lines in sides:
        assert path is not None  # `with_held_out_files` names it
        write_atomically(path, "".join(f"{line}\n" for line in lines).encode())


def _write_set_of_list(files: Corpus, rows: Rows, data: DataSettings, settings: CorpusSettings) -> None:
    """Writes a set whose sources have the tags of their corpora before them, as text.

    The tag is then word 0, or several words where characters count as words.
    """
    pairs, tags = files.select(rows), _tags_of(files, data.listed_corpora)
    own = [tags[row] for row in rows.tolist()]
    for path, lines in ((settings.source, tagged_lines(pairs.source, own)), (settings.target, pairs.target)):
        assert path is not None  # `with_held_out_files` names it
        write_atomically(path, "".join(f"{line}\n" for line in lines).encode())
    if settings.alignments is not None:
        by_characters = data.words.source == "characters"
        added = [0 if tag is None else len(tag) if by_characters else 1 for tag in own]
        chosen = dict(zip(rows.tolist(), added, strict=True))
        links = enumerate(_read_links(data.listed_corpora))
        write_gold(settings.alignments, [one.moved(chosen[row]) for row, one in links if row in chosen])


def _read_links(corpora: Sequence[CorpusSettings]) -> Iterator[GoldAlignment]:
    return (alignment for _, alignment in _read_placed_links(corpora))


def _read_placed_links(corpora: Sequence[CorpusSettings]) -> Iterator[tuple[str, GoldAlignment]]:
    """Yields the links of all pairs, each with its file and line."""
    for corpus in corpora:
        for files in corpus.shards():
            path = files["alignments"]
            alignments = iterate_pharaoh(path, turned=corpus.alignments_turned)
            yield from ((f"{path}:{line}", alignment) for line, alignment in enumerate(alignments, 1))
