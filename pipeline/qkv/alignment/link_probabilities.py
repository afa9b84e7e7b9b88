"""The probability that two words are linked, from the cross-attention of a layer's heads.

Attention weights are shares of a row, no probabilities of links. What tells right links from wrong ones is a weight
beside its rivals (the largest other weight of the target word, and the largest other one of the source word), and
whether the words before and after are linked too, as in phrases (Vogel et al. 1996 make use of that in another way).
The logarithms of these, read on both label sides, go into a logistic regression (as Platt 1999 does with one number):
weight and rivals of each head of the layer and of the mean of its heads, and the mean's weights between the neighbours
of both words.

It is calibrated on pairs with gold links. Every figure is cross-fitted: the pairs are dealt into `FOLDS` parts, and
each part's probabilities come from a fit on the others, so no pair is judged by what has seen it. A calibration is
kept as a file of JSON.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice, product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..config.choices.inspection import LABEL_SIDES
from ..files.json import write_json
from ..inspection.record import Record
from ..statistics.logistic_regression import (
    ReliabilityBin,
    calibration_error,
    fit_logistic,
    probability_of,
    reliability_table,
)
from ..text.corpora.word_links import GoldAlignment, Link
from .error_rate import AlignmentScore
from .word_matrix import grouped_attention, heads_and_mean, spread_links

LEAST_WEIGHT = 0.01
"""Words with no more weight than this between them, of any head on either side, are linked with probability 0."""

_ADDED = 1e-3  # to weights before their logarithm, since some are 0
NEIGHBOURS = tuple(steps for steps in product((-1, 0, 1), repeat=2) if any(steps))
"""How far the neighbours of (target word, source word) are from it."""


def probabilities_of(links: Collection[Link], matrix: np.ndarray) -> dict[Link, float]:
    """Returns links with their probabilities, from a matrix of `Calibration`."""
    return {(i, j): float(matrix[j, i]) for i, j in sorted(links)}


def pair_features(records: Sequence[Record], layers: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the features of every pair of words, one model's after the other's.

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
        last their mean, the weight and the largest other weights of the target and of the source word; then on each
        side the mean's weights of `NEIGHBOURS`. And which words have more than `LEAST_WEIGHT` between them.
    """
    heads = heads_and_mean(record)[layer]
    grouped = [grouped_attention(record, heads, side) for side in LABEL_SIDES]
    weights = np.concatenate([matrix for matrix, *_ in grouped])
    _, source, target = grouped[0]
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
    """Returns the weights at each of `NEIGHBOURS` of `(n, target words, source words)`; 0 outside the sentence."""
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


FORMAT = 1  # of the file
FOLDS = 5
LEAST_PAIRS = 30
"""Fewer pairs with gold links calibrate nothing."""

MOST_PAIRS = 1000
"""More make no difference to some ten or a hundred coefficients."""

_THRESHOLDS = np.arange(5, 96) / 100


@dataclass(frozen=True)
class Calibration:
    """Calibrated probabilities of links: a logistic regression from attention, fitted on all pairs.

    Args:
        layers: the layer whose cross-attention is read, of one model, or of two models of opposite directions.
        coefficients: of `link_features` of each model in turn, and last the constant.
        threshold: the links above it have the lowest error rate; 0.05 to 0.95.
        aer: that error rate on the pairs, cross-fitted; 0 to 1.
        reliability: the cross-fitted probabilities of all word pairs with `LEAST_WEIGHT`, compared with gold links.
        pairs: the number of sentence pairs.
        chosen_on: the name of their set.
        weights: SHA-256 of the weights of each model, empty where unknown.
    """

    layers: tuple[int, ...]
    coefficients: tuple[float, ...]
    threshold: float
    aer: float
    reliability: tuple[ReliabilityBin, ...]
    pairs: int
    chosen_on: str
    weights: tuple[str, ...] = ()

    def matrix(self, records: Sequence[Record]) -> np.ndarray:
        """Returns the probabilities `(target words, source words)` of one sentence pair.

        Args:
            records: its record of each model; the second one's source is the target of the first.
        """
        features, candidates = pair_features(records, self.layers)
        return np.where(candidates, probability_of(features, np.array(self.coefficients)), 0.0)

    @property
    def error(self) -> float:
        """The expected calibration error of `reliability`, see `error_of_links`; 0 to 1, or not-a-number."""
        return error_of_links(self.reliability)


