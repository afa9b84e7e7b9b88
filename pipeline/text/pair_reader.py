"""One reading of the training text: the ids of each pair, and everything else that must be known of it."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from ..runtime.cores import usable_cores
from ..runtime.worker_processes import in_processes
from .cleaning import digest_pairs, find_empty
from .corpus import Corpus
from .encoded import SentenceStore, smallest_type
from .encoded_pairs import EncodedPairs
from .look import LookMeter
from .overlap import SharedSentenceFinder, SharedSentences
from .subword_model import PlainModel

SHARD_PAIRS = 32_768
"""Read at once: a second or two of work."""

Sides = tuple[Sequence[str], Sequence[str]]


class EncodedShard(NamedTuple):
    """The ids of some sentences, one sentence after the other, and the number of each."""

    ids: np.ndarray
    lengths: np.ndarray


class Reading(NamedTuple):
    """What is known of some pairs once they were read.

    - sides: the ids of their sources and targets.
    - empty: see `find_empty`.
    - digests: see `digest_pairs`.
    - look: what the sources look like.
    - shared: for each other set, which of its sentences are among them.
    """

    sides: tuple[EncodedShard, EncodedShard]
    empty: np.ndarray
    digests: np.ndarray
    look: LookMeter
    shared: dict[str, SharedSentences]


class PairReader:
    """Reads pairs: encodes them, and finds what else `Reading` holds.

    Args:
        models: what encodes sources and targets.
        tokenized: whether spaces separate marks from words.
        others: the sets whose sentences are looked for.
    """

    def __init__(self, models: tuple[PlainModel, PlainModel], tokenized: bool, others: Mapping[str, Corpus]) -> None:
        self._models = models
        self._tokenized = tokenized
        self._finders = {name: SharedSentenceFinder(other.source, other.target) for name, other in others.items()}

    def __call__(self, pairs: Sides) -> Reading:
        look = LookMeter(self._tokenized)
        look.add(pairs[0])
        source, target = map(self._encode, self._models, pairs)
        shared = {name: finder.find(*pairs) for name, finder in self._finders.items()}
        return Reading((source, target), find_empty(*pairs), digest_pairs(*pairs), look, shared)

    def _encode(self, model: PlainModel, sentences: Sequence[str]) -> EncodedShard:
        rows = model.encode(sentences)
        ids = np.fromiter(chain.from_iterable(rows), smallest_type(model.vocabulary_size))
        return EncodedShard(ids, np.fromiter(map(len, rows), np.int64))


class TextFacts(NamedTuple):
    """What a reading of the whole training text found; see `Reading`."""

    empty: np.ndarray
    digests: np.ndarray
    look: LookMeter
    shared: dict[str, SharedSentences]


def read_pairs(corpus: Corpus, reader: PairReader, processes: int | None = None) -> tuple[EncodedPairs, TextFacts]:
    """Reads a corpus once, a shard at a time, and returns the encoded pairs and what was found.

    Args:
        corpus: the pairs.
        reader: what reads a shard.
        processes: how many read at the same time; by default one for each core, or none beside this one if there are
            few pairs.
    """
    if processes is None:
        processes = usable_cores() if len(corpus) > 2 * SHARD_PAIRS else 1
    readings = in_processes(reader, _shards(corpus), processes) if processes > 1 else map(reader, _shards(corpus))
    first = next(readings)
    stores = [SentenceStore(side.ids.dtype) for side in first.sides]
    empty, digests, look, shared = [], [], first.look, first.shared
    for number, reading in enumerate(chain([first], readings)):
        for store, side in zip(stores, reading.sides, strict=True):
            store.add(*side)
        empty.append(reading.empty)
        digests.append(reading.digests)
        if number:
            look.update(reading.look)
            for name, sentences in reading.shared.items():
                shared[name].update(sentences)
    source, target = (store.finish() for store in stores)
    return EncodedPairs(source, target), TextFacts(np.concatenate(empty), np.concatenate(digests), look, shared)


def _shards(corpus: Corpus) -> Iterator[Sides]:
    for first in range(0, max(len(corpus), 1), SHARD_PAIRS):
        part = slice(first, first + SHARD_PAIRS)
        yield corpus.source[part], corpus.target[part]
