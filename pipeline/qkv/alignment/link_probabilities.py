"""The probability that two words are linked, computed from the cross-attention of one layer.

Attention weights are shares of a row, not probabilities of links. A weight separates right links from wrong ones better
in comparison with its rivals: the largest other weight of the target word, and the largest other weight of the source
word. It also helps to know whether the neighbours of both words are linked, as in phrases (Vogel et al. 1996 use
neighbouring links in another way). The features are the logarithms of these weights, on both label sides. Weight and
rivals are taken from each head of the layer and from the mean of its heads, neighbours from the mean only. A logistic
regression turns features into a probability (Platt 1999 does so with a single feature).

It is fitted on sentence pairs with gold links. All reported figures are cross-fitted: the pairs are dealt into `FOLDS`
folds, and the probabilities of a fold come from a fit on the other folds, so no pair is scored by a fit that has seen
it.

Letters: F features.
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

LEAST_LINKED_WEIGHT = 0.01
"""Two words are linked with probability 0 unless a head has more weight than this between them, on either label side.
"""

_ADDED = 1e-3  # to weights before their logarithm, since some are 0
NEIGHBOUR_STEPS = tuple(steps for steps in product((-1, 0, 1), repeat=2) if any(steps))
"""The steps (in target words, in source words) from two words to their eight neighbours."""


def probabilities_of(links: Collection[Link], matrix: np.ndarray) -> dict[Link, float]:
    """Returns the probability of each link, sorted by source word and target word.

    Args:
        links: the links (source word, target word).
        matrix: the probabilities `(target words, source words)`, see `Calibration.matrix`.

    Returns:
        A dict from link to probability.
    """
    return {(i, j): float(matrix[j, i]) for i, j in sorted(links)}


def pair_features(records: Sequence[Record], layers: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Computes the features of all word pairs of a sentence pair, from one model or from two of opposite directions.

    Args:
        records: the record of each model. The source of the second record is the target of the first.
        layers: for each model the index of the layer whose cross-attention is used.

    Returns:
        `(features, candidates)`: float `(target words, source words, F)` and bool `(target words, source words)`, with
        the source and the target of the first record; see `link_features`. The last axis has the features of the first
        model, then the features of the second model. A word pair is a candidate if it is a candidate of either model.
        If the models cut the sentences at different lengths, the words of the longer record count.
    """
    features, candidates = zip(*map(link_features, records, layers), strict=True)
    if len(records) == 1:
        return features[0], candidates[0]
    shape = tuple(np.maximum(candidates[0].shape, candidates[1].T.shape))
    turned_features = _pad(np.swapaxes(features[1], 0, 1), shape)
    turned_candidates = _pad(candidates[1].T, shape)
    all_features = np.concatenate([_pad(features[0], shape), turned_features], axis=-1)
    return all_features, _pad(candidates[0], shape) | turned_candidates


def link_features(record: Record, layer: int) -> tuple[np.ndarray, np.ndarray]:
    """Computes the features of all word pairs of a sentence pair from one layer of the cross-attention.

    Each label side has three features for each head and for the mean of the heads: the logarithms of the weight, of the
    target word's largest other weight and of the source word's largest other weight. After them, each of
    `NEIGHBOUR_STEPS` has a feature for each label side: the logarithm of the neighbour's weight in the mean.

    Args:
        record: the sentence pair.
        layer: the index of the layer.

    Returns:
        `(features, candidates)`: float `(target words, source words, F)`, with F = `number_of_features(heads)`; and
        bool `(target words, source words)`, True if a weight between the two words is above `LEAST_LINKED_WEIGHT`.
    """
    heads = heads_and_mean(record)[layer]
    grouped = [grouped_attention(record, heads, side) for side in LABEL_SIDES]
    _, source, target = grouped[0]
    group_weights = np.concatenate([matrix for matrix, *_ in grouped])
    mean_weights = group_weights[len(heads) - 1 :: len(heads)]
    neighbours = spread_links(_neighbour_weights(mean_weights), source, target)
    weights = spread_links(group_weights, source, target)
    of_heads = np.stack([weights, _largest_other(weights, -1), _largest_other(weights, -2)], axis=1)
    stacked = np.concatenate([*of_heads, neighbours])  # not `reshape(-1, ...)`: a sentence may have no words
    return np.moveaxis(np.log(stacked + _ADDED), 0, -1), np.any(weights > LEAST_LINKED_WEIGHT, axis=0)


