"""Encoded sentences on disk, memory-mapped, so that memory stays flat however large the corpus is."""

import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from ..array_file import map_array
from ..errors import DAMAGE, InputError
from ..files import replaced_when_done
from .tokenizer import Tokenizer

CHUNK_SENTENCES = 10_000


class EncodedSentences:
    """Sentences as ids, without BOS and EOS: one flat array of ids and the index at which each sentence starts.

    Args:
        ids: int32 `(tokens of all sentences,)`.
        starts: int64 `(sentences + 1,)`.
    """

    def __init__(self, ids: np.ndarray, starts: np.ndarray) -> None:
        self.ids = ids
        self.starts = starts
        self.lengths: np.ndarray = np.diff(starts).astype(np.int32)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> np.ndarray:
        return self.ids[self.starts[index] : self.starts[index + 1]]

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[index] for index in range(len(self)))

    @classmethod
    def from_rows(cls, rows: Iterable[Sequence[int] | np.ndarray]) -> "EncodedSentences":
        """Stores sentences given one by one. Their ids go to a temporary file, not to memory."""
        rows = iter(rows)
        lengths = [np.zeros(1, np.int64)]
        with tempfile.TemporaryFile() as file:
            while chunk := list(islice(rows, CHUNK_SENTENCES)):
                lengths.append(np.array([len(row) for row in chunk], np.int64))
                ids = np.concatenate([np.asarray(row, np.int32) for row in chunk])
                _write_temporarily(file, ids.tobytes())
            starts = np.cumsum(np.concatenate(lengths))
            stored = np.memmap(file, np.int32, "r") if starts[-1] else np.zeros(0, np.int32)
        return cls(stored, starts)

    def select(self, rows: Iterable[int], joined: Iterable[Sequence[int]] = ()) -> "EncodedSentences":
        """Returns the sentences of `rows`, in that order, followed by the two sentences of each row `(first, second)`
        of `joined` as one sentence."""
        both = (np.concatenate([self[first], self[second]]) for first, second in joined)
        return EncodedSentences.from_rows(chain((self[row] for row in rows), both))

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
            ids = map_array(Path(f"{path}.ids.npy"), np.int32)
            starts = map_array(Path(f"{path}.starts.npy"), np.int64)
            if starts[0] != 0 or starts[-1] != len(ids) or (np.diff(starts) < 0).any():
                raise ValueError(f"{len(ids)} ids, expected {starts[-1]}")
        except (*DAMAGE, IndexError) as error:
            raise InputError(
                f"{path}: the encoded text is missing or damaged ({error}); train anew in another folder"
            ) from None
        return cls(ids, starts)


def _write_temporarily(file: IO[bytes], data: bytes) -> None:
    try:
        file.write(data)
        file.flush()
    except OSError as error:
        raise OSError(error.errno, error.strerror, tempfile.gettempdir()) from None


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

    def select(self, rows: Collection[int], joined: Collection[Sequence[int]] = ()) -> "EncodedPairs":
        """Returns the pairs of `rows`, in that order, followed by the two pairs of each row `(first, second)` of
        `joined` as one pair."""
        source, target = (side.select(rows, joined) for side in self.sides)
        if self.links is None:
            return EncodedPairs(source, target)
        links = chain((self.links[row] for row in rows), (self._join_links(*pair) for pair in joined))
        return EncodedPairs(source, target, EncodedSentences.from_rows(links))

    def _join_links(self, first: int, second: int) -> np.ndarray:
        assert self.links is not None
        # The tokens of the second pair come after those of the first.
        shift = np.array([self.source.lengths[first], self.target.lengths[first]], np.int32)
        return np.concatenate([self.links[first], (self.links[second].reshape(-1, 2) + shift).ravel()])

    def save(self, path: Path) -> None:
        """Writes `PATH.source`, `PATH.target` and, where there are links, `PATH.links`."""
        for name, sentences in self._asdict().items():
            if sentences is not None:
                sentences.save(Path(f"{path}.{name}"))

    @classmethod
    def load(cls, path: Path, linked: bool = False, vocabulary_size: int | None = None) -> "EncodedPairs":
        """Maps what `save` wrote, with links if `linked`.

        Raises:
            InputError: the files are missing or damaged, have different numbers of sentences, ids outside the
                vocabulary, or links to tokens that are not there.
        """
        names = ("source", "target", "links") if linked else ("source", "target")
        pairs = cls(*(EncodedSentences.load(Path(f"{path}.{name}")) for name in names))
        if len({len(sentences) for sentences in pairs if sentences is not None}) > 1:
            raise InputError(
                f"{path}: {len(pairs.source)} encoded sources and {len(pairs.target)} targets"
                f"{f' and links of {len(pairs.links)}' if pairs.links else ''}; train anew in another folder"
            )
        size = 1 << 31 if vocabulary_size is None else vocabulary_size
        if not (all(_are_below(side.ids, size) for side in pairs.sides) and pairs._link_own_tokens()):
            raise InputError(
                f"{path}: the encoded text has ids outside the vocabulary of {size:,} tokens, or links "
                "outside its sentences; restore the run's own files, or train anew in another folder"
            )
        return pairs

    def _link_own_tokens(self) -> bool:
        if self.links is None:
            return True
        counts = self.links.lengths
        if (counts % 2).any():
            return False
        ends = zip(self.links.ids.reshape(-1, 2).T, self.sides, strict=True)
        return all(
            bool((side >= 0).all() and (side < np.repeat(text.lengths, counts // 2)).all()) for side, text in ends
        )


def _are_below(ids: np.ndarray, end: int) -> bool:
    return len(ids) == 0 or (int(ids.min()) >= 0 and int(ids.max()) < end)


def encode_sentences(sentences: Sequence[str], tokenizer: Tokenizer) -> EncodedSentences:
    """Encodes sentences, a chunk at a time."""
    return EncodedSentences.from_rows(row for chunk in chunks(sentences) for row in tokenizer.encode(chunk))


def chunks(sentences: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yields the sentences some thousand at a time."""
    return (sentences[first : first + CHUNK_SENTENCES] for first in range(0, len(sentences), CHUNK_SENTENCES))
