"""Subword regularization (Kudo 2018): words as subwords of a unigram model, drawn by their probability."""

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from .tokenizer import EOS, UNK

UNKNOWN_PENALTY = 10.0  # below the lowest score, as in SentencePiece


class UnigramSampling:
    """Draws the subwords of words.

    Segmentations are drawn in proportion to their probability to the power of `alpha`, among all that there are:
    forwards the probabilities of all ways to each character are summed, and backwards one of them is drawn.

    Args:
        pieces: the spelling of each id; those up to EOS are special.
        scores: the log-probability of each id.
        alpha: the power, at least 0; the smaller, the more alike are the probabilities.
    """

    def __init__(self, pieces: Sequence[str], scores: Sequence[float], alpha: float) -> None:
        self._ids = {piece: token for token, piece in enumerate(pieces) if token > EOS}
        self.lengths = np.array([1 if token == UNK else len(piece) for token, piece in enumerate(pieces)])
        self._scores = alpha * np.array(scores)
        self._scores[UNK] = alpha * (min(scores[EOS + 1 :]) - UNKNOWN_PENALTY)
        self._longest = max(map(len, self._ids))

    def draw(self, words: Sequence[str], index: np.ndarray, generator: np.random.Generator) -> list[np.ndarray]:
        """Draws the ids of `words[i]` for each i of `index`.

        Args:
            words: different words, each with its mark in front.
            index: int `(n,)`, indices of `words`.
            generator: what draws.
        """
        # The nodes of a word are the places before, between and behind its characters; every node but the first has
        # an edge for each token that may end there.
        first = np.array([0, *accumulate(len(word) + 1 for word in words)])
        edges = [edge for node, word in zip(first, words, strict=False) for edge in self._edges(word, int(node))]
        tokens, starts, ends, shares = (np.array(column) for column in zip(*edges, strict=True))
        last_edge = np.searchsorted(ends, np.arange(first[-1]), side="right") - 1
        keys = ends + shares

        node, begin = first[index + 1] - 1, first[index]
        drawn: list[list[int]] = [[] for _ in index]
        going = np.arange(len(index))
        while len(going):
            found = np.searchsorted(keys, node + generator.random(len(node)), side="right")
            found = np.minimum(found, last_edge[node])
            for row, token in zip(going.tolist(), tokens[found].tolist(), strict=True):
                drawn[row].append(token)
            node = starts[found]
            inside = node > begin
            going, node, begin = going[inside], node[inside], begin[inside]
        return [np.array(row[::-1], int) for row in drawn]

    def _edges(self, word: str, first: int) -> list[tuple[int, int, int, float]]:
        """Returns `(token, start, end, share)` of each edge, by their ends; shares are cumulative probabilities."""
        edges = []
        sums = [0.0]
        for end in range(1, len(word) + 1):
            begins = range(max(0, end - self._longest), end)
            ending = [(self._ids[word[begin:end]], begin) for begin in begins if word[begin:end] in self._ids]
            if word[end - 1] not in self._ids:
                ending.append((UNK, end - 1))
            scores = np.array([self._scores[token] + sums[begin] for token, begin in ending])
            sums.append(float(np.logaddexp.reduce(scores)))
            shares = np.cumsum(np.exp(scores - sums[end])).tolist()
            edges += [
                (token, first + begin, first + end, share) for (token, begin), share in zip(ending, shares, strict=True)
            ]
        return edges