def number_of_features(heads: int) -> int:
    """Returns the number of features of `link_features` for a layer with this number of heads."""
    return len(LABEL_SIDES) * (3 * (heads + 1) + len(NEIGHBOUR_STEPS))


def _largest_other(weights: np.ndarray, axis: int) -> np.ndarray:
    """Returns, for each weight, the largest of the other weights along an axis; 0 if there is no other weight."""
    if weights.shape[axis] < 2:
        return np.zeros_like(weights)
    second, largest = np.split(np.partition(weights, (-2, -1), axis=axis).take([-2, -1], axis=axis), 2, axis=axis)
    is_first = np.zeros(weights.shape, bool)
    np.put_along_axis(is_first, np.expand_dims(weights.argmax(axis=axis), axis), True, axis=axis)
    return np.where(is_first, second, largest)


def _neighbour_weights(weights: np.ndarray) -> np.ndarray:
    """Returns the weight of each neighbour of all word pairs; 0 for neighbours outside the sentence.

    Args:
        weights: the weights of the two label sides, `(2, target words, source words)`.

    Returns:
        `(16, target words, source words)`. The first axis has two entries, one a label side, for each of the eight
        `NEIGHBOUR_STEPS`.
    """
    _, targets, sources = weights.shape
    framed = np.pad(weights, ((0, 0), (1, 1), (1, 1)))
    return np.concatenate(
        [framed[:, 1 + down : 1 + down + targets, 1 + right : 1 + right + sources] for down, right in NEIGHBOUR_STEPS]
    )


