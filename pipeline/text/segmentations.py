"""Segmentations drawn at random: the same text in other subwords.

SentencePiece draws them too, but from version 0.2.2 on its generator takes something of its own from every process
besides the seed, so the same seed would train another model in every process.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Protocol

import numpy as np

from .bpe_dropout import BPEDropout
from .encoded import EncodedSentences, chunks
from .tokenizer import UNK, WORD_START, Tokenizer
from .unigram_sampling import UnigramSampling
from .words import words_of


class WordSampler(Protocol):
    """What draws the subwords of words."""

    def draw(self, words: Sequence[str], index: np.ndarray, generator: np.random.Generator) -> list[np.ndarray]:
        """Draws the ids of `words[i]` for each i of `index`."""
        ...


def make_word_sampler(tokenizer: Tokenizer, bpe_dropout: float, unigram_alpha: float) -> WordSampler:
    """Makes a `BPEDropout`, unless its probability is 0, or a `UnigramSampling`."""
    # No text is cut into tags.
    pieces = ["" if piece in tokenizer.tags else piece for piece in tokenizer.pieces(range(tokenizer.vocabulary_size))]
    if bpe_dropout:
        return BPEDropout(pieces, tokenizer.scores, bpe_dropout)
    return UnigramSampling(pieces, tokenizer.scores, unigram_alpha)


def sample_segmentation(
    sentences: Sequence[str], encoded: EncodedSentences, sampler: WordSampler, seed: int, longest: int
) -> EncodedSentences:
    """Encodes sentences in subwords that are drawn. The same seed gives the same ids, on every machine.

    Args:
        sentences: the text.
        encoded: its usual segmentation, taken for a sentence that becomes longer than `longest` tokens.
        sampler: draws the subwords of words.
        seed: the seed of the draws.
        longest: number of tokens.
    """
    generator = np.random.default_rng(seed)
    sampled = (ids for chunk in chunks(sentences) for ids in _sample(chunk, sampler, generator))
    return EncodedSentences.from_rows(
        ids if len(ids) <= longest else usual for ids, usual in zip(sampled, encoded, strict=True)
    )


def _sample(sentences: Sequence[str], sampler: WordSampler, generator: np.random.Generator) -> Iterator[np.ndarray]:
    """Draws the ids of each sentence; several unknown characters in a row are one token, as in SentencePiece."""
    words: dict[str, int] = {}
    index: list[int] = []
    ends = [0]
    for sentence in sentences:
        # SentencePiece takes the mark in a text for a space, too, and drops it at the end.
        marked = "".join(WORD_START + word for word in words_of(sentence)).rstrip(WORD_START)
        index += [words.setdefault(WORD_START + word, len(words)) for word in marked.split(WORD_START)[1:]]
        ends.append(len(index))
    drawn = sampler.draw(list(words), np.array(index, int), generator) if index else []
    for first, end in pairwise(ends):
        ids = np.concatenate([np.zeros(0, int), *drawn[first:end]])
        repeated = (ids == UNK) & (np.roll(ids, 1) == UNK)
        repeated[:1] = False
        yield ids[~repeated]
