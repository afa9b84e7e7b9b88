"""Segmentations drawn at random: the same text in other subwords.

SentencePiece draws them too, but from version 0.2.2 on its generator takes something of its own from every process
besides the seed, so the same seed would train another model in every process.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, pairwise

import numpy as np

from .bpe_dropout import BPEDropout
from .encoded import EncodedSentences, SentenceStore, chunks
from .line import visible
from .tokenizer import UNK, WORD_START
from .words import words_of

FindWords = Callable[[Sequence[str], Sequence[np.ndarray]], Iterable[np.ndarray]]
"""Takes sentences and the byte after each of their tokens, and returns the word of each token."""


def sample_segmentation(
    sentences: Sequence[str],
    encoded: EncodedSentences,
    sampler: BPEDropout,
    seed: int,
    longest: int,
    words: tuple[EncodedSentences, FindWords] | None = None,
) -> tuple[EncodedSentences, EncodedSentences | None]:
    """Encodes sentences in subwords that are drawn. The same seed gives the same ids, on every machine.

    Args:
        sentences: the text.
        encoded: its usual segmentation, taken for a sentence that becomes longer than `longest` tokens.
        sampler: draws the subwords of words.
        seed: the seed of the draws.
        longest: number of tokens.
        words: the word of each token of `encoded`, and what finds those of other tokens; None where nobody asks.

    Returns:
        The ids, and the word of each.
    """
    generator, first = np.random.default_rng(seed), 0
    ids, numbers = SentenceStore(np.int32), SentenceStore(np.int32)
    for chunk in chunks(sentences):
        rows, ends = zip(*_sample(chunk, sampler, generator), strict=True)
        fits = [len(row) <= longest for row in rows]
        _add_rows(ids, fits, rows, encoded, first)
        if words is not None:
            usual, find_words = words
            _add_rows(numbers, fits, [*find_words(chunk, [*map(_byte_ends, chunk, ends)])], usual, first)
        first += len(chunk)
    return ids.finish(), None if words is None else numbers.finish()


def _add_rows(
    store: SentenceStore, fits: Sequence[bool], drawn: Sequence[np.ndarray], usual: EncodedSentences, first: int
) -> None:
    """Adds the rows that were drawn, and the usual ones from `first` on in place of those that do not fit."""
    pairs = enumerate(zip(drawn, fits, strict=True), first)
    rows = [row if fitting else usual[number] for number, (row, fitting) in pairs]
    store.add(np.concatenate(rows), np.array([*map(len, rows)], np.int64))


def _byte_ends(sentence: str, ends: np.ndarray) -> np.ndarray:
    """Returns the byte of the text after each token.

    Args:
        sentence: the text.
        ends: the character after each token, of the words with their marks in front.
    """
    after: list[int] = []
    position = 0
    for word in sentence.split(" "):
        if word:
            after += accumulate((len(character.encode()) for character in word), initial=position)
        position += len(word.encode()) + 1
    return np.array(after, np.int64)[ends - 1]


def _sample(
    sentences: Sequence[str], sampler: BPEDropout, generator: np.random.Generator
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Draws the ids of each sentence, and the character after each; several unknown characters in a row are one token,
    as in SentencePiece."""
    words: dict[str, int] = {}
    index: list[int] = []
    ends = [0]
    for sentence in sentences:
        # SentencePiece takes the mark in a text for a space, too, and drops it at the end.
        marked = "".join(WORD_START + word for word in words_of(visible(sentence))).rstrip(WORD_START)
        index += [words.setdefault(WORD_START + word, len(words)) for word in marked.split(WORD_START)[1:]]
        ends.append(len(index))
    drawn = sampler.draw(list(words), np.array(index, int), generator) if index else []
    for first, end in pairwise(ends):
        ids = np.concatenate([np.zeros(0, int), *drawn[first:end]])
        repeated = (ids == UNK) & (np.roll(ids, 1) == UNK)
        repeated[:1] = False
        yield ids[~repeated], np.cumsum(sampler.lengths[ids])[~np.roll(repeated, -1)]
