"""Whether probabilities are what they say: of outcomes said to be 80 % sure, do 80 % come true?"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

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


def reliability_table(predicted: np.ndarray, right: np.ndarray, bins: int = BINS) -> list[ReliabilityBin]:
    """Compares probabilities with what came true, in bins of equal width (DeGroot and Fienberg 1983); those without
    outcomes are left out.

    Args:
        predicted: `(N,)`, 0 to 1.
        right: bool `(N,)`.
        bins: how many.
    """
    edges = np.linspace(0, 1, bins + 1)
    number = np.clip(np.searchsorted(edges, predicted, side="right") - 1, 0, bins - 1)
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
