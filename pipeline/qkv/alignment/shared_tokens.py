"""Words that share a token, as characters share a subword: attention cannot tell them apart, so they are linked
together.

A token belongs to the last of its words (`Record.source_words`). The words before it in which no token ends are in the
same group.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class WordGroups(NamedTuple):
    """The words of one side of a sentence in groups, numbered from 0.

    Attributes:
        of_tokens: the group of each token, None for EOS.
        number: number of groups.
        of_words: int `(words,)`, the group of each word, -1 for words without a token; None where every group is a
            word of the same number.
    """

    of_tokens: Sequence[int | None]
    number: int
    of_words: np.ndarray | None = None


def group_words(words: Sequence[int | None], count: int) -> WordGroups:
    """Groups the words of one side.

    Args:
        words: the word of each token, None for EOS.
        count: number of words.
    """
    last_words = sorted({word for word in words if word is not None})
    if not last_words or last_words[-1] == len(last_words) - 1:
        return WordGroups(words, count)
    of_words = np.searchsorted(last_words, np.arange(count))
    groups = {word: group for group, word in enumerate(last_words)}
    return WordGroups(
        [None if word is None else groups[word] for word in words],
        len(last_words),
        np.where(of_words < len(last_words), of_words, -1),
    )


def spread_links(links: np.ndarray, source: WordGroups, target: WordGroups) -> np.ndarray:
    """Returns the links of words: every word of a group has the links, or the weights, of its group.

    Args:
        links: bool or float `(..., target groups, source groups)`.
        source: the groups of the source.
        target: those of the target.

    Returns:
        `(..., target words, source words)`, of the same type; zero for words without a token.
    """
    for axis, groups in ((-2, target.of_words), (-1, source.of_words)):
        if groups is not None:
            links = np.take(links, groups, axis=axis) * np.expand_dims(groups >= 0, -1 if axis == -2 else 0)
    return links
