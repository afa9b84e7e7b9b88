"""Encoded sentences and pairs on disk, memory-mapped: a large corpus takes no more memory than a small one."""

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
    """Sentences as ids, without BOS and EOS. `encoded[i]` has the ids of sentence i.

    Args:
        ids: the ids of all sentences, one sentence after the other, uint16 or int32 `(tokens,)`.
        starts: the index in `ids` at which each sentence starts, and the number of all ids, int64 `(sentences + 1,)`.
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
        """Returns the number of ids of each sentence in `rows`, an int array of any shape, as int32 of that shape."""
        return (self.starts[rows + 1] - self.starts[rows]).astype(np.int32)

    def join(self, rows: np.ndarray) -> np.ndarray:
        """Returns the ids of sentences, one sentence after the other. `rows` has their numbers, int `(sentences,)`."""
        lengths = self.lengths_of(rows)
        # For each id, the index from which it is read minus the index to which it is written.
        shifts = np.repeat(self.starts[rows] - (np.cumsum(lengths) - lengths), lengths)
        return self.ids[shifts + np.arange(len(shifts))]

    def __getitem__(self, index: int) -> np.ndarray:
        return self.ids[self.starts[index] : self.starts[index + 1]]

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[index] for index in range(len(self)))

    @classmethod
    def from_rows(
        cls, rows: Iterable[Sequence[int] | np.ndarray], dtype: npt.DTypeLike = np.int32
    ) -> "EncodedSentences":
        """Returns encoded sentences, read from an iterable. Many sentences are in temporary files, not in memory.

        Args:
            rows: the ids of each sentence.
            dtype: the type in which ids are stored.
        """
        rows = iter(rows)
        store = SentenceStore(dtype)
        while chunk := list(islice(rows, CHUNK_SENTENCES)):
            store.add_rows(chunk)
        return store.finish()

    def select(
        self, rows: Sequence[int] | np.ndarray, joined: Sequence[Sequence[int]] | np.ndarray = ()
    ) -> "EncodedSentences":
        """Returns a selection of sentences, followed by concatenations of two sentences each.

        Args:
            rows: the numbers of the selected sentences, int `(rows,)`.
            joined: the numbers of each two sentences that are concatenated, int `(joined, 2)`.
        """
        store = SentenceStore(self.ids.dtype)
        for part in (np.reshape(rows, (-1, 1)), np.reshape(joined, (-1, 2))):
            for chunk in chunks(part.astype(np.int64)):
                store.add(self.join(chunk.ravel()), self.lengths_of(chunk).sum(axis=1, dtype=np.int64))
        return store.finish()

    def save(self, path: Path) -> None:
        """Writes `PATH.ids.npy` and `PATH.starts.npy`."""
        for name, array in (("ids", self.ids), ("starts", self.starts)):
            with replaced_when_done(Path(f"{path}.{name}.npy")) as temporary:
                np.save(temporary, array, allow_pickle=False)

    @classmethod
    def load(cls, path: Path) -> "EncodedSentences":
        """Maps the files that `save` wrote into memory.

        Raises:
            InputError: a file is missing or damaged.
        """
        try:
            ids = map_array(Path(f"{path}.ids.npy"), np.int32, np.uint16)
            starts = map_array(Path(f"{path}.starts.npy"), np.int64)
            if starts[-1] != len(ids):
                raise ValueError(f"{len(ids)} ids, expected {starts[-1]}")
        except (*DAMAGE, IndexError) as error:
            raise InputError(
                f"{path}: the encoded text is missing or damaged ({error}); train again in another folder"
            ) from None
        return cls(ids, starts)


class EncodedPairs(NamedTuple):
    """Encoded sources and targets, in the same order, and optionally the links between their tokens.

    - source: the sources.
    - target: the targets.
    - links: for each pair the numbers of linked tokens: `source token, target token, source token, ...`. None if the
        tokens have no links.
    """

    source: EncodedSentences
    target: EncodedSentences
    links: EncodedSentences | None = None

    @property
    def sides(self) -> tuple[EncodedSentences, EncodedSentences]:
        """The sources and the targets."""
        return self.source, self.target

    def select(
        self, rows: Sequence[int] | np.ndarray, joined: Sequence[Sequence[int]] | np.ndarray = ()
    ) -> "EncodedPairs":
        """Returns a selection of pairs, followed by concatenations of two pairs each. The links are kept.

        Args:
            rows: the numbers of the selected pairs, int `(rows,)`.
            joined: the numbers of each two pairs that are concatenated, int `(joined, 2)`.
        """
        if not len(joined) and np.array_equal(rows, np.arange(len(self.source))):
            return self
        source, target = (side.select(rows, joined) for side in self.sides)
        if self.links is None:
            return EncodedPairs(source, target)
        links = chain((self.links[row] for row in rows), (self._join_links(*pair) for pair in joined))
        return EncodedPairs(source, target, EncodedSentences.from_rows(links))

    def _join_links(self, first: int, second: int) -> np.ndarray:
        """Returns the links of the concatenation of pairs number `first` and `second`, in the form of `links`."""
        assert self.links is not None
        # The tokens of the second pair come after the first pair's.
        shift = np.array([len(side[first]) for side in self.sides], np.int32)
        return np.concatenate([self.links[first], (self.links[second].reshape(-1, 2) + shift).ravel()])

    def save(self, path: Path) -> None:
        """Writes `PATH.source`, `PATH.target` and, if there are links, `PATH.links`; see `EncodedSentences.save`."""
        for name, sentences in self._asdict().items():
            if sentences is not None:
                sentences.save(Path(f"{path}.{name}"))

    @classmethod
    def load(cls, path: Path, linked: bool = False) -> "EncodedPairs":
        """Maps the files that `save` wrote into memory; the files of links only if `linked`.

        Raises:
            InputError: a file is missing or damaged, or the files have different numbers of sentences.
        """
        names = ("source", "target", "links") if linked else ("source", "target")
        pairs = cls(*(EncodedSentences.load(Path(f"{path}.{name}")) for name in names))
        if len({len(sentences) for sentences in pairs if sentences is not None}) > 1:
            raise InputError(
                f"{path}: {len(pairs.source)} encoded sources and {len(pairs.target)} targets"
                f"{f' and links of {len(pairs.links)}' if pairs.links else ''}; train again in another folder"
            )
        return pairs


def encode_pairs(corpus: Corpus, tokenizer: Tokenizer) -> EncodedPairs:
    """Encodes the pairs of a corpus, a chunk at a time. They have no links."""
    source = encode_sentences(corpus.source, tokenizer)
    return EncodedPairs(source, encode_sentences(corpus.target, tokenizer.of_target))


def encode_sentences(sentences: Sequence[str], tokenizer: Tokenizer) -> EncodedSentences:
    """Encodes sentences, a chunk at a time."""
    return EncodedSentences.from_rows(row for chunk in chunks(sentences) for row in tokenizer.encode(chunk))


def put_tags(pairs: EncodedPairs, parts: Iterable[tuple[int, int, int | None]]) -> EncodedPairs:
    """Returns encoded pairs with tags before their sources. The source tokens in links are renumbered accordingly.

    Args:
        pairs: the pairs, without tags.
        parts: consecutive parts of the pairs, as `(first row, row after the last, id of the tag)`; the id is None for a
            part without a tag.
    """
    parts = list(parts)
    if all(tag is None for _, _, tag in parts):
        return pairs
    tag_ids = [(range(first, last), [] if tag is None else [tag]) for first, last, tag in parts]
    source = (np.concatenate([ids, pairs.source[row]]) for rows, ids in tag_ids for row in rows)
    tagged = EncodedSentences.from_rows(source, pairs.source.ids.dtype)
    if pairs.links is None:
        return EncodedPairs(tagged, pairs.target)
    links = (pairs.links[row].reshape(-1, 2) + [len(ids), 0] for rows, ids in tag_ids for row in rows)
    return EncodedPairs(tagged, pairs.target, EncodedSentences.from_rows(map(np.ravel, links)))


class SentenceStore:
    """Collects the ids of sentences part by part. Many ids are in temporary files, not in memory.

    Args:
        dtype: the type in which ids are stored.
    """

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self._dtype = dtype
        self._ids = ArrayStore(dtype)
        self._starts = ArrayStore(np.int64)
        self._starts.add([0])
        self._end = 0

    def add(self, ids: np.ndarray, lengths: np.ndarray) -> None:
        """Adds sentences.

        Args:
            ids: the ids of all sentences, one sentence after the other, int `(tokens,)`.
            lengths: the number of ids of each sentence, int `(sentences,)`.
        """
        self._ids.add(ids)
        ends = self._end + np.cumsum(lengths, dtype=np.int64)
        self._starts.add(ends)
        self._end = int(ends[-1]) if len(ends) else self._end

    def add_rows(self, rows: Sequence[Sequence[int] | np.ndarray]) -> None:
        """Adds at least one sentence; each row has the ids of a sentence."""
        ids = np.concatenate([np.asarray(row, self._dtype) for row in rows])
        self.add(ids, np.array([*map(len, rows)], np.int64))

    def finish(self) -> EncodedSentences:
        """Returns all sentences that were added. Call it once, after the last sentence."""
        return EncodedSentences(self._ids.finish(), self._starts.finish())


def smallest_type(vocabulary_size: int) -> np.dtype:
    """Returns the type in which ids are stored: uint16 if it can hold all ids of the vocabulary, otherwise int32."""
    return np.dtype(np.uint16 if vocabulary_size <= 1 << 16 else np.int32)
