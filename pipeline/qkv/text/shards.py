"""Reads the training text in one pass, shard by shard: encodes the pairs and computes digests, filters and statistics.

The data of shards is kept in files. A preparation that was killed continues from them, and several runs can share them.
The name of their folder is a digest of the text and of everything else that the data depends on. All processes write
the same bytes into a file, and it appears whole or not at all, so they need no lock. A file that is missing or damaged
is written again.
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

VERSION = 4  # of the files and of everything that is computed for them; a new version leads to new folders
LEFTOVER_SECONDS = 3600  # a temporary file that has not changed for this long was left by a killed process
log = logging.getLogger(__name__)
_SIDES = "source", "target"
_STATISTICS = TypeAdapter(tuple[tuple[StyleMeter, StyleMeter], dict[str, SharedSentences]])
_ARRAYS = {"empty": bool, "digests": np.uint64, "filtered": np.uint8, "near_digests": np.uint64}


class ShardData(NamedTuple):
    """The result of reading a shard, or the whole text: ids, digests and statistics.

    - sides: for sources and for targets `(ids, lengths)`: the ids of all sentences, one sentence after the other, and
        the number of ids of each sentence, int64 `(pairs,)`. Empty for the whole text, whose ids are `EncodedPairs`.
    - empty: True for pairs with an empty side, bool `(pairs,)`; see `find_empty`.
    - digests: a digest of each pair, uint64 `(pairs,)`; see `text.corpora.filters.digest_pairs`.
    - filtered: the reason of each filtered pair, uint8 `(pairs,)`; see `text.corpora.filters.TextFilters.find`. All 0
        if there are no filters.
    - near_digests: see `text.corpora.filters.TextFilters.digest`.
    - styles: the surface styles of the sources and of the targets.
    - shared: by the name of a validation or test set, its sentences that are in the text, too.
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
    """Reads shards: a call with `(sources, targets)` returns their `ShardData`.

    Args:
        models: the subword models of sources and targets.
        tokenized: whether the text has spaces between words and punctuation.
        sets: the sentences of the validation and test sets, by the name of the set. They are searched for in the text.
        filters: the filters of pairs by their text; None if there are none.
    """

    models: tuple[SentencePieceModel, SentencePieceModel]
    tokenized: bool
    sets: Mapping[str, SharedSentences]
    filters: TextFilters | None = None

    def __call__(self, pairs: Sides) -> ShardData:
        styles = StyleMeter(self.tokenized), StyleMeter(self.tokenized)
        for style, sentences in zip(styles, pairs, strict=True):
            style.add(sentences)
        sides = list(map(_encode, self.models, pairs))
        shared = {name: sentences.shared_with(*pairs) for name, sentences in self.sets.items()}
        filtered, near_digests = np.zeros(len(pairs[0]), np.uint8), np.zeros(0, np.uint64)
        if self.filters is not None:
            filtered, near_digests = self.filters.find(*pairs), self.filters.digest(*pairs)
        return ShardData(sides, find_empty(*pairs), digest_pairs(*pairs), filtered, near_digests, styles, shared)


