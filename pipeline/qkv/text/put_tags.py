"""Puts the tags of corpora before their encoded sources."""

from collections.abc import Iterable

import numpy as np

from .encoded import CHUNK_SENTENCES, EncodedSentences, SentenceStore
from .encoded_pairs import EncodedPairs


def put_tags(pairs: EncodedPairs, parts: Iterable[tuple[int, int, int | None]]) -> EncodedPairs:
    """Puts tags before the sources of encoded pairs.

    Args:
        pairs: the pairs, without tags.
        parts: first row, the row after the last, and the id of the tag or None, of neighbouring parts of all pairs.
    """
    parts = list(parts)
    if all(tag is None for _, _, tag in parts):
        return pairs
    store = SentenceStore(pairs.source.ids.dtype)
    links: list[np.ndarray] = []
    for begin, end, tag in parts:
        for first in range(begin, end, CHUNK_SENTENCES):
            last = min(first + CHUNK_SENTENCES, end)
            _add_tagged(store, pairs.source, first, last, tag)
            if pairs.links is not None:
                links += [_shift_links(pairs.links[row], tag is not None) for row in range(first, last)]
    linked = None if pairs.links is None else EncodedSentences.from_rows(links)
    return EncodedPairs(store.finish(), pairs.target, linked)


def _add_tagged(store: SentenceStore, source: EncodedSentences, first: int, last: int, tag: int | None) -> None:
    starts = source.starts[first : last + 1]
    ids, lengths = source.ids[starts[0] : starts[-1]], np.diff(starts)
    if tag is not None:
        ids, lengths = np.insert(ids, starts[:-1] - starts[0], tag), lengths + 1
    store.add(ids, lengths)


def _shift_links(links: np.ndarray, tagged: bool) -> np.ndarray:
    return (links.reshape(-1, 2) + np.array([int(tagged), 0], links.dtype)).ravel()
