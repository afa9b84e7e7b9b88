"""Attention between words, from attention between their subwords.

Row t of cross-attention was computed from input token t to predict output token t. Read on the *output* side it aligns
the word being predicted, on the *input* side the word just read.

Attention cannot tell words apart that share a token, as characters share a subword, so they are linked together. A
token belongs to the last of its words (`Record.source_words`). The words before it in which no token ends are in the
same group.

Letters: T target tokens, S source tokens; `...` is any number of leading axes, as (layer, head).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..inspection.record import Record


def word_counts(record: Record) -> tuple[int, int]:
    """Returns the number of words of source and target, counted up to the last word that has a token."""
    source, target = (
        1 + max((word for word in words if word is not None), default=-1)
        for words in (record.source_words, record.target_words)
    )
    return source, target


def heads_and_mean(record: Record, site: str = "cross") -> np.ndarray:
    """Returns the attention of a site, the mean of each layer's heads as its last head: `(layer, heads + 1, T, S)`."""
    weights = record.attention[site]
    return np.concatenate([weights, weights.mean(axis=1, keepdims=True)], axis=1)


def row_words(target_words: Sequence[int | None], side: str) -> list[int | None]:
    """Returns the target word that each of the T rows aligns.

    Args:
        target_words: word of each *output* token, None for EOS (`Record.target_words`).
        side: `output`: row t aligns output token t. `input`: row t aligns input token t, which is output token t - 1;
            the first row's is BOS. The last token's row is then the one that predicts EOS; a truncated sentence lacks
            that row, so its last token is not aligned.
    """
    return [*target_words] if side == "output" else [None, *target_words][: len(target_words)]


def word_matrix(
    weights: np.ndarray,
    source_words: Sequence[int | None],
    row_words: Sequence[int | None],
    n_source_words: int,
    n_target_words: int,
) -> np.ndarray:
    """Computes attention between words: the sum over a source word's pieces, the mean over a target word's pieces.

    Columns without a word (EOS) are left out and the rest is not renormalised, so a row may sum to less than 1.

    Args:
        weights: `(..., T, S)`.
        source_words: word of each of the S columns, or None.
        row_words: word of each of the T rows, or None; see `row_words`.
        n_source_words: words of the source sentence.
        n_target_words: words of the target sentence.

    Returns:
        `(..., target words, source words)`; the row of a target word that has no token is zero.
    """
    rows, columns = _membership(row_words, n_target_words), _membership(source_words, n_source_words)
    pieces = np.maximum(rows.sum(axis=0), 1)
    return (rows / pieces).T @ (weights @ columns)


def eos_argmax_counts(
    weights: np.ndarray, source_words: Sequence[int | None], row_words: Sequence[int | None]
) -> tuple[np.ndarray, int]:
    """Counts how often `word_matrix` hides the largest weight.

    Returns:
        The number of words' rows whose argmax is a column without a word, such as EOS, `(...)`, and of all words' rows;
        none if the source has no word.
    """
    wordless = np.array([word is None for word in source_words], bool)
    with_word = np.array([word is not None for word in row_words], bool) & (not wordless.all())
    on_eos = wordless[weights[..., with_word, :].argmax(axis=-1)].sum(axis=-1)
    return on_eos, int(with_word.sum())


def _membership(words: Sequence[int | None], count: int) -> np.ndarray:
    """Returns a matrix `(tokens, words)`: 1 where the token belongs to the word."""
    numbers = np.array([-1 if word is None else word for word in words], int)
    return (numbers[:, None] == np.arange(count)).astype(np.float32)


class WordGroups(NamedTuple):
    """The words of one side of a sentence in groups, numbered from 0.

    Attributes:
        of_tokens: the group of each token, None for EOS.
        number: number of groups, the last of which has no token and stands for words without any.
        of_words: int `(words,)`, the group of each word.
    """

    of_tokens: Sequence[int | None]
    number: int
    of_words: np.ndarray


def group_words(words: Sequence[int | None], count: int) -> WordGroups:
    """Groups the words of one side, which has so many, by the word of each token, None for EOS."""
    last_words = sorted({word for word in words if word is not None})
    groups = {word: group for group, word in enumerate(last_words)}
    of_tokens = [None if word is None else groups[word] for word in words]
    return WordGroups(of_tokens, len(last_words) + 1, np.searchsorted(last_words, np.arange(count)))


def spread_links(links: np.ndarray, source: WordGroups, target: WordGroups) -> np.ndarray:
    """Gives every word the links, or the weights, of its group: `(..., target groups, source groups)` to
    `(..., target words, source words)`; zero for words without a token."""
    return np.take(np.take(links, target.of_words, axis=-2), source.of_words, axis=-1)


def grouped_attention(
    record: Record, weights: np.ndarray, side: str, counts: tuple[int, int] | None = None
) -> tuple[np.ndarray, WordGroups, WordGroups]:
    """Computes attention between groups of words; see `spread_links`.

    Args:
        record: the sentence.
        weights: `(..., T, S)`, of its cross-attention.
        side: the target tokens that the rows align, see `row_words`.
        counts: (source words, target words); by default those that have a token.

    Returns:
        `(..., target groups, source groups)`, and the groups of the source and of the target.
    """
    source, target = map(group_words, (record.source_words, record.target_words), counts or word_counts(record))
    rows = row_words(target.of_tokens, side)
    return word_matrix(weights, source.of_tokens, rows, source.number, target.number), source, target
