"""Encoded sentences on disk, memory-mapped, so that memory stays flat however large the corpus is."""

from collections.abc import Iterable, Iterator, Sequence, Sized
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..errors import DAMAGE, InputError
from ..files.arrays import ArrayStore, map_array
from ..files.atomic import replaced_when_done
from .tokenizer import Tokenizer

CHUNK_SENTENCES = 10_000
CHUNK_STARTS = 1 << 17


class EncodedSentences:
    """Sentences as ids, without BOS and EOS: one flat array of ids and the index at which each sentence starts.

    Args:
        ids: uint16 or int32, `(tokens of all sentences,)`.
        starts: int64 `(sentences + 1,)`.
    """

    def __init__(self, ids: np.ndarray, starts: np.ndarray) -> None:
        self.ids = ids.view(np.ndarray)  # a part of a mapped file takes three times as long to make
        self.starts = starts.view(np.ndarray)

    def __len__(self) -> int:
        return len(self.starts) - 1

    @cached_property
    def lengths(self) -> np.ndarray:
        """The number of ids of each sentence, int32 `(sentences,)`, in memory."""
        return np.diff(self.starts).astype(np.int32)

    def lengths_of(self, rows: np.ndarray) -> np.ndarray:
        """Returns the number of ids of the sentences of `rows`, in the same shape."""
        return (self.starts[rows + 1] - self.starts[rows]).astype(np.int32)

    def __getitem__(self, index: int) -> np.ndarray:
        return self.ids[self.starts[index] : self.starts[index + 1]]

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[index] for index in range(len(self)))

    @classmethod
    def from_rows(cls, rows: Iterable[Sequence[int] | np.ndarray]) -> "EncodedSentences":
        """Stores sentences given one by one. Their ids go to a temporary file, not to memory."""
        rows, store = iter(rows), SentenceStore(np.int32)
        while chunk := list(islice(rows, CHUNK_SENTENCES)):
            ids = np.concatenate([np.asarray(row, np.int32) for row in chunk])
            store.add(ids, np.array([len(row) for row in chunk], np.int64))
        return store.finish()

    def gather(self, rows: np.ndarray) -> np.ndarray:
        """Returns the ids of the sentences of `rows`, one sentence after the other."""
        lengths = self.lengths_of(rows)
        ends = np.cumsum(lengths)
        # For each id, how far the place it is read from lies behind the place it goes to.
        shifts = np.repeat(self.starts[rows] - (ends - lengths), lengths)
        return self.ids[shifts + np.arange(len(shifts))]

    def select(
        self, rows: Sequence[int] | np.ndarray, joined: Sequence[Sequence[int]] | np.ndarray = ()
    ) -> "EncodedSentences":
        """Returns the sentences of `rows`, in that order, followed by the two sentences of each row `(first, second)`
        of `joined` as one sentence."""
        parts = (np.asarray(part, np.int64).reshape(-1, size) for part, size in ((rows, 1), (joined, 2)))
        chunks = (part[first : first + CHUNK_SENTENCES] for part in parts for first in _firsts(part))
        store = SentenceStore(self.ids.dtype)
        for chunk in chunks:
            store.add(self.gather(chunk.ravel()), self.lengths_of(chunk).sum(axis=1, dtype=np.int64))
        return store.finish()

    def save(self, path: Path) -> None:
        """Writes `PATH.ids.npy` and `PATH.starts.npy`."""
        for name, array in (("ids", self.ids), ("starts", self.starts)):
            with replaced_when_done(Path(f"{path}.{name}.npy")) as temporary:
                np.save(temporary, array, allow_pickle=False)

    @classmethod
    def load(cls, path: Path) -> "EncodedSentences":
        """Maps what `save` wrote.

        Raises:
            InputError: the files are missing or damaged.
        """
        try:
            ids = map_array(Path(f"{path}.ids.npy"), np.int32, np.uint16)
            starts = map_array(Path(f"{path}.starts.npy"), np.int64)
            if starts[0] != 0 or starts[-1] != len(ids) or not _ascends(starts):
                raise ValueError(f"{len(ids)} ids, expected {starts[-1]}")
        except (*DAMAGE, IndexError) as error:
            raise InputError(
                f"{path}: the encoded text is missing or damaged ({error}); train anew in another folder"
            ) from None
        return cls(ids, starts)


class SentenceStore:
    """Sentences that come part by part. If they are many, they go to temporary files, not to memory.

    Args:
        dtype: of the ids.
    """

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self._ids, self._starts = ArrayStore(dtype), ArrayStore(np.int64)
        self._starts.add([0])
        self._end = 0

    def add(self, ids: np.ndarray, lengths: np.ndarray) -> None:
        """Adds sentences: their ids, one sentence after the other, and the number of each."""
        self._ids.add(ids)
        ends = self._end + np.cumsum(lengths, dtype=np.int64)
        self._starts.add(ends)
        self._end = int(ends[-1]) if len(ends) else self._end

    def finish(self) -> EncodedSentences:
        """Returns all of them; nothing can be added after that."""
        return EncodedSentences(self._ids.finish(), self._starts.finish())


def _ascends(starts: np.ndarray) -> bool:
    parts = (starts[first : first + CHUNK_STARTS] for first in range(0, len(starts), CHUNK_STARTS - 1))
    return all(bool((np.diff(part) >= 0).all()) for part in parts)


def smallest_type(vocabulary_size: int) -> np.dtype:
    """Returns the type that ids are stored in: 16 bits where they suffice."""
    return np.dtype(np.uint16 if vocabulary_size <= 1 << 16 else np.int32)


def encode_sentences(sentences: Sequence[str], tokenizer: Tokenizer) -> EncodedSentences:
    """Encodes sentences, a chunk at a time."""
    return EncodedSentences.from_rows(row for chunk in chunks(sentences) for row in tokenizer.encode(chunk))


def chunks(sentences: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yields the sentences some thousand at a time."""
    return (sentences[first : first + CHUNK_SENTENCES] for first in _firsts(sentences))


def _firsts(items: Sized) -> range:
    return range(0, len(items), CHUNK_SENTENCES)