def _encode(model: SentencePieceModel, sentences: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the ids of all sentences, one sentence after the other, and the number of ids of each sentence."""
    rows = model.encode(sentences)
    ids = np.fromiter(chain.from_iterable(rows), smallest_type(model.vocabulary_size))
    return ids, np.fromiter(map(len, rows), np.int64)


def find_empty(sources: Sequence[str], targets: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Returns bool `(pairs,)`: True for pairs with a side that `text.lines.line.is_empty`."""
    pairs = zip(sources, targets, strict=True)
    return np.array([is_empty(source) or is_empty(target) for source, target in pairs], bool)


def folder_name(inputs: Any) -> str:
    """Returns the name of a folder for the data of a text's shards: a digest of 32 hexadecimal digits.

    Args:
        inputs: everything that the data depends on, as values that JSON can hold.
    """
    return hashlib.sha256(json.dumps([VERSION, inputs], sort_keys=True).encode()).hexdigest()[:32]


def read_pairs(
    corpus: Corpus, reader: ShardReader, processes: int | None = None, folder: Path | None = None
) -> tuple[EncodedPairs, ShardData]:
    """Reads a corpus in one pass, a shard at a time.

    Args:
        corpus: the pairs.
        reader: reads a shard.
        processes: the number of processes that read shards. None: one for each core, or one for a small corpus.
        folder: the folder for the data of shards. Data that is there already is not computed again. None: no files are
            written.

    Returns:
        The encoded pairs, and the data of the whole text.
    """
    if processes is None:
        processes = usable_cores() if is_large(corpus) else 1
    if folder is None:
        return join_shards(in_processes(reader, shards(corpus), processes))
    _delete_leftovers(folder)
    files = [folder / f"{number:06d}.npz" for number in shard_numbers(corpus)]
    missing = ((file, shard_of(corpus, number)) for number, file in enumerate(files) if not file.is_file())
    deque(in_processes(partial(_read_shard_to_file, reader), missing, processes), maxlen=0)  # runs to the end
    return join_shards(_load_or_read(corpus, reader, number, file) for number, file in enumerate(files))


def _delete_leftovers(folder: Path) -> None:
    """Deletes the temporary files in a folder of shards that killed processes left behind.

    Files that changed in the last `LEFTOVER_SECONDS` stay: another process may be writing them.
    """
    for path in folder.glob(".*.npz"):
        with contextlib.suppress(FileNotFoundError):
            if is_temporary(path.name) and time.time() - path.lstat().st_mtime > LEFTOVER_SECONDS:
                path.unlink()


def join_shards(shard_data: Iterable[ShardData]) -> tuple[EncodedPairs, ShardData]:
    """Joins the data of all shards of a text, at least one. The data of the first shard is changed in place.

    Returns:
        The encoded pairs, and the data of the whole text.
    """
    remaining = iter(shard_data)
    first = next(remaining)
    stores = [SentenceStore(ids.dtype) for ids, _ in first.sides]
    arrays = {name: ArrayStore(kind) for name, kind in _ARRAYS.items()}
    for data in chain([first], remaining):
        for store, side in zip(stores, data.sides, strict=True):
            store.add(*side)
        for name, array in arrays.items():
            array.add(getattr(data, name))
        if data is not first:
            for style, style_of_shard in zip(first.styles, data.styles, strict=True):
                style.update(style_of_shard)
            for name, sentences in data.shared.items():
                first.shared[name].update(sentences)
    source, target = (store.finish() for store in stores)
    whole: dict[str, Any] = {name: array.finish() for name, array in arrays.items()}
    return EncodedPairs(source, target), first._replace(sides=(), **whole)


def _read_shard_to_file(reader: ShardReader, missing: tuple[Path, Sides]) -> None:
    """Reads a shard and writes its data into a file, so that the data need not be sent to another process.

    Args:
        reader: reads the shard.
        missing: the file to write, and the sentences of the shard.
    """
    file, pairs = missing
    _save(file, reader(pairs))


def _load_or_read(corpus: Corpus, reader: ShardReader, number: int, file: Path) -> ShardData:
    """Returns the data of shard `number` from its file.

    If the file is missing or damaged, the shard is read from the corpus and the file is written.
    """
    try:
        with file.open("rb") as content, np.load(content, allow_pickle=False) as arrays:
            return _load(arrays)
    except DAMAGE as error:
        if not isinstance(error, FileNotFoundError):  # another process may have deleted the file
            log.warning("%s is damaged (%s) and is made again", file, error)
    data = reader(shard_of(corpus, number))
    _save(file, data)
    return data


def _save(file: Path, data: ShardData) -> None:
    """Writes the data of a shard. Processes that write the same shard at the same time write the same bytes."""
    arrays = {name: getattr(data, name) for name in _ARRAYS}
    for side, (ids, lengths) in zip(_SIDES, data.sides, strict=True):
        arrays |= {f"{side}_ids": ids, f"{side}_lengths": lengths.astype(np.int32)}
    statistics = [*map(vars, data.styles)], {name: vars(shared) for name, shared in data.shared.items()}
    arrays["facts"] = np.frombuffer(json.dumps(statistics, default=sorted).encode(), np.uint8)
    with replaced_when_done(file) as temporary, temporary.open("wb") as content:
        np.savez(content, allow_pickle=False, **arrays)


def _load(arrays: Any) -> ShardData:
    """Returns the data of a shard from the arrays of its file; raises one of `errors.DAMAGE` if they are wrong."""
    styles, shared = _STATISTICS.validate_json(arrays["facts"].tobytes())
    sides = [(arrays[f"{side}_ids"], arrays[f"{side}_lengths"].astype(np.int64)) for side in _SIDES]
    return ShardData(sides, **{name: arrays[name] for name in _ARRAYS}, styles=styles, shared=shared)
