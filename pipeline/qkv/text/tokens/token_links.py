"""Converts links between words to links between the tokens of these words."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice, product
from typing import Any

import numpy as np

from ...runtime.machine import usable_cores
from ...runtime.parallel import in_processes
from ..corpora.corpus import Corpus, is_large, shards
from ..corpora.word_links import GoldAlignment, Link
from .encoding import EncodedPairs, EncodedSentences
from .subword_models import SentencePieceModel
from .words import NO_WORD, WordUnits, word_ends, word_numbers


class TokenLinker:
    """Links the tokens of pairs by the links of their words, in several processes if they are many.

    Args:
        corpus: the pairs.
        links: of the words of each pair, in the same order, none of them outside the sentences.
        models: the encoders of sources and targets.
        units: what counts as words.
    """

    def __init__(
        self,
        corpus: Corpus,
        links: Iterable[GoldAlignment],
        models: tuple[SentencePieceModel, SentencePieceModel],
        units: WordUnits,
    ) -> None:
        self._links = EncodedSentences.from_rows(np.array(sorted(one.possible), int).ravel() for one in links)
        self._corpus, self._sides = corpus, tuple(zip(models, units, strict=True))

    def link(self, pairs: EncodedPairs, ends: Sequence[EncodedSentences | None] = (None, None)) -> EncodedPairs:
        """Returns the pairs with the links of their tokens, for each pair as flat numbers `source token, target token,
        source token, ...`.

        Args:
            pairs: in the order of the corpus.
            ends: on each side the byte after each token; None for the tokens that the model gives.
        """

        def parts() -> Iterator[Any]:
            links = iter(self._links)
            after = [None if one is None else iter(one) for one in ends]
            for texts in shards(self._corpus):
                size = len(texts[0])
                own = [None if one is None else list(islice(one, size)) for one in after]
                yield texts, own, list(islice(links, size))

        processes = usable_cores() if is_large(self._corpus) else 1
        rows = chain.from_iterable(in_processes(partial(_link_part, self._sides), parts(), processes))
        return pairs._replace(links=EncodedSentences.from_rows(rows))


def _link_part(sides: Sequence[tuple[SentencePieceModel, str]], part: Any) -> list[np.ndarray]:
    texts, ends, links = part
    source, target = (iterate_word_numbers(*side, *own) for side, *own in zip(sides, texts, ends, strict=True))
    return list(map(link_tokens, source, target, (row.reshape(-1, 2).tolist() for row in links)))


def iterate_word_numbers(
    model: SentencePieceModel, unit: str, texts: Sequence[str], ends: Sequence[Sequence[int]] | None = None
) -> Iterator[np.ndarray]:
    """Yields for each token of each text the number of its word, or `NO_WORD`, as evaluation finds it: from the place
    where the token ends in the text.

    Args:
        model: the encoder of the texts.
        unit: one of `WORD_UNITS`.
        texts: the sentences.
        ends: the byte after each token; None for the tokens that the model gives.
    """
    own = model.ends(texts) if ends is None or unit == "subwords" else ()
    words = own if unit == "subwords" else (word_ends(text, unit) for text in texts)
    return map(word_numbers, words, own if ends is None else ends)


def link_tokens(source: np.ndarray, target: np.ndarray, word_links: Iterable[Link]) -> np.ndarray:
    """Links every token of a word with every token of each word that it is linked with, given the word of each token.

    Links that point outside the sentence are left out. Words that share a token are linked together, as in
    `alignment.word_matrix`.
    """
    sides = _tokens_of_words(source), _tokens_of_words(target)
    linked = {tokens for link in word_links for tokens in product(*map(_linked_tokens, sides, link))}
    return np.array(sorted(linked), int).ravel()


def _tokens_of_words(words: np.ndarray) -> dict[int, list[int]]:
    tokens: dict[int, list[int]] = {}
    for token, word in enumerate(words.tolist()):
        if word != NO_WORD:
            tokens.setdefault(word, []).append(token)
    return tokens


def _linked_tokens(tokens: Mapping[int, list[int]], word: int) -> Collection[int]:
    if word in tokens:
        return tokens[word]
    # A token belongs to the last of its words.
    return next((own for last, own in tokens.items() if last > word), [])
