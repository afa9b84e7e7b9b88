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
    """Links the tokens of pairs by the links of their words. A large corpus is linked in several processes.

    Args:
        corpus: the pairs.
        links: the word links of each pair, in the same order. All possible links are used. They must not point outside
            the sentences.
        models: the subword models of sources and targets.
        units: the units that count as words on each side.
    """

    def __init__(
        self,
        corpus: Corpus,
        links: Iterable[GoldAlignment],
        models: tuple[SentencePieceModel, SentencePieceModel],
        units: WordUnits,
    ) -> None:
        self._links = EncodedSentences.from_rows(np.array(sorted(gold.possible), int).ravel() for gold in links)
        self._corpus = corpus
        self._sides = tuple(zip(models, units, strict=True))

    def link(self, pairs: EncodedPairs, ends: Sequence[EncodedSentences | None] = (None, None)) -> EncodedPairs:
        """Returns encoded pairs with the links of their tokens; see `text.tokens.encoding.EncodedPairs`.

        Args:
            pairs: the encoded pairs of the corpus, in its order.
            ends: for each side, source and target, the number of bytes of the sentence up to the end of each token.
                None for a side that is encoded in the usual segmentation of its model.
        """

        def shards_to_link() -> Iterator[Any]:
            links = iter(self._links)
            ends_of_sides = [None if side is None else iter(side) for side in ends]
            for texts in shards(self._corpus):
                size = len(texts[0])
                shard_ends = [None if side is None else list(islice(side, size)) for side in ends_of_sides]
                yield texts, shard_ends, list(islice(links, size))

        processes = usable_cores() if is_large(self._corpus) else 1
        rows = chain.from_iterable(in_processes(partial(_link_shard, self._sides), shards_to_link(), processes))
        return pairs._replace(links=EncodedSentences.from_rows(rows))


def _link_shard(sides: Sequence[tuple[SentencePieceModel, str]], shard: Any) -> list[np.ndarray]:
    """Returns the token links of each pair of a shard, see `link_tokens`.

    Args:
        sides: the subword model and the unit of words of each side.
        shard: `(sentences, ends, links)`: the sentences of each side, the ends of their tokens as in
            `TokenLinker.link`, and the word links of each pair.
    """
    texts, ends, links = shard
    source, target = (
        iterate_word_numbers(model, unit, sentences, ends_of_side)
        for (model, unit), sentences, ends_of_side in zip(sides, texts, ends, strict=True)
    )
    return list(map(link_tokens, source, target, (row.reshape(-1, 2).tolist() for row in links)))


def iterate_word_numbers(
    model: SentencePieceModel, unit: str, texts: Sequence[str], ends: Sequence[Sequence[int]] | None = None
) -> Iterator[np.ndarray]:
    """Yields for each text the number of the word of each token, or `NO_WORD`, int `(tokens,)`.

    It is the word in which the token ends, as in evaluations; see `text.tokens.words.word_numbers`.

    Args:
        model: the subword model of the texts.
        unit: the unit that counts as a word, a key of `config.choices.text.WORD_UNITS`.
        texts: the sentences.
        ends: for each token the number of bytes of its sentence up to the token's end. None for the tokens of `model`.
    """
    usual_ends = model.ends(texts) if ends is None or unit == "subwords" else ()
    ends_of_words = usual_ends if unit == "subwords" else (word_ends(text, unit) for text in texts)
    return map(word_numbers, ends_of_words, usual_ends if ends is None else ends)


def link_tokens(source: np.ndarray, target: np.ndarray, word_links: Iterable[Link]) -> np.ndarray:
    """Links every token of a source word with every token of the target words that it is linked with.

    Words that share a token are linked together, as in `alignment.word_matrix`. Links that point outside the sentence
    are dropped.

    Args:
        source: the number of the word of each source token, or `NO_WORD`, int `(tokens,)`.
        target: the same for target tokens.
        word_links: the links `(source word, target word)`.

    Returns:
        The numbers of linked tokens: `source token, target token, source token, ...`, int `(2 * links,)`.
    """
    sides = _tokens_of_words(source), _tokens_of_words(target)
    linked = {tokens for link in word_links for tokens in product(*map(_linked_tokens, sides, link))}
    return np.array(sorted(linked), int).ravel()


def _tokens_of_words(words: np.ndarray) -> dict[int, list[int]]:
    """Returns the numbers of the tokens of each word, by the number of the word.

    Args:
        words: the number of the word of each token, or `NO_WORD`, int `(tokens,)`.
    """
    tokens: dict[int, list[int]] = {}
    for token, word in enumerate(words.tolist()):
        if word != NO_WORD:
            tokens.setdefault(word, []).append(token)
    return tokens


def _linked_tokens(tokens: Mapping[int, list[int]], word: int) -> Collection[int]:
    """Returns the tokens of a word, or of the next word that has tokens; none if there is no such word.

    A token that holds several words is listed under the last of them.
    """
    if word in tokens:
        return tokens[word]
    return next((tokens_of_word for number, tokens_of_word in tokens.items() if number > word), [])
