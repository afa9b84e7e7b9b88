"""Gold links between words as scores of source tokens, for measures over the tokens of a model."""

import numpy as np

from ..inspection.record import Record
from ..text.corpora.word_links import GoldAlignment
from .word_matrix import group_words

SURE, POSSIBLE = 1.0, 0.5
NEARBY = (
    1e-6  # times what halves with each token of distance: it orders tokens, and leaves the shares of links as they are
)


def score_gold(record: Record, gold: GoldAlignment, word_counts: tuple[int, int]) -> np.ndarray:
    """Scores the source tokens by the gold links of their words.

    Args:
        record: of a target that was given, since gold links belong to its words.
        gold: the links; all are inside the sentence.
        word_counts: (source words, target words).

    Returns:
        float `(T, n)`, without EOS of the source: 1 where the words of both tokens have a sure link, 0.5 where they
        have a possible one.
    """
    source, target = map(group_words, (record.source_words, record.target_words), word_counts)
    # `None`, EOS, becomes a group of its own that no link names.
    columns, rows = (
        np.array([side.number if group is None else group for group in side.of_tokens], int)
        for side in (source, target)
    )
    groups = np.zeros((target.number + 1, source.number + 1))
    for links, score in ((gold.possible, POSSIBLE), (gold.sure, SURE)):
        for i, j in links:
            place = tuple(
                word if side.of_words is None else int(side.of_words[word]) for side, word in ((target, j), (source, i))
            )
            if min(place) >= 0:  # a word without a token
                groups[place] = max(groups[place], score)
    scores = groups[rows][:, columns[:-1]]
    places = np.arange(scores.shape[1])
    near = 2.0 ** -np.abs(places[:, None] - places)
    return np.where(scores > 0, scores, NEARBY * ((scores > 0)[:, None, :] * near).max(axis=-1, initial=0.0))