def _pad(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Pads features or candidates with further words. Their weights are 0, and they are not candidates.

    Args:
        array: features `(target words, source words, F)`, or candidates, bool `(target words, source words)`.
        shape: the numbers of target words and of source words of the result.
    """
    widths = [(0, wanted - length) for length, wanted in zip(array.shape, shape, strict=False)]
    fill = False if array.dtype == bool else np.log(_ADDED)
    return np.pad(array, widths + [(0, 0)] * (array.ndim - 2), constant_values=fill)


CALIBRATION_FORMAT = 1
"""The version of the format of `write_calibration`."""

FOLDS = 5
LEAST_PAIRS = 30
"""The least number of sentence pairs with gold links that `calibrate` accepts."""

MOST_PAIRS = 1000
"""`calibrate` uses this many sentence pairs. More make no difference to ten or a hundred coefficients."""

_THRESHOLDS = np.arange(5, 96) / 100


@dataclass(frozen=True)
class Calibration:
    """Calibrated probabilities of links: a logistic regression on attention, fitted on all pairs of a set.

    Args:
        layers: for each model the index of the layer whose cross-attention is used. There is one model, or there are
            two models of opposite directions.
        coefficients: the coefficients of the features of `pair_features`, then the constant.
        threshold: a probability from 0.05 to 0.95. Linking all words above it gives the lowest alignment error rate.
        aer: the cross-fitted alignment error rate with this threshold, from 0 to 1.
        reliability: bins of the cross-fitted probabilities of all candidates of `link_features`, with the share of gold
            links in each bin.
        pairs: the number of sentence pairs in the fit.
        chosen_on: the name of the set.
        weights: the SHA-256 of each model's file of weights; empty if it is unknown.
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
        """Computes the probability of each link of a sentence pair.

        Args:
            records: the record of each model. The source of the second record is the target of the first.

        Returns:
            `(target words, source words)` of the first record, from 0 to 1.
        """
        features, candidates = pair_features(records, self.layers)
        return np.where(candidates, probability_of(features, np.array(self.coefficients)), 0.0)

    @property
    def error(self) -> float:
        """The expected calibration error, see `calibration_error_of_links`; from 0 to 1, or NaN."""
        return calibration_error_of_links(self.reliability)


class _Candidates(NamedTuple):
    """The n candidates of a sentence pair: the word pairs with enough weight, see `link_features`.

    - features: float `(n, F)`.
    - sure: bool `(n,)`, True for a sure gold link.
    - possible: bool `(n,)`, True for a possible gold link.
    - sure_links: the number of all sure gold links, including links that are not candidates.
    """

    features: np.ndarray
    sure: np.ndarray
    possible: np.ndarray
    sure_links: int


def _find_candidates(records: Sequence[Record], layers: Sequence[int], gold: GoldAlignment) -> _Candidates:
    """Returns the candidates of a sentence pair, with their features and gold links."""
    features, candidates = pair_features(records, layers)
    links = [(int(i), int(j)) for j, i in np.argwhere(candidates)]
    sure = np.array([link in gold.sure for link in links], bool)
    possible = np.array([link in gold.possible for link in links], bool)
    return _Candidates(features[candidates], sure, possible, len(gold.sure))


def calibrate(
    pairs: Iterable[Sequence[Record]], gold: Sequence[GoldAlignment], layers: Sequence[int], chosen_on: str
) -> Calibration | None:
    """Fits the probabilities of links, and chooses the threshold with the lowest alignment error rate.

    A link is right if it is a sure or a possible gold link. The threshold is chosen for the cross-fitted probabilities;
    if several thresholds have the lowest error rate, the middle one of them is chosen. Sentence pairs that have neither
    candidates nor sure links, such as pairs with an empty side, are skipped. At most `MOST_PAIRS` pairs are used.

    Args:
        pairs: for each sentence pair the record of one model, or the records of two models of opposite directions.
        gold: the gold alignment of each sentence pair.
        layers: for each model the index of the layer whose cross-attention is used.
        chosen_on: the name of the set.

    Returns:
        The calibration. None if there are fewer than `LEAST_PAIRS` sentence pairs after skipping, or if the candidates
        of a fold are all right or all wrong.
    """
    candidates = (_find_candidates(records, layers, links) for records, links in zip(pairs, gold, strict=False))
    counted = (sentence for sentence in candidates if len(sentence.features) or sentence.sure_links)
    sentences = list(islice(counted, MOST_PAIRS))
    if len(sentences) < LEAST_PAIRS:
        return None
    fold = np.repeat(np.arange(len(sentences)) % FOLDS, [len(sentence.features) for sentence in sentences])
    features = np.concatenate([sentence.features for sentence in sentences])
    right = np.concatenate([sentence.possible for sentence in sentences])
    if not all({False, True} <= set(right[fold == number].tolist()) for number in range(FOLDS)):
        return None
    predicted = np.empty(len(right))
    for number in range(FOLDS):
        fitted = fit_logistic(features[fold != number], right[fold != number])
        predicted[fold == number] = probability_of(features[fold == number], fitted)
    sure = np.concatenate([sentence.sure for sentence in sentences])
    sure_links = sum(sentence.sure_links for sentence in sentences)
    coefficients = tuple(map(float, fit_logistic(features, right)))
    threshold, aer = _best_threshold(predicted, sure, right, sure_links)
    reliability = tuple(reliability_table(predicted, right))
    return Calibration(tuple(layers), coefficients, threshold, aer, reliability, len(sentences), chosen_on)


def calibration_error_of_links(table: Iterable[ReliabilityBin]) -> float:
    """Computes the expected calibration error over all bins but the lowest one.

    The lowest bin holds nearly all word pairs, and hardly any of them is a link. With it every error would look small.

    Args:
        table: the bins of `statistics.logistic_regression.reliability_table`.

    Returns:
        The error, from 0 to 1. NaN if there is no bin above the lowest one.
    """
    return calibration_error([row for row in table if row.low > 0])


def _best_threshold(
    predicted: np.ndarray, sure: np.ndarray, possible: np.ndarray, sure_links: int
) -> tuple[float, float]:
    """Returns the threshold with the lowest alignment error rate, and this error rate, from 0 to 1.

    Args:
        predicted: the probability of each candidate of all sentences, `(n,)`.
        sure: bool `(n,)`, True for a sure gold link.
        possible: bool `(n,)`, True for a possible gold link.
        sure_links: the number of all sure gold links.
    """
    counts = []
    for threshold in _THRESHOLDS:
        linked = predicted > threshold
        counts.append((linked.sum(), sure_links, (linked & sure).sum(), (linked & possible).sum()))
    rates = np.nan_to_num(AlignmentScore.of(np.array(counts)).aer, nan=1.0)  # NaN: no links, and no sure gold links
    best = np.flatnonzero(rates == rates.min())
    middle = best[len(best) // 2]
    return float(_THRESHOLDS[middle]), float(rates[middle])


def write_calibration(path: Path, calibration: Calibration) -> None:
    """Writes a calibration as JSON.

    The keys are the fields of `Calibration`, `format` and `expected_calibration_error`, which is from 0 to 1, or null
    if no two words are likely to be linked.
    """
    content = {
        "format": CALIBRATION_FORMAT,
        **{name: getattr(calibration, name) for name in ("layers", "coefficients", "threshold", "aer")},
        "expected_calibration_error": None if math.isnan(calibration.error) else calibration.error,
        "reliability": [row._asdict() for row in calibration.reliability],
        **{name: getattr(calibration, name) for name in ("pairs", "chosen_on", "weights")},
    }
    write_json(path, content)
