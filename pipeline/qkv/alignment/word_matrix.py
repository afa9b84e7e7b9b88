"""Attention between words, computed from attention between tokens.

Row t of cross-attention is computed from input token t to predict output token t. Label side `output` assigns the row
to the word of output token t, label side `input` to the word of input token t.

Several words may share a token: if characters count as words, a subword has several words. They have the same
attention, so they form a group and get the same links. A token belongs to the last of its words
(`Record.source_words`). Words in which no token ends are in the group of the next word in which a token ends.

Letters: T target tokens, S source tokens; `...` any number of leading axes, such as (layer, head).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..inspection.record import Record


def word_counts(record: Record) -> tuple[int, int]:
    """Returns the numbers of source words and of target words of a record.

    Words after the last word with a token are not counted: the model may have cut the sentence.
    """
    source, target = (
        1 + max((word for word in words if word is not None), default=-1)
        for words in (record.source_words, record.target_words)
    )
    return source, target


def heads_and_mean(record: Record, site: str = "cross") -> np.ndarray:
    """Returns the attention of a site with one more head for each layer: the mean of the layer's heads, which is last.

    Args:
        record: the sentence pair.
        site: a site whose rows are target tokens and whose columns are source tokens.

    Returns:
        `(layers, heads + 1, T, S)`.
    """
    weights = record.attention[site]
    return np.concatenate([weights, weights.mean(axis=1, keepdims=True)], axis=1)


def row_words(target_words: Sequence[int | None], side: str) -> list[int | None]:
    """Returns the target word of each of the T rows.

    Args:
        target_words: the word of each output token; None for EOS (`Record.target_words`).
        side: the label side. For `output`, row t belongs to output token t. For `input`, row t belongs to output token
            t - 1, which is input token t; row 0 belongs to BOS. In a truncated sentence, no row belongs to the last
            output token on the side `input`.

    Returns:
        The index of the word of each row; None for a row of EOS or BOS.
    """
    return [*target_words] if side == "output" else [None, *target_words][: len(target_words)]


def word_matrix(
    weights: np.ndarray,
    source_words: Sequence[int | None],
    row_words: Sequence[int | None],
    n_source_words: int,
    n_target_words: int,
) -> np.ndarray:
    """Computes attention between words: summed over the tokens of a source word, averaged over those of a target word.

    Columns without a word, such as EOS, are left out. Rows are not normalised again, so a row may sum to less than 1.

    Args:
        weights: `(..., T, S)`.
        source_words: the word of each of the S columns, from 0; None for a column without a word.
        row_words: the word of each of the T rows, see `row_words`; None for a row without a word.
        n_source_words: the number of words of the source.
        n_target_words: the number of words of the target.

    Returns:
        `(..., target words, source words)`. The row of a target word without a token is zero.
    """
    rows, columns = _membership(row_words, n_target_words), _membership(source_words, n_source_words)
    pieces = np.maximum(rows.sum(axis=0), 1)
    return (rows / pieces).T @ (weights @ columns)


def eos_argmax_counts(
    weights: np.ndarray, source_words: Sequence[int | None], row_words: Sequence[int | None]
) -> tuple[np.ndarray, int]:
    """Counts the rows whose largest weight `word_matrix` leaves out.

    Args:
        weights: `(..., T, S)`.
        source_words: the word of each column; None for a column without a word, such as EOS.
        row_words: the word of each row; None for a row without a word.

    Returns:
        `(on_eos, rows)`: the number of rows with a word whose largest weight is in a column without a word, int
        `(...)`; and the number of all rows with a word. Both are 0 if the source has no words.
    """
    wordless = np.array([word is None for word in source_words], bool)
    with_word = np.array([word is not None for word in row_words], bool) & (not wordless.all())
    on_eos = wordless[weights[..., with_word, :].argmax(axis=-1)].sum(axis=-1)
    return on_eos, int(with_word.sum())


def _membership(words: Sequence[int | None], count: int) -> np.ndarray:
    """Returns a float matrix `(tokens, count)`: 1 if the token belongs to the word, else 0."""
    numbers = np.array([-1 if word is None else word for word in words], int)
    return (numbers[:, None] == np.arange(count)).astype(np.float32)


class WordGroups(NamedTuple):
    """The words of one side of a sentence pair, in groups of words that share a token. Groups are numbered from 0.

    Attributes:
        of_tokens: the group of each token; None for EOS.
        number: the number of groups. The last group has no token: it holds the words after the last token.
        of_words: the group of each word, int `(words,)`.
    """

    of_tokens: Sequence[int | None]
    number: int
    of_words: np.ndarray


def group_words(words: Sequence[int | None], count: int) -> WordGroups:
    """Divides the words of one side into groups of words that share a token.

    Args:
        words: the word of each token; None for EOS.
        count: the number of words.
    """
    last_words = sorted({word for word in words if word is not None})
    groups = {word: group for group, word in enumerate(last_words)}
    of_tokens = [None if word is None else groups[word] for word in words]
    return WordGroups(of_tokens, len(last_words) + 1, np.searchsorted(last_words, np.arange(count)))


def spread_links(links: np.ndarray, source: WordGroups, target: WordGroups) -> np.ndarray:
    """Returns links or weights between words: each word gets the values of its group.

    Args:
        links: `(..., target groups, source groups)`, of any type.
        source: the groups of the source words.
        target: the groups of the target words.

    Returns:
        `(..., target words, source words)`. Words after the last token get the links of the last group, in which
        `grouped_attention` has zeros.
    """
    return np.take(np.take(links, target.of_words, axis=-2), source.of_words, axis=-1)


def grouped_attention(
    record: Record, weights: np.ndarray, side: str, counts: tuple[int, int] | None = None
) -> tuple[np.ndarray, WordGroups, WordGroups]:
    """Computes attention between groups of words. `spread_links` turns it into attention between words.

    Args:
        record: the sentence pair.
        weights: attention of the record, `(..., T, S)`.
        side: the label side, see `row_words`.
        counts: the numbers of source words and of target words; by default `word_counts(record)`.

    Returns:
        The attention `(..., target groups, source groups)`, the groups of the source and the groups of the target.
    """
    source, target = map(group_words, (record.source_words, record.target_words), counts or word_counts(record))
    rows = row_words(target.of_tokens, side)
    return word_matrix(weights, source.of_tokens, rows, source.number, target.number), source, target