class _Candidates(NamedTuple):
    """The word pairs of a sentence pair that have some weight between them.

    - features: `(n, F)`.
    - sure, possible: bool `(n,)`, whether each is such a gold link.
    - sure_links: the number of all sure gold links, those without weight included.
    """

    features: np.ndarray
    sure: np.ndarray
    possible: np.ndarray
    sure_links: int


def _find_candidates(records: Sequence[Record], layers: Sequence[int], gold: GoldAlignment) -> _Candidates:
    features, candidates = pair_features(records, layers)
    words = [(int(i), int(j)) for j, i in np.argwhere(candidates)]
    sure, possible = (np.array([link in links for link in words], bool) for links in (gold.sure, gold.possible))
    return _Candidates(features[candidates], sure, possible, len(gold.sure))


def calibrate(
    pairs: Iterable[Sequence[Record]], gold: Sequence[GoldAlignment], layers: Sequence[int], chosen_on: str
) -> Calibration | None:
    """Fits the probabilities of links, and the threshold above which links have the lowest error rate.

    A link is right if it is a sure or a possible one. The threshold suits the cross-fitted probabilities, the
    middle one of equals. A pair with nothing to compare, such as one with an empty side, does not count.

    Args:
        pairs: the record of each sentence pair, or the records of two models of opposite directions.
        gold: their gold links, in the same order.
        layers: the layer that is read of each model.
        chosen_on: the name of the set.

    Returns:
        The calibration; None of fewer than `LEAST_PAIRS` pairs, or if gold links tell no word pairs apart.
    """
    found = (_find_candidates(records, layers, links) for records, links in zip(pairs, gold, strict=False))
    sentences = list(islice((one for one in found if len(one.features) or one.sure_links), MOST_PAIRS))
    if len(sentences) < LEAST_PAIRS:
        return None
    fold = np.repeat(np.arange(len(sentences)) % FOLDS, [len(one.features) for one in sentences])
    features = np.concatenate([one.features for one in sentences])
    right = np.concatenate([one.possible for one in sentences])
    if not all({False, True} <= set(right[fold == number].tolist()) for number in range(FOLDS)):
        return None
    predicted = np.empty(len(right))
    for number in range(FOLDS):
        fitted = fit_logistic(features[fold != number], right[fold != number])
        predicted[fold == number] = probability_of(features[fold == number], fitted)
    sure = np.concatenate([one.sure for one in sentences])
    sure_links = sum(one.sure_links for one in sentences)
    coefficients = tuple(map(float, fit_logistic(features, right)))
    best = _best_threshold(predicted, sure, right, sure_links)
    reliability = tuple(reliability_table(predicted, right))
    return Calibration(tuple(layers), coefficients, *best, reliability, len(sentences), chosen_on)


def error_of_links(table: Iterable[ReliabilityBin]) -> float:
    """Returns the expected calibration error without the lowest bin: it holds nearly all word pairs, hardly any of
    which anybody takes for links, and would make every error look small. Not-a-number if there is no other bin."""
    return calibration_error([one for one in table if one.low > 0])


def _best_threshold(
    predicted: np.ndarray, sure: np.ndarray, possible: np.ndarray, sure_links: int
) -> tuple[float, float]:
    linked = [predicted > threshold for threshold in _THRESHOLDS]
    counts = [(one.sum(), sure_links, (one & sure).sum(), (one & possible).sum()) for one in linked]
    rates = np.nan_to_num(AlignmentScore.of(np.array(counts)).aer, nan=1.0)  # no links, where no gold link is sure
    best = np.flatnonzero(rates == rates.min())
    middle = best[len(best) // 2]
    return float(_THRESHOLDS[middle]), float(rates[middle])


def write_calibration(path: Path, calibration: Calibration) -> None:
    """Writes a calibration as JSON: `layers` and `coefficients` of the regression, `threshold`, and what was measured
    on pairs that the fit had not seen: `aer`, `reliability` and `expected_calibration_error`, all from 0 to 1 (the
    last is null where no two words are likely to be linked); the number of `pairs`, and the set that they are from
    (`chosen_on`); and the SHA-256 of the `weights`."""
    content = {
        "format": FORMAT,
        **{name: getattr(calibration, name) for name in ("layers", "coefficients", "threshold", "aer")},
        "expected_calibration_error": None if math.isnan(calibration.error) else calibration.error,
        "reliability": [one._asdict() for one in calibration.reliability],
        **{name: getattr(calibration, name) for name in ("pairs", "chosen_on", "weights")},
    }
    write_json(path, content)
