"""Links between words carried over to the tokens that the words were cut into."""

from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np

from .encoded import EncodedPairs, EncodedSentences
from .pharaoh import Link


def link_tokens(pairs: EncodedPairs, links: Iterable[Collection[Link]], word_starts: np.ndarray) -> EncodedSentences:
    """Links every token of a word with every token of a word that it is linked with; links outside a sentence are left
    out.

    Args:
        pairs: encoded sentences, without special tokens.
        links: of the words of each pair, in the same order.
        word_starts: bool `(vocabulary,)`, the tokens that start a word.

    Returns:
        For each pair its links as flat numbers `source token, target token, source token, ...`.
    """
    return EncodedSentences.of_rows(_rows(pairs, links, word_starts))


def _rows(pairs: EncodedPairs, links: Iterable[Collection[Link]], word_starts: np.ndarray) -> Iterator[np.ndarray]:
    for source, target, word_links in zip(pairs.source, pairs.target, links, strict=True):
        words = [np.cumsum(word_starts[ids]) - 1 for ids in (source, target)]
        counts = [int(numbers[-1]) + 1 if len(numbers) else 0 for numbers in words]
        linked = np.zeros(counts, bool)
        for i, j in word_links:
            if i < counts[0] and j < counts[1]:
                linked[i, j] = True
        yield np.argwhere(linked[np.ix_(*words)]).ravel()


def link_matrices(links: Sequence[np.ndarray], target_length: int, source_length: int) -> np.ndarray:
    """The links of a batch: bool `(B, T, S)`, true where target token t is linked with source token s.

    Args:
        links: of each pair, as `link_tokens` gives them.
        target_length: T, with EOS and padding.
        source_length: S, likewise.
    """
    matrices = np.zeros((len(links), target_length, source_length), bool)
    for matrix, flat in zip(matrices, links, strict=True):
        source, target = flat.reshape(-1, 2).T
        matrix[target, source] = True
    return matrices
