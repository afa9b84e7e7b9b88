"""Logistic regression, fitted by Newton's method; and whether the probabilities are what they say."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

PENALTY = 1.0
BLOCK_ROWS = 128
"""Of how many rows products are made. They are too small for BLAS to divide among threads, which wait for each other
for seconds where other processes have the cores."""


_MOST_STEPS = 50
_SMALL_STEP = 1e-8


def fit_logistic(features: np.ndarray, outcomes: np.ndarray) -> np.ndarray:
    """Fits the coefficients of `probability_of` with the largest likelihood, less a penalty.

    The penalty is `PENALTY` / 2 times the squares of all coefficients but the constant, of features scaled to a
    standard deviation of one; it keeps coefficients finite where an outcome can be told without fail, and moderate
    where features say nearly the same.

    Args:
        features: float `(N, F)`.
        outcomes: bool `(N,)`, with both true and false ones.

    Returns:
        float64 `(F + 1,)`: a coefficient of each feature as it was given, and last the constant.

    Raises:
        ValueError: all outcomes are the same, so their odds are not finite.
    """
    right = np.asarray(outcomes, bool)
    if right.all() or not right.any():
        raise ValueError(f"expected outcomes of both kinds, found {right.sum()} true ones of {right.size}")
    given = np.asarray(features, np.float64)
    mean, deviation = given.mean(axis=0), given.std(axis=0)
    deviation[deviation == 0] = 1.0
    scaled = np.c_[(given - mean) / deviation, np.ones(len(given))]
    weights = np.r_[np.full(given.shape[1], PENALTY), 0.0]
    fitted = np.zeros(scaled.shape[1])
    fitted[-1] = np.log(right.mean() / (1 - right.mean()))
    blocks = _in_blocks(scaled)
    turned = blocks.swapaxes(1, 2)
    loss = _loss(blocks, right, fitted, weights)
    for _ in range(_MOST_STEPS):
        probability = _logistic(_odds(blocks, fitted, right.size))
        wrong, spread = _in_blocks(probability - right), _in_blocks(probability * (1 - probability))
        gradient = np.matmul(turned, wrong[..., None]).sum(axis=0)[:, 0] + weights * fitted
        curvature = np.matmul(turned * spread[:, None], blocks).sum(axis=0) + np.diag(weights)
        step = np.linalg.solve(curvature, gradient)
        while (tried := _loss(blocks, right, fitted - step, weights)) > loss and np.abs(step).max() > _SMALL_STEP:
            step = step / 2
        fitted, loss = fitted - step, tried
        if np.abs(step).max() <= _SMALL_STEP:
            break
    own = fitted[:-1] / deviation
    return np.r_[own, fitted[-1] - own @ mean]


def probability_of(features: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    """Computes 1 / (1 + exp(-(features . coefficients + constant))), float64 `(...)`, for features `(..., F)` and what
    `fit_logistic` returns, `(F + 1,)`."""
    return _logistic(np.asarray(features, np.float64) @ coefficients[:-1] + coefficients[-1])


def _logistic(odds: np.ndarray) -> np.ndarray:
    return np.exp(-np.logaddexp(0.0, -odds))


def _in_blocks(rows: np.ndarray) -> np.ndarray:
    """Returns the rows in blocks `(N / BLOCK_ROWS, BLOCK_ROWS, ...)`, the last of them filled up with zeros."""
    filled = np.concatenate([rows, np.zeros((-len(rows) % BLOCK_ROWS, *rows.shape[1:]))])
    return filled.reshape(-1, BLOCK_ROWS, *rows.shape[1:])


def _odds(blocks: np.ndarray, fitted: np.ndarray, number: int) -> np.ndarray:
    return np.matmul(blocks, fitted).reshape(-1)[:number]


def _loss(blocks: np.ndarray, right: np.ndarray, fitted: np.ndarray, weights: np.ndarray) -> float:
    odds = _odds(blocks, fitted, right.size)
    return float(np.logaddexp(0.0, np.where(right, -odds, odds)).sum() + (weights * fitted**2).sum() / 2)


BINS = 10


class ReliabilityBin(NamedTuple):
    """The outcomes whose probability lies in one part of the range from 0 to 1.

    Attributes:
        low: the probabilities are at least this.
        high: they are less than this, or in the last bin at most this.
        number: how many outcomes; more than 0.
        predicted: the mean of their probabilities.
        right: the share that came true.
    """

    low: float
    high: float
    number: int
    predicted: float
    right: float


def reliability_table(predicted: np.ndarray, right: np.ndarray) -> list[ReliabilityBin]:
    """Compares probabilities with what came true, in `BINS` of equal width (DeGroot and Fienberg 1983); bins without
    outcomes are left out.

    Args:
        predicted: `(N,)`, 0 to 1.
        right: bool `(N,)`.
    """
    edges = np.linspace(0, 1, BINS + 1)
    number = np.clip(np.searchsorted(edges, predicted, side="right") - 1, 0, BINS - 1)
    table = []
    for bin_, (low, high) in enumerate(pairwise(edges.tolist())):
        own = number == bin_
        if own.any():
            shares = float(np.mean(predicted[own])), float(np.mean(right[own]))
            table.append(ReliabilityBin(round(low, 6), round(high, 6), int(own.sum()), *shares))
    return table


def calibration_error(table: Sequence[ReliabilityBin]) -> float:
    """Computes the expected calibration error (Naeini et al. 2015): the mean over outcomes of the distance between
    the mean probability of their bin and the share of it that came true, 0 to 1; not-a-number without outcomes."""
    total = sum(one.number for one in table)
    return sum(one.number * abs(one.predicted - one.right) for one in table) / total if total else float("nan")
