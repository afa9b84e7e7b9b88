"""Encoded sentences on disk, memory-mapped, so that memory stays flat however large the corpus is."""

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pipeline.errors import InputError
from pipeline.run_directory import replaced_when_done
from pipeline.text.tokenizer import Tokenizer

CHUNK_SENTENCES = 10_000


class EncodedSentences:
    """Sentences as ids, without BOS and EOS: one flat array of ids and where each sentence starts in it.

    Args:
        ids: int32 `(tokens of all sentences,)`.
        starts: int64 `(sentences + 1,)`.
    """

    def __init__(self, ids: np.ndarray, starts: np.ndarray) -> None:
        self.ids = ids
        self.starts = starts
        self.lengths: np.ndarray = np.diff(starts)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> np.ndarray:
        return self.ids[self.starts[index] : self.starts[index + 1]]

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[index] for index in range(len(self)))

    def select(self, rows: Sequence[int] | np.ndarray) -> "EncodedSentences":
        """The sentences of those rows, in that order."""
        lengths = self.lengths[np.asarray(rows, int)]
        ids = np.concatenate([self[row] for row in rows]) if len(rows) else self.ids[:0]
        return EncodedSentences(ids, np.concatenate([[0], np.cumsum(lengths)]))

    def with_joined(self, pairs: np.ndarray) -> "EncodedSentences":
        """These sentences, and after them those of each row `(first, second)` of `pairs`, one behind the other."""
        joined = self.select(pairs.ravel())
        return EncodedSentences(
            np.concatenate([self.ids, joined.ids]), np.concatenate([self.starts, self.starts[-1] + joined.starts[2::2]])
        )

    def save(self, path: Path) -> None:
        """Writes `PATH.ids.npy` and `PATH.starts.npy`."""
        for name, array in (("ids", self.ids.astype(np.int32)), ("starts", self.starts.astype(np.int64))):
            with replaced_when_done(Path(f"{path}.{name}.npy")) as temporary:
                np.save(temporary, array, allow_pickle=False)

    @classmethod
    def of_rows(cls, rows: Sequence[Sequence[int] | np.ndarray]) -> "EncodedSentences":
        """Sentences given one by one."""
        lengths = np.array([len(row) for row in rows], np.int64)
        ids = np.fromiter(chain.from_iterable(rows), np.int32, count=int(lengths.sum()))
        return cls(ids, np.concatenate([[0], np.cumsum(lengths)]))

    @classmethod
    def load(cls, path: Path) -> "EncodedSentences":
        """Maps what `save` wrote.

        Raises:
            InputError: the files are missing or damaged.
        """
        try:
            ids = np.load(f"{path}.ids.npy", mmap_mode="r", allow_pickle=False)
            starts = np.load(f"{path}.starts.npy", allow_pickle=False)
            if starts[0] != 0 or starts[-1] != len(ids):
                raise ValueError(f"{len(ids)} ids, expected {starts[-1]}")
        except (OSError, ValueError, EOFError, IndexError) as error:
            raise InputError(
                f"{path}: the encoded text is missing or damaged ({error}); train anew in another folder"
            ) from None
        return cls(ids, starts)


class EncodedPairs(NamedTuple):
    """Encoded sources and their targets, in the same order, and which of their tokens are linked, if that is known.

    - links: for each pair flat numbers `source token, target token, source token, ...`.
    """

    source: EncodedSentences
    target: EncodedSentences
    links: EncodedSentences | None = None

    @property
    def sides(self) -> tuple[EncodedSentences, EncodedSentences]:
        """Sources and targets."""
        return self.source, self.target

    def select(self, rows: Sequence[int] | np.ndarray) -> "EncodedPairs":
        """The pairs of those rows, in that order."""
        links = None if self.links is None else self.links.select(rows)
        return EncodedPairs(self.source.select(rows), self.target.select(rows), links)

    def with_joined(self, pairs: np.ndarray) -> "EncodedPairs":
        """These pairs, and after them those of each row `(first, second)` of `pairs`, one behind the other."""
        source, target = (side.with_joined(pairs) for side in self.sides)
        if self.links is None:
            return EncodedPairs(source, target)
        links = self.links.with_joined(pairs)
        # The second pair's tokens stand behind those of the first.
        shift = np.zeros((2 * len(pairs), 2), np.int32)
        shift[1::2] = np.stack([self.source.lengths[pairs[:, 0]], self.target.lengths[pairs[:, 0]]], axis=1)
        shifts = np.repeat(shift, self.links.lengths[pairs.ravel()] // 2, axis=0).ravel()
        links.ids[len(links.ids) - len(shifts) :] += shifts
        return EncodedPairs(source, target, links)

    def save(self, path: Path) -> None:
        """Writes `PATH.source`, `PATH.target` and, where there are links, `PATH.links`."""
        for name, part in self._asdict().items():
            if part is not None:
                part.save(Path(f"{path}.{name}"))

    @classmethod
    def load(cls, path: Path, linked: bool = False) -> "EncodedPairs":
        """Maps what `save` wrote, with links if `linked`.

        Raises:
            InputError: the files are missing or damaged, or not of as many sentences.
        """
        names = ("source", "target", "links") if linked else ("source", "target")
        pairs = cls(*(EncodedSentences.load(Path(f"{path}.{name}")) for name in names))
        if len({len(part) for part in pairs if part is not None}) > 1:
            raise InputError(
                f"{path}: {len(pairs.source)} encoded sources and {len(pairs.target)} targets"
                f"{f' and links of {len(pairs.links)}' if pairs.links else ''}; train anew in another folder"
            )
        return pairs


def encode_sentences(sentences: Sequence[str], tokenizer: Tokenizer) -> EncodedSentences:
    """Encodes sentences, a chunk at a time."""
    parts, lengths = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)]
    for first in range(0, len(sentences), CHUNK_SENTENCES):
        ragged = tokenizer.encode(sentences[first : first + CHUNK_SENTENCES])
        parts.append(ragged.values.numpy())
        lengths.append(ragged.row_lengths().numpy())
    return EncodedSentences(np.concatenate(parts), np.concatenate([[0], np.cumsum(np.concatenate(lengths))]))


def sample_segmentation(
    sentences: Sequence[str], encoded: EncodedSentences, tokenizer: Tokenizer, alpha: float, seed: int, longest: int
) -> EncodedSentences:
    """Encodes sentences by `Tokenizer.sample`; one that becomes longer than `longest` stays as it is in `encoded`."""
    rows = tokenizer.sample(sentences, alpha, seed)
    return EncodedSentences.of_rows(
        [row if len(row) <= longest else usual.tolist() for row, usual in zip(rows, encoded, strict=True)]
    )
