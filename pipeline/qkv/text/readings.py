"""What is known of some pairs once they were read, and of all of them."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ..files.arrays import ArrayStore
from .encoded import SentenceStore
from .encoded_pairs import EncodedPairs
from .look import LookMeter
from .overlap import SharedSentences


class EncodedShard(NamedTuple):
    """The ids of some sentences, one sentence after the other, and the number of each."""

    ids: np.ndarray
    lengths: np.ndarray


class Reading(NamedTuple):
    """What is known of some pairs once they were read.

    - sides: the ids of their sources and targets.
    - empty: see `find_empty`.
    - digests: see `digest_pairs`.
    - filtered: see `TextFilters.find`; all 0 where there are no filters.
    - near_digests: see `TextFilters.digest`.
    - looks: what the sources and the targets look like.
    - shared: for each other set, which of its sentences are among them.
    """

    sides: tuple[EncodedShard, EncodedShard]
    empty: np.ndarray
    digests: np.ndarray
    filtered: np.ndarray
    near_digests: np.ndarray
    looks: tuple[LookMeter, LookMeter]
    shared: dict[str, SharedSentences]


class TextFacts(NamedTuple):
    """What a reading of the whole training text found; see `Reading`."""

    empty: np.ndarray
    digests: np.ndarray
    filtered: np.ndarray
    near_digests: np.ndarray
    looks: tuple[LookMeter, LookMeter]
    shared: dict[str, SharedSentences]


def gather_readings(readings: Iterable[Reading]) -> tuple[EncodedPairs, TextFacts]:
    """Puts the readings of all parts of a text together, of which there is at least one."""
    stores: list[SentenceStore] = []
    arrays = [ArrayStore(kind) for kind in (bool, np.uint64, np.uint8, np.uint64)]
    looks: tuple[LookMeter, LookMeter] | None = None
    shared: dict[str, SharedSentences] = {}
    for reading in readings:
        stores = stores or [SentenceStore(side.ids.dtype) for side in reading.sides]
        for store, side in zip(stores, reading.sides, strict=True):
            store.add(*side)
        parts = (reading.empty, reading.digests, reading.filtered, reading.near_digests)
        for array, part in zip(arrays, parts, strict=True):
            array.add(part)
        if looks is None:
            looks, shared = reading.looks, reading.shared
            continue
        for look, following in zip(looks, reading.looks, strict=True):
            look.update(following)
        for name, sentences in reading.shared.items():
            shared[name].update(sentences)
    assert looks is not None
    source, target = (store.finish() for store in stores)
    empty, digests, filtered, near_digests = (array.finish() for array in arrays)
    return EncodedPairs(source, target), TextFacts(empty, digests, filtered, near_digests, looks, shared)
