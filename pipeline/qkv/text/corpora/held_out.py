"""Validation and test sets held out from the training files, so that no sentence is in two parts of a corpus.

Pairs that share a sentence, directly or through other pairs, stay together. The sets are written into the run as files
of their own, so that they stay the same whatever becomes of the training files.
"""

import logging
from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from ...config import RunConfig
from ...config.corpus import CorpusSettings, SetSettings
from ...config.data import DataSettings
from ...errors import InputError
from ...files.atomic import write_atomically
from ...files.run_directory import RunDirectory
from ..lines.line import tagged_lines
from .corpus import Corpus
from .filters import digest_sentences
from .formats import linked_parts_of, tags_of
from .word_links import iterate_links, write_gold

FEW_PAIRS = 100
LARGEST_COMPONENT = 10  # different pairs; to hold out a larger one would cost training many pairs for few sentences
Rows = npt.NDArray[np.intp]
_EMPTY = np.uint64(0)
log = logging.getLogger(__name__)


def hold_out_sets(config: RunConfig, files: Corpus, run: RunDirectory) -> tuple[Rows | None, dict[str, Any]]:
    """Writes the sets that are held out from the training files, if any, into the run.

    Returns:
        The rows of the pairs to train on, ascending, None for all; and for each set, and for the pairs that are
        `left_out` of all, the number of pairs and their lines in the training files.

    Raises:
        InputError: as `hold_out`, or there are more or fewer lines of alignments than pairs.
    """
    sets = config.data.held_out
    if not sets:
        return None, {}
    parts = hold_out(files, {name: section.held_out_pairs(len(files)) for name, section in sets.items()})
    data = with_held_out_files(config, run).data
    for name in sets:
        _write_set(files, parts[name], data, getattr(data, name))
        if len(parts[name]) < FEW_PAIRS:
            log.warning("data.%s has %d pairs; scores of so few say little: take some hundred", name, len(parts[name]))
    rows = parts.pop("train")
    everywhere = np.concatenate([rows, *parts.values()])
    parts["left_out"] = np.setdiff1d(np.arange(len(files)), everywhere, assume_unique=True)
    log.info(
        "held out from %s: %s; left out, since they share sentences with those: %d",
        files.name,
        ", ".join(f"{len(parts[name])} pairs for {name}" for name in sets),
        len(parts["left_out"]),
    )
    return rows, {
        name: {"pairs": len(rows), "lines": [files.shown_line(row) for row in rows.tolist()]}
        for name, rows in parts.items()
    }


def with_held_out_files(config: RunConfig, run: RunDirectory) -> RunConfig:
    """Returns the config with the run's own files as the sets that are held out."""
    data = config.data
    # The links of a list, whose files may differ in their direction, are written from source to target.
    turned = not data.listed_corpora and any(corpus.alignments_turned for corpus in data.training_corpora)
    files = {
        name: SetSettings(
            source=run.held_out / f"{name}.source",
            target=run.held_out / f"{name}.target",
            alignments=run.held_out / f"{name}.alignments" if data.has_word_links else None,
            alignments_turned=turned,
        )
        for name in data.held_out
    }
    return config.model_copy(update={"data": data.model_copy(update=files)})


def _write_set(files: Corpus, rows: Rows, data: DataSettings, settings: CorpusSettings) -> None:
    """Writes a set, with the tags of its corpora as text: word 0 of sources, or several words of characters."""
    pairs = files.select(rows)
    corpora = data.training_corpora
    tags = tags_of(files, data.listed_corpora) if data.listed_corpora else [None] * len(files)
    own = {row: tags[row] for row in rows.tolist()}
    for path, lines in ((settings.source, tagged_lines(pairs.source, own.values())), (settings.target, pairs.target)):
        assert path is not None  # `with_held_out_files` names it
        write_atomically(path, "".join(f"{line}\n" for line in lines).encode())
    if settings.alignments is not None:
        by_characters = data.words.source == "characters"
        added = {row: 0 if tag is None else len(tag) if by_characters else 1 for row, tag in own.items()}
        links = enumerate(chain.from_iterable(iterate_links(*part) for part in linked_parts_of(files, corpora)))
        chosen = (one.moved(added[row]) for row, (_, one) in links if row in added)
        write_gold(settings.alignments, (one.turned if settings.alignments_turned else one for one in chosen))


def hold_out(corpus: Corpus, sizes: Mapping[str, int]) -> dict[str, Rows]:
    """Divides a corpus into validation, test and training text by its sentences, not by order or chance.

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
    for name, size in sizes.items():
        if size < 1:
            raise InputError(
                f"data.{name}.share: the share of the {len(corpus):,} pairs of {corpus.name} is less than one pair; "
                "raise the share"
            )
    wanted = sum(sizes.values())
    if 2 * wanted > len(corpus):
        raise InputError(
            f"{corpus.name}: {' and '.join(f'data.{name}' for name in sizes)} would hold out {wanted:,} of "
            f"{len(corpus):,} pairs; expected at most half of them, so that enough is left to train on: ask for fewer"
        )
    source, target = (digest_sentences(side) for side in (corpus.source, corpus.target))
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
