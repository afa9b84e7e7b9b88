"""Encoded sentences and pairs on disk, memory-mapped, so that memory stays flat however large the corpus is."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...errors import DAMAGE, InputError
from ...files.arrays import ArrayStore, map_array
from ...files.atomic import replaced_when_done
from ..corpora.corpus import CHUNK_SENTENCES, Corpus, chunks
from .tokenizer import Tokenizer


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
    def from_rows(
        cls, rows: Iterable[Sequence[int] | np.ndarray], dtype: npt.DTypeLike = np.int32
    ) -> "EncodedSentences":
        """Stores sentences given one by one. Their ids go to a temporary file, not to memory."""
        rows = iter(rows)
        store = SentenceStore(dtype)
        while chunk := list(islice(rows, CHUNK_SENTENCES)):
            store.add_rows(chunk)
        return store.finish()

    def select(
        self, rows: Sequence[int] | np.ndarray, joined: Sequence[Sequence[int]] | np.ndarray = ()
    ) -> "EncodedSentences":
        """Returns the sentences of `rows`, then the two of each row `(first, second)` of `joined` as one."""
        store = SentenceStore(self.ids.dtype)
        for part in (np.reshape(rows, (-1, 1)), np.reshape(joined, (-1, 2))):
            for chunk in chunks(part.astype(np.int64)):
                lengths = self.lengths_of(chunk)
                ends = np.cumsum(lengths)
                # For each id, how far the place it is read from lies behind the place it goes to.
                shifts = np.repeat(self.starts[chunk.ravel()] - (ends - lengths.ravel()), lengths.ravel())
                store.add(self.ids[shifts + np.arange(len(shifts))], lengths.sum(axis=1, dtype=np.int64))
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
            if starts[-1] != len(ids):
                raise ValueError(f"{len(ids)} ids, expected {starts[-1]}")
        except (*DAMAGE, IndexError) as error:
            raise InputError(
                f"{path}: the encoded text is missing or damaged ({error}); train anew in another folder"
            ) from None
        return cls(ids, starts)


class EncodedPairs(NamedTuple):
    """Encoded sources and targets, in the same order, and optionally the links between their tokens.

    - links: for each pair flat numbers `source token, target token, source token, ...`, or None.
    """

    source: EncodedSentences
    target: EncodedSentences
    links: EncodedSentences | None = None

    @property
    def sides(self) -> tuple[EncodedSentences, EncodedSentences]:
        """Sources and targets."""
        return self.source, self.target

    def select(
        self, rows: Sequence[int] | np.ndarray, joined: Sequence[Sequence[int]] | np.ndarray = ()
    ) -> "EncodedPairs":
        """Returns the pairs of `rows`, then the two of each row `(first, second)` of `joined` as one pair."""
        if not len(joined) and np.array_equal(rows, np.arange(len(self.source))):
            return self
        source, target = (side.select(rows, joined) for side in self.sides)
        if self.links is None:
            return EncodedPairs(source, target)
        links = chain((self.links[row] for row in rows), (self._join_links(*pair) for pair in joined))
        return EncodedPairs(source, target, EncodedSentences.from_rows(links))

    def _join_links(self, first: int, second: int) -> np.ndarray:
        assert self.links is not None
        # The tokens of the second pair come after the first pair's.
        shift = np.array([len(side[first]) for side in self.sides], np.int32)
        return np.concatenate([self.links[first], (self.links[second].reshape(-1, 2) + shift).ravel()])

    def save(self, path: Path) -> None:
        """Writes `PATH.source`, `PATH.target` and, where there are links, `PATH.links`."""
        for name, sentences in self._asdict().items():
            if sentences is not None:
                sentences.save(Path(f"{path}.{name}"))

    @classmethod
    def load(cls, path: Path, linked: bool = False) -> "EncodedPairs":
        """Maps what `save` wrote, with links if `linked`.

        Raises:
            InputError: the files are missing or damaged, or have different numbers of sentences.
        """
        names = ("source", "target", "links") if linked else ("source", "target")
        pairs = cls(*(EncodedSentences.load(Path(f"{path}.{name}")) for name in names))
        if len({len(sentences) for sentences in pairs if sentences is not None}) > 1:
            raise InputError(
                f"{path}: {len(pairs.source)} encoded sources and {len(pairs.target)} targets"
                f"{f' and links of {len(pairs.links)}' if pairs.links else ''}; train anew in another folder"
            )
        return pairs


def encode_pairs(corpus: Corpus, tokenizer: Tokenizer) -> EncodedPairs:
    """Encodes the pairs of a corpus, a chunk at a time."""
    source = encode_sentences(corpus.source, tokenizer)
    return EncodedPairs(source, encode_sentences(corpus.target, tokenizer.of_target))


def encode_sentences(sentences: Sequence[str], tokenizer: Tokenizer) -> EncodedSentences:
    """Encodes sentences, a chunk at a time."""
    return EncodedSentences.from_rows(row for chunk in chunks(sentences) for row in tokenizer.encode(chunk))


def put_tags(pairs: EncodedPairs, parts: Iterable[tuple[int, int, int | None]]) -> EncodedPairs:
    """Puts tags before the sources of encoded pairs.

    Args:
        pairs: the pairs, without tags.
        parts: first row, the row after the last, and the id of the tag or None, of neighbouring parts of all pairs.
    """
    parts = list(parts)
    if all(tag is None for _, _, tag in parts):
        return pairs
    before = [(range(first, last), [] if tag is None else [tag]) for first, last, tag in parts]
    source = (np.concatenate([tag, pairs.source[row]]) for rows, tag in before for row in rows)
    tagged = EncodedSentences.from_rows(source, pairs.source.ids.dtype)
    if pairs.links is None:
        return EncodedPairs(tagged, pairs.target)
    links = (pairs.links[row].reshape(-1, 2) + [len(tag), 0] for rows, tag in before for row in rows)
    return EncodedPairs(tagged, pairs.target, EncodedSentences.from_rows(map(np.ravel, links)))


class SentenceStore:
    """Ids of sentences that come part by part. If they are many, they go to temporary files, not to memory."""

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self._dtype, self._ids, self._starts = dtype, ArrayStore(dtype), ArrayStore(np.int64)
        self._starts.add([0])
        self._end = 0

    def add(self, ids: np.ndarray, lengths: np.ndarray) -> None:
        """Adds sentences: their ids, one sentence after the other, and the number of each."""
        self._ids.add(ids)
        ends = self._end + np.cumsum(lengths, dtype=np.int64)
        self._starts.add(ends)
        self._end = int(ends[-1]) if len(ends) else self._end

    def add_rows(self, rows: Sequence[Sequence[int] | np.ndarray]) -> None:
        """Adds sentences one by one, of which there is at least one."""
        ids = np.concatenate([np.asarray(row, self._dtype) for row in rows])
        self.add(ids, np.array([*map(len, rows)], np.int64))

    def finish(self) -> EncodedSentences:
        """Returns all of them; nothing can be added after that."""
        return EncodedSentences(self._ids.finish(), self._starts.finish())


def smallest_type(vocabulary_size: int) -> np.dtype:
    """Returns the type that ids are stored in: 16 bits where they suffice."""
    return np.dtype(np.uint16 if vocabulary_size <= 1 << 16 else np.int32)
