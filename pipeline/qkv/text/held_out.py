"""Holds out validation and test sets from a corpus so that no sentence is in two of its parts."""

from collections.abc import Iterable, Mapping
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from .components import find_components
from .corpus import Corpus

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


def _digest(sentences: Iterable[str]) -> npt.NDArray[np.uint64]:
    """Computes a number for each sentence. 64 bits suffice: among 100 million sentences the chance that any two share
    one is 1 in 3,700."""
    bare = (" ".join(sentence.split()).encode() for sentence in sentences)
    numbers = (int.from_bytes(blake2b(text, digest_size=8).digest()) if text else 0 for text in bare)
    return np.fromiter(numbers, np.uint64)


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
