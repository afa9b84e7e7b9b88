"""The probability that two words are linked, from the cross-attention of a layer's heads.

Attention weights are shares of a row, no probabilities of links. What tells right links from wrong ones is a weight
beside its rivals (the largest other weight of the target word, and the largest other one of the source word), and
whether the words before and after are linked too, as in phrases (Vogel et al. 1996 make use of that in another way).
The logarithms of these, read on both label sides, go into a logistic regression (as Platt 1999 does with one number):
weight and rivals of each head of the layer and of the mean of its heads, and the mean's weights between the neighbours
of both words.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from ..config.names.inspection import LABEL_SIDES
from ..inspection.record import Record
from ..statistics.logistic_regression import probability_of
from ..text.corpora.word_links import Link
from .links import as_links
from .shared_tokens import group_words, spread_links
from .word_matrix import heads_and_mean, row_words, word_counts, word_matrix

LEAST_WEIGHT = 0.01
"""Words with no more weight than this between them, of any head on either side, are linked with probability 0."""

_ADDED = 1e-3  # to weights before their logarithm, since some are 0
FEATURES = ("weight", "target_rival", "source_rival")
"""Of each head and the mean."""
NEIGHBOURS = tuple(steps for steps in product((-1, 0, 1), repeat=2) if any(steps))
"""How far the neighbours of (target word, source word) are from it."""


@dataclass(frozen=True)
class LinkProbabilities:
    """A logistic regression from attention to the probability of links.

    Args:
        layers: the layer whose cross-attention is read, of one model, or of two models of opposite directions.
        coefficients: of `link_features` of each model in turn, and last the constant.
    """

    layers: tuple[int, ...]
    coefficients: tuple[float, ...]

    def matrix(self, records: Sequence[Record]) -> np.ndarray:
        """Returns the probabilities `(target words, source words)` of one sentence pair.

        Args:
            records: its record of each model; the second one's source is the target of the first.

        Raises:
            ValueError: the records have another number of heads.
        """
        features, candidates = pair_features(records, self.layers)
        if features.shape[-1] + 1 != len(self.coefficients):
            raise ValueError(
                f"expected records of {len(self.coefficients) - 1} features, found {features.shape[-1]}: the model has "
                "another number of heads"
            )
        return np.where(candidates, probability_of(features, np.array(self.coefficients)), 0.0)

    def links(self, records: Sequence[Record], threshold: float) -> set[Link]:
        """Returns the links with a probability above a threshold."""
        return as_links(self.matrix(records) > threshold)

    def of_links(self, links: Collection[Link], records: Sequence[Record]) -> dict[Link, float]:
        """Returns the probability of each link."""
        matrix = self.matrix(records)
        return {(i, j): float(matrix[j, i]) for i, j in sorted(links)}


def number_of_features(heads: int) -> int:
    """Returns how many features a layer of so many heads has."""
    return len(LABEL_SIDES) * ((heads + 1) * len(FEATURES) + len(NEIGHBOURS))


def pair_features(records: Sequence[Record], layers: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the features of every pair of words, those of one model after those of the other.

    Returns:
        float `(target words, source words, F)` of the first record, and bool `(target words, source words)`: which
        words have more than `LEAST_WEIGHT` between them.
    """
    features, candidates = zip(*map(link_features, records, layers), strict=True)
    if len(records) == 1:
        return features[0], candidates[0]
    shape = tuple(np.maximum(candidates[0].shape, candidates[1].T.shape))  # one may have cut the sentence short
    turned = _padded(candidates[1].T, shape)
    both = np.concatenate([_padded(features[0], shape), _padded(np.swapaxes(features[1], 0, 1), shape)], axis=-1)
    return both, _padded(candidates[0], shape) | turned


def link_features(record: Record, layer: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the features of every pair of words from one layer of the cross-attention.

    Returns:
        float `(target words, source words, 2 * (heads + 1) * 3 + 2 * 8)`: on each of `LABEL_SIDES`, for each head and
        last their mean, each of `FEATURES`; then on each side the mean's weights of `NEIGHBOURS`; and which words have
        more than `LEAST_WEIGHT` between them.
    """
    n_source, n_target = word_counts(record)
    source, target = group_words(record.source_words, n_source), group_words(record.target_words, n_target)
    heads = heads_and_mean(record)[layer]
    weights = np.concatenate(
        [
            word_matrix(heads, source.of_tokens, row_words(target.of_tokens, side), source.number, target.number)
            for side in LABEL_SIDES
        ]
    )
    neighbours = spread_links(_neighbours(weights[len(heads) - 1 :: len(heads)]), source, target)
    weights = spread_links(weights, source, target)
    of_heads = np.stack([weights, _largest_other(weights, -1), _largest_other(weights, -2)], axis=1)
    stacked = np.concatenate([*of_heads, neighbours])  # no `reshape(-1, ...)`: a sentence may have no words
    return np.moveaxis(np.log(stacked + _ADDED), 0, -1), np.any(weights > LEAST_WEIGHT, axis=0)


def _largest_other(weights: np.ndarray, axis: int) -> np.ndarray:
    """Returns for each weight the largest other one along an axis, 0 where there is no other."""
    if weights.shape[axis] < 2:
        return np.zeros_like(weights)
    second, largest = np.split(np.partition(weights, (-2, -1), axis=axis).take([-2, -1], axis=axis), 2, axis=axis)
    is_first = np.zeros(weights.shape, bool)
    np.put_along_axis(is_first, np.expand_dims(weights.argmax(axis=axis), axis), True, axis=axis)
    return np.where(is_first, second, largest)


def _neighbours(weights: np.ndarray) -> np.ndarray:
    """Returns of weights `(n, target words, source words)` those of each of `NEIGHBOURS`, 0 outside the sentence."""
    _, targets, sources = weights.shape
    framed = np.pad(weights, ((0, 0), (1, 1), (1, 1)))
    return np.concatenate(
        [framed[:, 1 + down : 1 + down + targets, 1 + right : 1 + right + sources] for down, right in NEIGHBOURS]
    )


def _padded(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Returns an array with more target and source words, to which nothing attends."""
    added = [(0, more - own) for own, more in zip(array.shape, shape, strict=False)]
    fill = False if array.dtype == bool else np.log(_ADDED)
    return np.pad(array, added + [(0, 0)] * (array.ndim - 2), constant_values=fill)
