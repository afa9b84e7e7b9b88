"""Holds out validation and test sets from the training files, so that no sentence is in two parts of a corpus.

Pairs that share a sentence, directly or through other pairs, stay together. The sets are written into the run, so they
stay the same if the training files change.
"""

import logging
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
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
LARGEST_COMPONENT = 10
"""The number of different pairs in a component up to which it may be held out. A larger one would take many pairs from
training and add few sentences to a set."""

Rows = npt.NDArray[np.intp]
_EMPTY = np.uint64(0)
log = logging.getLogger(__name__)


def hold_out_sets(config: RunConfig, files: Corpus, run: RunDirectory) -> tuple[Rows | None, dict[str, Any]]:
    """Holds out the sets that the config asks for, and writes them into the run.

    Args:
        config: the settings.
        files: the pairs of the training files.
        run: the run.

    Returns:
        `(rows, report)`. `rows` are the rows of the pairs to train on, in ascending order; None for all pairs. `report`
        is a part of the corpus report: by the name of a set its number of `pairs` and their `lines` in the training
        files. Its key `left_out` has the pairs that are neither in a set nor trained on. It is empty if no set is held
        out.

    Raises:
        InputError: see `hold_out`; or the numbers of pairs and of lines with alignments differ.
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
    rows_in_parts = np.concatenate([rows, *parts.values()])
    parts["left_out"] = np.setdiff1d(np.arange(len(files)), rows_in_parts, assume_unique=True)
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
    """Returns a copy of the config in which held-out sets are read from their files in the run's folder.

    `data.validation` and `data.test` name these files. A set that is not held out keeps its files, unless the run has
    files of it as well, as the run in the package has.
    """
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
    for name in {"validation", "test"} - files.keys():
        settings = getattr(data, name)
        paths = {side: run.held_out / f"{name}.{side}" for side in ("source", "target", "alignments")}
        if settings is not None and paths["source"].is_file():
            files[name] = settings.model_copy(update={side: path for side, path in paths.items() if path.is_file()})
    return config.model_copy(update={"data": data.model_copy(update=files)})


def _write_set(files: Corpus, rows: Rows, data: DataSettings, settings: CorpusSettings) -> None:
    """Writes the text and the alignments of a set.

    The tag of a pair becomes text: it is the first word of the source or, if words are characters, several words. The
    source words in links are numbered accordingly.

    Args:
        files: the pairs of the training files.
        rows: the rows of the set's pairs.
        data: the settings of the text, with the sets' files in the run.
        settings: the settings of the set, with its files in the run.
    """
    pairs = files.select(rows)
    all_tags = tags_of(files, data.listed_corpora) if data.listed_corpora else [None] * len(files)
    tags = {row: all_tags[row] for row in rows.tolist()}
    assert settings.source is not None and settings.target is not None  # set by `with_held_out_files`
    _write_lines(settings.source, tagged_lines(pairs.source, tags.values()))
    _write_lines(settings.target, pairs.target)
    if settings.alignments is not None:
        by_characters = data.words.source == "characters"
        words_of_tag = {row: 0 if tag is None else len(tag) if by_characters else 1 for row, tag in tags.items()}
        parts = linked_parts_of(files, data.training_corpora)
        links = enumerate(chain.from_iterable(iterate_links(*part) for part in parts))
        chosen = (gold.shifted(words_of_tag[row]) for row, (_, gold) in links if row in words_of_tag)
        write_gold(settings.alignments, (gold.turned if settings.alignments_turned else gold for gold in chosen))


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    """Writes lines as UTF-8. The file appears whole or not at all."""
    write_atomically(path, "".join(f"{line}\n" for line in lines).encode())


def hold_out(corpus: Corpus, sizes: Mapping[str, int]) -> dict[str, Rows]:
    """Divides a corpus into a validation set, a test set and a training part.

    Pairs that share a source or a target sentence, apart from white space, form a component. No component is in two
    parts. Components of more than `LARGEST_COMPONENT` different pairs, and those with an empty sentence, go to the
    training part. The remaining components are sorted by a digest of one sentence of each, so pairs that are added to
    the corpus move few other pairs. The test set is taken from the front and the validation set from the back, so the
    size of one does not change the other. A set contains each source sentence once; the repeated pairs and further
    translations of that sentence are in no part.

    Args:
        corpus: all pairs.
        sizes: the number of pairs of each set. The keys are `validation`, `test` or both.

    Returns:
        The rows of each set and of `train`, in ascending order.

    Raises:
        InputError: a set would be empty, the sets would be more than half of the corpus, or too few pairs can be held
            out.
    """
    for name, size in sizes.items():
        if size < 1:
            raise InputError(
                f"data.{name}.share: the share of the {len(corpus):,} pairs of {corpus.name} is less than one pair; "
                "raise the share"
            )
    pairs_to_hold_out = sum(sizes.values())
    if 2 * pairs_to_hold_out > len(corpus):
        raise InputError(
            f"{corpus.name}: {' and '.join(f'data.{name}' for name in sizes)} would hold out {pairs_to_hold_out:,} of "
            f"{len(corpus):,} pairs; expected at most half of them, so that enough is left to train on: ask for fewer"
        )
    source = digest_sentences(corpus.source)
    target = digest_sentences(corpus.target)
    source_numbers = np.unique(source, return_inverse=True)[1]
    target_numbers = np.unique(target, return_inverse=True)[1]
    components = find_components(source_numbers, target_numbers)
    different = np.unique(source_numbers * np.int64(len(corpus)) + target_numbers, return_index=True)[1]
    too_large = np.bincount(components[different], minlength=len(corpus)) > LARGEST_COMPONENT
    too_large[components[(source == _EMPTY) | (target == _EMPTY)]] = True
    rows = np.flatnonzero(~too_large[components])

    smallest = np.full(len(corpus), np.iinfo(np.uint64).max, np.uint64)
    np.minimum.at(smallest, components[rows], source[rows])
    # The minimum of many digests is small, so a large component would come early. Its last bytes are uniformly
    # distributed: they come first after the swap.
    sort_keys = smallest[components[rows]].byteswap()
    rows = rows[np.lexsort((target[rows], source[rows], sort_keys))]
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
    """Finds the connected components of pairs. Two pairs are connected if they have the same sentence on one side.

    Args:
        sides: for each side the number of each sentence, int `(pairs,)`, from 0. Equal sentences have equal numbers.

    Returns:
        For each pair the index of the first pair of its component, int64 `(pairs,)`.
    """
    # Each pair has a leader, at first itself. In each round a pair and its former leader get the smallest leader of all
    # pairs that share one of its sentences, so that long chains need few rounds (Zhang, Azad and Hu 2020).
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
