"""One reading of the training text: the ids of each pair, and everything else that must be known of it."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import numpy as np

from ..runtime.machine import usable_cores
from ..runtime.parallel import in_processes
from .cleaning import digest_pairs, find_empty
from .corpus import Corpus
from .encoded import smallest_type
from .encoded_pairs import EncodedPairs
from .filters import TextFilters
from .look import LookMeter
from .overlap import SharedSentenceFinder
from .readings import EncodedShard, Reading, TextFacts, gather_readings
from .shard_files import ShardFiles
from .subword_model import PlainModel

SHARD_PAIRS = 16_384
"""Read at once: half a second or more of work, and few enough that what is under way takes little memory."""

Sides = tuple[Sequence[str], Sequence[str]]


class PairReader:
    """Reads pairs: encodes them, and finds what else `Reading` holds.

    Args:
        models: what encodes sources and targets.
        tokenized: whether spaces separate marks from words.
        others: the sets whose sentences are looked for.
        filters: what judges pairs by their text; None: nothing.
    """

    def __init__(
        self,
        models: tuple[PlainModel, PlainModel],
        tokenized: bool,
        others: Mapping[str, Corpus],
        filters: TextFilters | None = None,
    ) -> None:
        self._models = models
        self._tokenized = tokenized
        self._filters = filters
        self._finders = {name: SharedSentenceFinder(other.source, other.target) for name, other in others.items()}

    def __call__(self, pairs: Sides) -> Reading:
        looks = LookMeter(self._tokenized), LookMeter(self._tokenized)
        for look, sentences in zip(looks, pairs, strict=True):
            look.add(sentences)
        source, target = map(self._encode, self._models, pairs)
        shared = {name: finder.find(*pairs) for name, finder in self._finders.items()}
        filtered, near_digests = np.zeros(len(pairs[0]), np.uint8), np.zeros(0, np.uint64)
        if self._filters is not None:
            filtered, near_digests = self._filters.find(*pairs), self._filters.digest(*pairs)
        return Reading(
            (source, target), find_empty(*pairs), digest_pairs(*pairs), filtered, near_digests, looks, shared
        )

    def _encode(self, model: PlainModel, sentences: Sequence[str]) -> EncodedShard:
        rows = model.encode(sentences)
        ids = np.fromiter(chain.from_iterable(rows), smallest_type(model.vocabulary_size))
        return EncodedShard(ids, np.fromiter(map(len, rows), np.int64))


def read_pairs(
    corpus: Corpus, reader: PairReader, processes: int | None = None, files: ShardFiles | None = None
) -> tuple[EncodedPairs, TextFacts]:
    """Reads a corpus once, a shard at a time, and returns the encoded pairs and what was found.

    Args:
        corpus: the pairs.
        reader: what reads a shard.
        processes: how many read at the same time; by default one for each core, or none beside this one if there are
            few pairs.
        files: where the readings of shards are kept; those that are there are taken from there.
    """
    if processes is None:
        processes = usable_cores() if is_large(corpus) else 1
    if files is None:
        parts = shards(corpus)
        return gather_readings(in_processes(reader, parts, processes) if processes > 1 else map(reader, parts))
    files.delete_leftovers()
    missing = ((number, _shard(corpus, number)) for number in _numbers(corpus) if not files.has(number))
    write = _ShardWriter(reader, files)
    for _ in in_processes(write, missing, processes) if processes > 1 else map(write, missing):
        pass
    return gather_readings(_read_or_make(corpus, reader, files, number) for number in _numbers(corpus))


def is_large(corpus: Corpus) -> bool:
    """Returns whether a corpus has more than a few shards."""
    return len(corpus) > 2 * SHARD_PAIRS


def shards(corpus: Corpus) -> Iterator[Sides]:
    """Yields the shards of a corpus, at least one."""
    return (_shard(corpus, number) for number in _numbers(corpus))


class _ShardWriter:
    """Reads a shard and writes what is known of it, so that nothing of it travels between processes."""

    def __init__(self, reader: PairReader, files: ShardFiles) -> None:
        self._reader, self._files = reader, files

    def __call__(self, numbered: tuple[int, Sides]) -> None:
        number, pairs = numbered
        self._files.write(number, self._reader(pairs))


def _read_or_make(corpus: Corpus, reader: PairReader, files: ShardFiles, number: int) -> Reading:
    reading = files.read(number)
    if reading is None:  # somebody has deleted it, or it is damaged
        reading = reader(_shard(corpus, number))
        files.write(number, reading)
    return reading


def _numbers(corpus: Corpus) -> range:
    return range(max(1, -(-len(corpus) // SHARD_PAIRS)))


def _shard(corpus: Corpus, number: int) -> Sides:
    part = slice(number * SHARD_PAIRS, (number + 1) * SHARD_PAIRS)
    return corpus.source[part], corpus.target[part]
