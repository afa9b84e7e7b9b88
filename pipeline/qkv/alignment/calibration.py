"""Calibrates the probabilities of links on pairs with gold links, and measures whether they are what they say.

Every figure is cross-fitted: the pairs are dealt into `FOLDS` parts, and each part's probabilities come from a fit on
the others, so no pair is judged by what has seen it.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np

from ..files.json import write_json
from ..inspection.record import Record
from ..statistics.logistic_regression import (
    ReliabilityBin,
    calibration_error,
    fit_logistic,
    probability_of,
    reliability_table,
)
from ..text.corpora.word_links import GoldAlignment
from .error_rate import AlignmentCounts
from .link_probabilities import LinkProbabilities, pair_features

FORMAT = 1  # of the file
FOLDS = 5
LEAST_PAIRS = 30
"""Fewer pairs with gold links calibrate nothing."""
MOST_PAIRS = 1000
"""More make no difference to some ten or a hundred coefficients."""
_THRESHOLDS = np.arange(5, 96) / 100


@dataclass(frozen=True)
class Calibration:
    """Calibrated probabilities of links.

    Args:
        probabilities: the probabilities, fitted on all pairs.
        threshold: the links above it have the lowest error rate; 0.05 to 0.95.
        aer: that error rate on the pairs, cross-fitted; 0 to 1.
        reliability: the cross-fitted probabilities of all word pairs with `LEAST_WEIGHT`, compared with gold links.
        pairs: the number of sentence pairs.
        chosen_on: the name of their set.
        weights: SHA-256 of the weights of each model, empty where unknown.
    """

    probabilities: LinkProbabilities
    threshold: float
    aer: float
    reliability: tuple[ReliabilityBin, ...]
    pairs: int
    chosen_on: str
    weights: tuple[str, ...] = ()

    @property
    def error(self) -> float:
        """The expected calibration error of `reliability`, see `error_of_links`; 0 to 1, or not-a-number."""
        return error_of_links(self.reliability)


@dataclass(frozen=True)
class _Sentence:
    """The word pairs of a sentence pair that have some weight between them: features `(n, F)`, and whether each is a
    sure link and a possible one; and the number of all sure links."""

    features: np.ndarray
    sure: np.ndarray
    possible: np.ndarray
    sure_links: int

    @classmethod
    def of(cls, records: Sequence[Record], layers: Sequence[int], gold: GoldAlignment) -> "_Sentence":
        features, candidates = pair_features(records, layers)
        words = [(int(i), int(j)) for j, i in np.argwhere(candidates)]
        sure, possible = (np.array([link in links for link in words], bool) for links in (gold.sure, gold.possible))
        return cls(features[candidates], sure, possible, len(gold.sure))

    def count(self, linked: np.ndarray) -> AlignmentCounts:
        return AlignmentCounts(
            int(linked.sum()), self.sure_links, int((linked & self.sure).sum()), int((linked & self.possible).sum())
        )


def calibrate(
    pairs: Iterable[Sequence[Record]], gold: Sequence[GoldAlignment], layers: Sequence[int], chosen_on: str
) -> Calibration | None:
    """Fits the probabilities of links, and the threshold above which links have the lowest error rate.

    A link is right if it is a sure or a possible one. The threshold is that of the cross-fitted probabilities, the
    middle one of equals. A pair with nothing to compare, such as one with an empty side, does not count.

    Args:
        pairs: the record of each sentence pair, or those of two models of opposite directions.
        gold: their gold links, in the same order.
        layers: the layer that is read of each model.
        chosen_on: the name of the set.

    Returns:
        The calibration; None of fewer than `LEAST_PAIRS` pairs, or if gold links tell no word pairs apart.
    """
    found = (_Sentence.of(records, layers, links) for records, links in zip(pairs, gold, strict=False))
    sentences = list(islice((one for one in found if len(one.features) or one.sure_links), MOST_PAIRS))
    folds = [range(fold, len(sentences), FOLDS) for fold in range(FOLDS)]
    if len(sentences) < LEAST_PAIRS or not all(
        {False, True} <= set(_joined([sentences[number] for number in fold])[1].tolist()) for fold in folds
    ):
        return None
    held_out: dict[int, np.ndarray] = {}
    for fold in folds:
        others = [sentence for number, sentence in enumerate(sentences) if number not in fold]
        fitted = fit_logistic(*_joined(others))
        held_out |= {number: probability_of(sentences[number].features, fitted) for number in fold}
    predicted = [held_out[number] for number in range(len(sentences))]
    threshold, aer = _best_threshold(sentences, predicted)
    features, right = _joined(sentences)
    coefficients = tuple(map(float, fit_logistic(features, right)))
    reliability = tuple(reliability_table(np.concatenate(predicted), right))
    fitted_probabilities = LinkProbabilities(tuple(layers), coefficients)
    return Calibration(fitted_probabilities, threshold, aer, reliability, len(sentences), chosen_on)


def error_of_links(table: Iterable[ReliabilityBin]) -> float:
    """Returns the expected calibration error without the lowest bin: it holds nearly all word pairs, hardly any of
    which anybody takes for links, and would make every error look small. Not-a-number if there is no other bin."""
    return calibration_error([one for one in table if one.low > 0])


def with_weights(calibration: Calibration, weights: Sequence[str]) -> Calibration:
    """Returns a calibration that says to which weights it belongs."""
    return replace(calibration, weights=tuple(weights))


def _joined(sentences: Sequence[_Sentence]) -> tuple[np.ndarray, np.ndarray]:
    return (
        np.concatenate([sentence.features for sentence in sentences]),
        np.concatenate([sentence.possible for sentence in sentences]),
    )


def _best_threshold(sentences: Sequence[_Sentence], predicted: Sequence[np.ndarray]) -> tuple[float, float]:
    rates = np.array(
        [
            sum((one.count(own > threshold) for one, own in zip(sentences, predicted, strict=True)), AlignmentCounts())
            .score()
            .aer
            for threshold in _THRESHOLDS
        ]
    )
    rates = np.nan_to_num(rates, nan=1.0)  # no links at all, where no gold link is sure
    best = np.flatnonzero(rates == rates.min())
    middle = int(best[len(best) // 2])
    return float(_THRESHOLDS[middle]), float(rates[middle])


def write_calibration(path: Path, calibration: Calibration) -> None:
    """Writes a calibration as JSON: `layers` and `coefficients` of the regression, `threshold`, and what was measured
    on pairs that the fit had not seen: `aer`, `reliability` and `expected_calibration_error`, all from 0 to 1 (the
    last is null where no two words are likely to be linked); the number of `pairs`, and the set that they are from
    (`chosen_on`); and the SHA-256 of the `weights`."""
    content = {
        "format": FORMAT,
        "layers": list(calibration.probabilities.layers),
        "coefficients": list(calibration.probabilities.coefficients),
        "threshold": calibration.threshold,
        "aer": calibration.aer,
        "expected_calibration_error": None if math.isnan(calibration.error) else calibration.error,
        "reliability": [one._asdict() for one in calibration.reliability],
        "pairs": calibration.pairs,
        "chosen_on": calibration.chosen_on,
        "weights": list(calibration.weights),
    }
    write_json(path, content)
