"""Converts links between words to links between the tokens of these words."""

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import zip_longest

import numpy as np

from ..errors import InputError
from .corpus import Corpus
from .encoded import EncodedSentences
from .encoded_pairs import EncodedPairs
from .pharaoh import Link
from .words import words_of

log = logging.getLogger(__name__)


def check_links(corpus: Corpus, links: Iterable[Collection[Link]], path: str) -> None:
    """Checks that a file has the links of every pair, and warns of links outside their sentences.

    Args:
        corpus: the pairs.
        links: of the words of each pair, in the same order.
        path: the file or files that the links were read from, for messages.

    Raises:
        InputError: more or fewer lines of links than pairs.
    """
    lines = outside = 0
    for word_links, pair in zip_longest(links, corpus.pairs()):
        lines += word_links is not None
        if word_links and pair:
            source_words, target_words = (len(words_of(side)) for side in pair)
            outside += sum(i >= source_words or j >= target_words for i, j in word_links)
    if lines != len(corpus):
        raise InputError(
            f"{path}: {lines} lines of alignments for the {len(corpus)} pairs of {corpus.name}; expected one per pair"
        )
    if outside:
        log.warning("%s: %d word links point outside their sentences and are left out", path, outside)


def link_tokens(pairs: EncodedPairs, links: Iterable[Collection[Link]], word_starts: np.ndarray) -> EncodedSentences:
    """Links every token of a word with every token of each word that it is linked with. Links that point outside a
    sentence are left out.

    Args:
        pairs: encoded sentences, without special tokens.
        links: of the words of each pair, in the same order.
        word_starts: bool `(vocabulary,)`, the tokens that start a word.

    Returns:
        For each pair its links as flat numbers `source token, target token, source token, ...`.
    """
    return EncodedSentences.from_rows(_link_rows(pairs, links, word_starts))


def _link_rows(pairs: EncodedPairs, links: Iterable[Collection[Link]], word_starts: np.ndarray) -> Iterator[np.ndarray]:
    for source, target, word_links in zip(pairs.source, pairs.target, links, strict=True):
        words = [np.cumsum(word_starts[ids]) - 1 for ids in (source, target)]
        counts = [int(numbers[-1]) + 1 if len(numbers) else 0 for numbers in words]
        matrix = np.zeros(counts, bool)
        for i, j in word_links:
            if i < counts[0] and j < counts[1]:
                matrix[i, j] = True
        yield np.argwhere(matrix[np.ix_(*words)]).ravel()


def link_matrices(links: Sequence[np.ndarray], target_length: int, source_length: int) -> np.ndarray:
    """The links of a batch as matrices: bool `(B, T, S)`, true where target token t is linked with source token s.

    Args:
        links: of each pair, as `link_tokens` returns them.
        target_length: T, with EOS and padding.
        source_length: S, with EOS and padding.
    """
    matrices = np.zeros((len(links), target_length, source_length), bool)
    for matrix, flat in zip(matrices, links, strict=True):
        source, target = flat.reshape(-1, 2).T
        matrix[target, source] = True
    return matrices
