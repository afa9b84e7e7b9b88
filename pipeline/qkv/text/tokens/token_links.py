"""Converts links between words to links between the tokens of these words."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np

from ...runtime.machine import usable_cores
from ...runtime.parallel import in_processes
from ..corpora.corpus import Corpus, is_large, shards
from ..corpora.word_links import GoldAlignment, Link
from .encoding import EncodedPairs, EncodedSentences, EncodedShard, SentenceStore
from .subword_models import SentencePieceModel
from .words import NO_WORD, WordUnits, word_ends, word_numbers

FindWords = Callable[[Sequence[str], Sequence[np.ndarray]], Iterable[np.ndarray]]
"""Takes sentences and the byte after each of their tokens, and returns the word of each token."""
_NOTHING = np.zeros(0, int)


class TokenLinker:
    """Links the tokens of pairs by the links of their words.

    Args:
        corpus: the pairs.
        links: of the words of each pair, in the same order, none of them outside the sentences.
        finder: finds the words of tokens.
    """

    def __init__(self, corpus: Corpus, links: Iterable[GoldAlignment], finder: "WordFinder") -> None:
        self._links = EncodedSentences.from_rows(np.array(sorted(one.possible), int).ravel() for one in links)
        self._words = find_words_of_pairs(corpus, finder)
        self._finder = finder

    def words_of_side(self, side: int) -> tuple[EncodedSentences, FindWords]:
        """Returns the words of the model's tokens of sources (0) or targets (1), and a function that finds others'."""
        return self._words[side], partial(self._finder.of_side, side)

    def link(self, pairs: EncodedPairs, words: "WordNumbers | None" = None) -> EncodedPairs:
        """Returns the pairs with the links of their tokens.

        Args:
            pairs: in the order of the corpus.
            words: of their tokens; by default of the tokens that the model gives.
        """
        links = (list(zip(row[::2].tolist(), row[1::2].tolist(), strict=True)) for row in self._links)
        return pairs._replace(links=link_tokens(words or self._words, links))


class WordNumbers(NamedTuple):
    """The words of the tokens of all pairs: for each token the number of its word, or `NO_WORD`."""

    source: EncodedSentences
    target: EncodedSentences


class WordFinder:
    """Finds the words of the tokens of pairs, as evaluation does: from the places where tokens end in the text."""

    def __init__(self, models: tuple[SentencePieceModel, SentencePieceModel], units: WordUnits) -> None:
        self._sides = tuple(zip(models, units, strict=True))

    def __call__(self, pairs: tuple[Sequence[str], Sequence[str]]) -> list[EncodedShard]:
        found = ([*self.of_side(side, texts)] for side, texts in enumerate(pairs))
        return [EncodedShard(np.concatenate([_NOTHING, *rows]), np.array([*map(len, rows)], int)) for rows in found]

    def of_side(
        self, side: int, texts: Sequence[str], ends: Sequence[Sequence[int]] | None = None
    ) -> Iterator[np.ndarray]:
        """Yields the word of each token of sources (side 0) or targets (side 1).

        Args:
            side: 0 or 1.
            texts: the sentences.
            ends: the byte after each token; None for the tokens that the model gives.
        """
        model, unit = self._sides[side]
        own = model.ends(texts) if ends is None or unit == "subwords" else ()
        words = own if unit == "subwords" else (word_ends(text, unit) for text in texts)
        return map(word_numbers, words, own if ends is None else ends)


def find_words_of_pairs(corpus: Corpus, finder: WordFinder) -> WordNumbers:
    """Finds the words of all tokens of a corpus, in several processes if it is large."""
    stores = [SentenceStore(np.int32) for _ in range(2)]
    for sides in in_processes(finder, shards(corpus), usable_cores() if is_large(corpus) else 1):
        for store, side in zip(stores, sides, strict=True):
            store.add(*side)
    return WordNumbers(*(store.finish() for store in stores))


def link_tokens(words: WordNumbers, links: Iterable[Collection[Link]]) -> EncodedSentences:
    """Links every token of a word with every token of each word that it is linked with. Links that point outside a
    sentence are left out. Words that share a token are linked together, as in `alignment.shared_tokens`.

    Returns:
        For each pair its links as flat numbers `source token, target token, source token, ...`.
    """
    return EncodedSentences.from_rows(map(_link_row, words.source, words.target, links))


def _link_row(source: np.ndarray, target: np.ndarray, word_links: Collection[Link]) -> np.ndarray:
    sides = _tokens_of_words(source), _tokens_of_words(target)
    linked = {tokens for link in word_links for tokens in product(*map(_linked_tokens, sides, link))}
    return np.array(sorted(linked), int).ravel()


def _tokens_of_words(words: np.ndarray) -> dict[int, list[int]]:
    tokens: dict[int, list[int]] = {}
    for token, word in enumerate(words.tolist()):
        if word != NO_WORD:
            tokens.setdefault(word, []).append(token)
    return tokens


def _linked_tokens(tokens: Mapping[int, list[int]], word: int) -> list[int]:
    if word in tokens:
        return tokens[word]
    # A token belongs to the last of its words.
    return next((own for last, own in tokens.items() if last > word), [])
