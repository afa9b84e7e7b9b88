"""Logistic regression, fitted by Newton's method, and the calibration of its probabilities.

Letters: N outcomes, F features.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

PENALTY = 1.0
BLOCK_ROWS = 128
"""The number of rows in a matrix product. BLAS does not divide products of this size among threads. If other processes
have the cores, its threads wait for each other for seconds."""

_MOST_STEPS = 50
_SMALL_STEP = 1e-8


def fit_logistic(features: np.ndarray, outcomes: np.ndarray) -> np.ndarray:
    """Fits the coefficients of `probability_of` by maximum likelihood with a penalty on large coefficients (ridge).

    Features are scaled to a standard deviation of 1. The penalty is `PENALTY` / 2 times the sum of the squared
    coefficients, without the constant. It keeps coefficients finite if the features separate the outcomes, and moderate
    if features are nearly collinear.

    Args:
        features: float `(N, F)`.
        outcomes: bool `(N,)`, with at least one True and one False.

    Returns:
        float64 `(F + 1,)`: the coefficient of each unscaled feature, then the constant.

    Raises:
        ValueError: all outcomes are equal, so their odds are not finite.
    """
    is_true = np.asarray(outcomes, bool)
    if is_true.all() or not is_true.any():
        raise ValueError(f"expected outcomes of both kinds, found {is_true.sum()} true ones of {is_true.size}")
    features = np.asarray(features, np.float64)
    mean = features.mean(axis=0)
    deviation = features.std(axis=0)
    deviation[deviation == 0] = 1.0
    scaled = np.c_[(features - mean) / deviation, np.ones(len(features))]
    penalties = np.r_[np.full(features.shape[1], PENALTY), 0.0]
    coefficients = np.zeros(scaled.shape[1])
    coefficients[-1] = np.log(is_true.mean() / (1 - is_true.mean()))
    blocks = _in_blocks(scaled)
    transposed = blocks.swapaxes(1, 2)
    loss = _penalised_loss(blocks, is_true, coefficients, penalties)
    for _ in range(_MOST_STEPS):
        probability = _logistic(_log_odds(blocks, coefficients, is_true.size))
        errors = _in_blocks(probability - is_true)
        variances = _in_blocks(probability * (1 - probability))
        gradient = np.matmul(transposed, errors[..., None]).sum(axis=0)[:, 0] + penalties * coefficients
        hessian = np.matmul(transposed * variances[:, None], blocks).sum(axis=0) + np.diag(penalties)
        step = np.linalg.solve(hessian, gradient)
        new_loss = _penalised_loss(blocks, is_true, coefficients - step, penalties)
        while new_loss > loss and np.abs(step).max() > _SMALL_STEP:
            step = step / 2
            new_loss = _penalised_loss(blocks, is_true, coefficients - step, penalties)
        coefficients = coefficients - step
        loss = new_loss
        if np.abs(step).max() <= _SMALL_STEP:
            break
    unscaled = coefficients[:-1] / deviation
    return np.r_[unscaled, coefficients[-1] - unscaled @ mean]


def probability_of(features: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    """Computes 1 / (1 + exp(-(features . coefficients + constant))).

    Args:
        features: float `(..., F)`.
        coefficients: the result of `fit_logistic`, `(F + 1,)`.

    Returns:
        The probability that the outcome is True, float64 `(...)`.
    """
    return _logistic(np.asarray(features, np.float64) @ coefficients[:-1] + coefficients[-1])


def _logistic(log_odds: np.ndarray) -> np.ndarray:
    """Computes `1 / (1 + exp(-log_odds))` without overflow."""
    return np.exp(-np.logaddexp(0.0, -log_odds))


def _in_blocks(rows: np.ndarray) -> np.ndarray:
    """Reshapes rows `(N, ...)` to `(blocks, BLOCK_ROWS, ...)`. The last block is padded with zeros."""
    padded = np.concatenate([rows, np.zeros((-len(rows) % BLOCK_ROWS, *rows.shape[1:]))])
    return padded.reshape(-1, BLOCK_ROWS, *rows.shape[1:])


def _log_odds(blocks: np.ndarray, coefficients: np.ndarray, number: int) -> np.ndarray:
    """Returns the log-odds of each outcome, float64 `(N,)`.

    Args:
        blocks: the scaled features with a column of ones, from `_in_blocks`.
        coefficients: the coefficients `(F + 1,)`, the constant last.
        number: N. The rows after it are padding, and are left out.
    """
    return np.matmul(blocks, coefficients).reshape(-1)[:number]


def _penalised_loss(blocks: np.ndarray, is_true: np.ndarray, coefficients: np.ndarray, penalties: np.ndarray) -> float:
    """Returns the negative log-likelihood of the outcomes plus the penalty, which `fit_logistic` minimises.

    Args:
        blocks: see `_log_odds`.
        is_true: the outcomes, bool `(N,)`.
        coefficients: see `_log_odds`.
        penalties: the factor of each squared coefficient, before it is halved, `(F + 1,)`.
    """
    log_odds = _log_odds(blocks, coefficients, is_true.size)
    negative_log_likelihood = np.logaddexp(0.0, np.where(is_true, -log_odds, log_odds)).sum()
    return float(negative_log_likelihood + (penalties * coefficients**2).sum() / 2)


def area_under_roc(predicted: np.ndarray, right: np.ndarray) -> float:
    """Computes the area under the ROC curve: the probability that a true outcome has a higher prediction than a false
    one. Equal predictions count half (Hanley and McNeil 1982).

    Args:
        predicted: the predictions, in any unit, `(N,)`.
        right: the outcomes, bool `(N,)`.

    Returns:
        0 to 1, where 0.5 is chance; NaN if all outcomes are equal.
    """
    is_true = np.asarray(right, bool)
    true = int(is_true.sum())
    false = is_true.size - true
    if not true or not false:
        return float("nan")
    _, value_of_each, numbers = np.unique(predicted, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(numbers) - (numbers - 1) / 2)[value_of_each]  # from 1, the mean rank of equal predictions
    return float((ranks[is_true].sum() - true * (true + 1) / 2) / (true * false))


BINS = 10


class ReliabilityBin(NamedTuple):
    """The outcomes whose predicted probability lies in one interval.

    Attributes:
        low: the lower end of the interval, included.
        high: the upper end, excluded; in the last bin included.
        number: the number of outcomes, at least 1.
        predicted: the mean of the predicted probabilities of these outcomes.
        right: the share of these outcomes that is True.
    """

    low: float
    high: float
    number: int
    predicted: float
    right: float


def reliability_table(predicted: np.ndarray, right: np.ndarray) -> list[ReliabilityBin]:
    """Compares predicted probabilities with outcomes in `BINS` bins of equal width (DeGroot and Fienberg 1983).

    Args:
        predicted: the predicted probabilities, `(N,)`, 0 to 1.
        right: the outcomes, bool `(N,)`.

    Returns:
        The bins in rising order, without empty ones.
    """
    edges = np.linspace(0, 1, BINS + 1)
    bin_of_each = np.clip(np.searchsorted(edges, predicted, side="right") - 1, 0, BINS - 1)
    table = []
    for number, (low, high) in enumerate(pairwise(edges.tolist())):
        in_bin = bin_of_each == number
        if in_bin.any():
            mean = float(np.mean(predicted[in_bin]))
            share = float(np.mean(right[in_bin]))
            table.append(ReliabilityBin(round(low, 6), round(high, 6), int(in_bin.sum()), mean, share))
    return table


def calibration_error(table: Sequence[ReliabilityBin]) -> float:
    """Computes the expected calibration error (Naeini et al. 2015).

    It is the distance between the mean predicted probability and the share of true outcomes in a bin, averaged over
    the bins. The weight of a bin is its number of outcomes.

    Args:
        table: the result of `reliability_table`.

    Returns:
        0 to 1; NaN if the table is empty.
    """
    total = sum(row.number for row in table)
    return sum(row.number * abs(row.predicted - row.right) for row in table) / total if total else float("nan")
