"""One reading of the training text, shard by shard: the ids of each pair, and all other findings in it.

Readings are kept as files, from which a killed preparation goes on and which several runs share. The name of a folder
says which text it holds, and how it was read. Every process makes the same bytes of a file, which appears whole or not
at all, so that processes need no lock, and a file that is missing or damaged is made again.
"""

import contextlib
import hashlib
import json
import logging
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter

from ..errors import DAMAGE
from ..files.arrays import ArrayStore
from ..files.atomic import is_temporary, replaced_when_done
from ..runtime.machine import usable_cores
from ..runtime.parallel import in_processes
from .corpora.corpus import Corpus, Sides, is_large, shard_numbers, shard_of, shards
from .corpora.filters import TextFilters, digest_pairs
from .corpora.overlap import SharedSentences
from .lines.line import is_empty
from .lines.style import StyleMeter
from .tokens.encoding import EncodedPairs, SentenceStore, smallest_type
from .tokens.subword_models import SentencePieceModel

VERSION = 4  # of the files, and of everything that is computed for them: a new one makes new folders
LEFTOVER_SECONDS = 3600
log = logging.getLogger(__name__)
_SIDES = "source", "target"
_FACTS = TypeAdapter(tuple[tuple[StyleMeter, StyleMeter], dict[str, SharedSentences]])
_ARRAYS = {"empty": bool, "digests": np.uint64, "filtered": np.uint8, "near_digests": np.uint64}


class ShardData(NamedTuple):
    """Some pairs, or the whole text, as they were read.

    - sides: the ids of their sources and of their targets, one sentence after the other, and the number of each
        sentence's; nothing of the whole text, whose ids are `EncodedPairs`.
    - empty: see `find_empty`.
    - digests: see `digest_pairs`.
    - filtered: see `TextFilters.find`; all 0 where there are no filters.
    - near_digests: see `TextFilters.digest`.
    - styles: what the sources and the targets look like.
    - shared: for each other set, which of its sentences are among them.
    """

    sides: Sequence[tuple[np.ndarray, np.ndarray]]
    empty: np.ndarray
    digests: np.ndarray
    filtered: np.ndarray
    near_digests: np.ndarray
    styles: tuple[StyleMeter, StyleMeter]
    shared: dict[str, SharedSentences]


@dataclass(frozen=True)
class ShardReader:
    """Reads pairs: encodes them and finds what a `ShardData` says of them.

    Args:
        models: the encoders of sources and targets.
        tokenized: whether spaces separate marks from words.
        others: the sentences of other sets, which are looked for.
        filters: the filters of pairs by their text; None for none.
    """

    models: tuple[SentencePieceModel, SentencePieceModel]
    tokenized: bool
    others: Mapping[str, SharedSentences]
    filters: TextFilters | None = None

    def __call__(self, pairs: Sides) -> ShardData:
        styles = StyleMeter(self.tokenized), StyleMeter(self.tokenized)
        for style, sentences in zip(styles, pairs, strict=True):
            style.add(sentences)
        sides = list(map(_encode, self.models, pairs))
        shared = {name: other.met_in(*pairs) for name, other in self.others.items()}
        filtered, near_digests = np.zeros(len(pairs[0]), np.uint8), np.zeros(0, np.uint64)
        if self.filters is not None:
            filtered, near_digests = self.filters.find(*pairs), self.filters.digest(*pairs)
        return ShardData(sides, find_empty(*pairs), digest_pairs(*pairs), filtered, near_digests, styles, shared)


