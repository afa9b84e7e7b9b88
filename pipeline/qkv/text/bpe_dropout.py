"""BPE-dropout (Provilkov et al. 2020): words as subwords, with merges left out at random."""

from collections.abc import Iterator, Sequence

import numpy as np

from .tokenizer import EOS, UNK, Tokenizer

CELLS = 1 << 20  # symbols that are merged at a time, to bound memory


class BPEDropout:
    """Draws the subwords of words.

    Every pair of neighbouring symbols that could be merged is left out with a fixed probability when it first becomes a
    pair, as in SentencePiece; of the others, the pair with the best score is merged first, and the leftmost of equals.

    Args:
        pieces: the spelling of each id; those up to EOS are special.
        scores: the score of each id.
        dropout: the probability, from 0 to 1.
    """

    def __init__(self, pieces: Sequence[str], scores: Sequence[float], dropout: float) -> None:
        self.dropout = dropout
        self._ids = {piece: token for token, piece in enumerate(pieces) if token > EOS}
        self.lengths = np.array([1 if token == UNK else len(piece) for token, piece in enumerate(pieces)])
        self._padding = len(pieces)
        merges = sorted(
            (self._key(self._ids[piece[:cut]], self._ids[piece[cut:]]), scores[token], token)
            for piece, token in self._ids.items()
            for cut in range(1, len(piece))
            if piece[:cut] in self._ids and piece[cut:] in self._ids
        )
        # The last one stands for no merge.
        self._keys = np.array([key for key, _, _ in merges] + [np.iinfo(np.int64).max])
        self._scores = np.array([score for _, score, _ in merges] + [-np.inf])
        self._merged = np.array([token for _, _, token in merges] + [UNK])

    @classmethod
    def of(cls, tokenizer: Tokenizer, dropout: float) -> "BPEDropout":
        """Makes one of a tokenizer's merges; no text is cut into its tags."""
        pieces = tokenizer.pieces(range(tokenizer.vocabulary_size))
        return cls(["" if piece in tokenizer.tags else piece for piece in pieces], tokenizer.scores, dropout)

    def draw(self, words: Sequence[str], index: np.ndarray, generator: np.random.Generator) -> list[np.ndarray]:
        """Draws the ids of `words[i]` for each i of `index`.

        Args:
            words: different words, each with its mark in front.
            index: int `(n,)`, indices of `words`.
            generator: what draws.
        """
        lengths = np.array([len(word) for word in words])[index]
        drawn: list[np.ndarray] = [np.zeros(0, int)] * len(index)
        symbols = [np.array([self._ids.get(character, UNK) for character in word]) for word in words]
        for rows in _chunks(lengths):
            padded = np.full((len(rows), lengths[rows].max()), self._padding)
            for row, occurrence in zip(padded, rows, strict=True):
                row[: lengths[occurrence]] = symbols[index[occurrence]]
            for row, ids in self._merge(padded, generator):
                drawn[rows[row]] = ids[ids != self._padding]
        return drawn

    def _merge(self, ids: np.ndarray, generator: np.random.Generator) -> Iterator[tuple[int, np.ndarray]]:
        """Merges the symbols of rows until no pair is left, one pair of every row in turn; yields the rows that are
        done, with their numbers."""
        rows = np.arange(len(ids))
        pairs = self._draw_pairs(ids[:, :-1], ids[:, 1:], generator)
        while pairs.shape[1]:
            scores = self._scores[pairs]
            best = scores.argmax(1)
            going = np.take_along_axis(scores, best[:, None], 1)[:, 0] > -np.inf
            yield from zip(rows[~going].tolist(), ids[~going], strict=True)
            rows, ids, pairs, best = rows[going], ids[going], pairs[going], best[going]
            each = np.arange(len(rows))
            ids[each, best] = self._merged[pairs[each, best]]
            ids, pairs = _without(ids, best + 1), _without(pairs, best)
            last = pairs.shape[1]
            for column, has_pair in ((best - 1, best > 0), (best, best < last)):
                at = each[has_pair], column[has_pair]
                pairs[at] = self._draw_pairs(ids[at], ids[at[0], at[1] + 1], generator)
        yield from zip(rows.tolist(), ids, strict=True)

    def _draw_pairs(self, left: np.ndarray, right: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Returns the index of each pair's merge; the last one where there is none or it is left out."""
        keys = self._key(left, right)
        found = np.searchsorted(self._keys, keys)
        left_out = (self._keys[found] != keys) | (generator.random(keys.shape) < self.dropout)
        return np.where(left_out, len(self._keys) - 1, found)

    def _key(self, left, right):
        return left * (self._padding + 1) + right


def _chunks(lengths: np.ndarray) -> Iterator[np.ndarray]:
    """Yields the indices of words of about the same length, `CELLS` symbols at a time."""
    order = np.argsort(lengths, kind="stable")
    while len(order):
        fitting = int(np.sum(lengths[order] * np.arange(1, len(order) + 1) <= CELLS))
        chunk, order = np.split(order, [max(fitting, 1)])
        yield chunk


def _without(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Takes one column out of every row."""
    kept = np.ones(rows.shape, bool)
    kept[np.arange(len(rows)), columns] = False
    return rows[kept].reshape(len(rows), rows.shape[1] - 1)