def _encode(model: SentencePieceModel, sentences: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    rows = model.encode(sentences)
    ids = np.fromiter(chain.from_iterable(rows), smallest_type(model.vocabulary_size))
    return ids, np.fromiter(map(len, rows), np.int64)


def find_empty(sources: Sequence[str], targets: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Returns which pairs have a side that `is_empty`."""
    pairs = zip(sources, targets, strict=True)
    return np.array([is_empty(source) or is_empty(target) for source, target in pairs], bool)


def folder_name(facts: Any) -> str:
    """Returns the name of the folder of a text from all that its readings depend on, as JSON."""
    return hashlib.sha256(json.dumps([VERSION, facts], sort_keys=True).encode()).hexdigest()[:32]


def read_pairs(
    corpus: Corpus, reader: ShardReader, processes: int | None = None, folder: Path | None = None
) -> tuple[EncodedPairs, ShardData]:
    """Reads a corpus once, a shard at a time, and returns the encoded pairs and what was found.

    Args:
        corpus: the pairs.
        reader: reads a shard.
        processes: how many read at the same time; by default one for each core, or one for few pairs.
        folder: where the readings of shards are kept; those that are there are taken from there.
    """
    if processes is None:
        processes = usable_cores() if is_large(corpus) else 1
    if folder is None:
        return gather_readings(in_processes(reader, shards(corpus), processes))
    _delete_leftovers(folder)
    files = [folder / f"{number:06d}.npz" for number in shard_numbers(corpus)]
    missing = ((file, shard_of(corpus, number)) for number, file in enumerate(files) if not file.is_file())
    deque(in_processes(partial(_make, reader), missing, processes), maxlen=0)  # for the files alone
    return gather_readings(_read_or_make(corpus, reader, number, file) for number, file in enumerate(files))


def _delete_leftovers(folder: Path) -> None:
    """Deletes what killed processes have left half-written; what another process is writing now is younger."""
    for path in folder.glob(".*.npz"):
        with contextlib.suppress(FileNotFoundError):
            if is_temporary(path.name) and time.time() - path.lstat().st_mtime > LEFTOVER_SECONDS:
                path.unlink()


def gather_readings(readings: Iterable[ShardData]) -> tuple[EncodedPairs, ShardData]:
    """Puts the readings of all parts of a text together, of which there is at least one."""
    readings = iter(readings)
    first = next(readings)
    stores = [SentenceStore(ids.dtype) for ids, _ in first.sides]
    arrays = {name: ArrayStore(kind) for name, kind in _ARRAYS.items()}
    for reading in chain([first], readings):
        for store, side in zip(stores, reading.sides, strict=True):
            store.add(*side)
        for name, array in arrays.items():
            array.add(getattr(reading, name))
        if reading is not first:
            for style, following in zip(first.styles, reading.styles, strict=True):
                style.update(following)
            for name, sentences in reading.shared.items():
                first.shared[name].update(sentences)
    source, target = (store.finish() for store in stores)
    whole: dict[str, Any] = {name: array.finish() for name, array in arrays.items()}
    return EncodedPairs(source, target), first._replace(sides=(), **whole)


def _make(reader: ShardReader, missing: tuple[Path, Sides]) -> None:
    """Reads a shard and writes the reading, so that nothing of it travels between processes."""
    file, pairs = missing
    _write(file, reader(pairs))


def _read_or_make(corpus: Corpus, reader: ShardReader, number: int, file: Path) -> ShardData:
    try:
        with file.open("rb") as content, np.load(content, allow_pickle=False) as arrays:
            return _reading(arrays)
    except DAMAGE as error:
        if not isinstance(error, FileNotFoundError):  # as where somebody has deleted it
            log.warning("%s is damaged (%s) and is made again", file, error)
    reading = reader(shard_of(corpus, number))
    _write(file, reading)
    return reading


def _write(file: Path, reading: ShardData) -> None:
    """Writes a reading; processes that write one at the same time write the same bytes."""
    arrays = {name: getattr(reading, name) for name in _ARRAYS}
    for side, (ids, lengths) in zip(_SIDES, reading.sides, strict=True):
        arrays |= {f"{side}_ids": ids, f"{side}_lengths": lengths.astype(np.int32)}
    facts = [*map(vars, reading.styles)], {name: vars(shared) for name, shared in reading.shared.items()}
    arrays["facts"] = np.frombuffer(json.dumps(facts, default=sorted).encode(), np.uint8)
    with replaced_when_done(file) as temporary, temporary.open("wb") as content:
        np.savez(content, allow_pickle=False, **arrays)


def _reading(arrays: Any) -> ShardData:
    styles, shared = _FACTS.validate_json(arrays["facts"].tobytes())
    sides = [(arrays[f"{side}_ids"], arrays[f"{side}_lengths"].astype(np.int64)) for side in _SIDES]
    return ShardData(sides, **{name: arrays[name] for name in _ARRAYS}, styles=styles, shared=shared)
