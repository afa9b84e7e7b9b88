"""The measures of an evaluation as sums over its sentences, so that each has intervals and tests.

Letters: N sentences, B samples, P heads or changes of heads.
"""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np
import pandas as pd

from ..alignment.error_rate import error_terms
from ..errors import InputError
from ..files.run_directory import EvaluationDirectory
from ..inspection.experiments.head_effects import EFFECTS
from ..inspection.measures import MEASURES
from ..metrics.bleu import CorpusScore
from ..statistics.resampling import ratio, resample, sentence_counts
from ..statistics.significance import randomisation_p
from .compared_alignment import Scored, read_counts

EFFECT = EFFECTS[0]


class SentenceMeasure(Protocol):
    """A measure of a set of sentences."""

    @property
    def value(self) -> float: ...
    def draw(self, samples: int) -> np.ndarray | None:
        """Returns the measure of drawn sentences, `(B,)`, the same ones for all measures of as many sentences; None
        for what is measured of no sentences."""

    def p_against(self, first: "SentenceMeasure", samples: int) -> float:
        """Returns the two-sided p-value of being equal, by approximate randomisation; not-a-number if untested."""


class RatioMeasure(NamedTuple):
    """A ratio of sums: numerators and denominators of each sentence, `(N,)`, and what the ratio is multiplied by."""

    above: np.ndarray
    below: np.ndarray
    unit: float = 1.0

    @property
    def value(self) -> float:
        return self.unit * float(ratio(self.above, self.below))

    def draw(self, samples: int) -> np.ndarray | None:
        return self.unit * resample(self.above, self.below, sentence_counts(len(self.above), samples=samples))

    def p_against(self, first: SentenceMeasure, samples: int) -> float:
        if not isinstance(first, RatioMeasure) or len(first.above) != len(self.above):
            return np.nan
        pair = ((one.above[:, None], one.below[:, None]) for one in (first, self))
        return float(randomisation_p(*pair, samples=samples)[0])


class ScoreMeasure(NamedTuple):
    """BLEU or chrF: what sacreBLEU counts in each sentence."""

    score: CorpusScore

    @property
    def value(self) -> float:
        return self.score.of_set()

    def draw(self, samples: int) -> np.ndarray | None:
        return self.score.of_samples(sentence_counts(len(self.score.counts), samples=samples))

    def p_against(self, first: SentenceMeasure, samples: int) -> float:
        assert isinstance(first, ScoreMeasure)
        return self.score.p_against(first.score, samples)


class FixedMeasure(NamedTuple):
    """What is measured of a model's weights, without any sentence."""

    value: float

    def draw(self, samples: int) -> np.ndarray | None:
        return None

    def p_against(self, first: SentenceMeasure, samples: int) -> float:
        return np.nan


class HeadMeasures(NamedTuple):
    """A measure of each head.

    - heads: (layer, head) of each of P.
    - above, below: numerators and denominators, `(N, P)`.
    """

    heads: list[tuple[int, int]]
    above: np.ndarray
    below: np.ndarray

    def mean(self) -> RatioMeasure:
        """Returns the mean over all heads of all layers."""
        return RatioMeasure(self.above.sum(axis=1), self.below.sum(axis=1))


def heads_of(evaluation: EvaluationDirectory) -> dict[str, HeadMeasures]:
    """Reads what is measured of each head and kept of each sentence: `MEASURES`, and `loss_change CHANGE` where heads
    were replaced; what is not there is left out.

    Raises:
        InputError: a file is damaged.
    """
    found = {}
    if evaluation.sentence_heads.is_file():
        table = _read(evaluation.sentence_heads, "rows", [*MEASURES])
        found = {name: _head_measures(table, "rows", name) for name in MEASURES if name in table}
    if evaluation.perturbation_sentences.is_file():
        table = _read(evaluation.perturbation_sentences, "tokens", [EFFECT])
        for change, rows in table.groupby("change", sort=False):
            found[f"{EFFECT} {change}"] = _head_measures(rows, "tokens", EFFECT)
    return {
        name: measure for name, measure in found.items() if measure.below.any() and not np.isnan(measure.above).any()
    }


def measures_of(system: Scored, scores: Mapping[str, CorpusScore]) -> dict[str, SentenceMeasure]:
    """Returns all measures of an evaluation by name, those of heads as means over the heads.

    Args:
        system: the evaluation.
        scores: BLEU and chrF, where there are translations.

    Raises:
        InputError: a file is damaged.
    """
    found: dict[str, SentenceMeasure] = {name: ScoreMeasure(score) for name, score in scores.items()}
    counts = read_counts(system)
    if counts is not None:
        found["AER"] = RatioMeasure(*error_terms(counts), unit=100.0)
    found |= {name: measure.mean() for name, measure in heads_of(system.evaluation).items()}
    if system.evaluation.spectra.is_file():
        try:
            ranks = pd.read_csv(system.evaluation.spectra)["effective_rank"].astype(float)
        except (KeyError, ValueError, OSError) as error:
            raise InputError(f"{system.evaluation.spectra}: not the table that evaluate.py writes: {error}") from None
        found["effective_rank"] = FixedMeasure(float(ranks.mean()))
    return found


def _read(path, weight: str, names: list[str]) -> pd.DataFrame:
    try:
        table = pd.read_csv(path)
        kept = [name for name in names if name in table]
        return table.astype(dict.fromkeys(("id", "layer", "head"), int) | dict.fromkeys((weight, *kept), float))
    except (KeyError, ValueError, OSError) as error:
        raise InputError(f"{path}: not the table that evaluate.py writes: {error}; evaluate again") from None


def _head_measures(table: pd.DataFrame, weight: str, name: str) -> HeadMeasures:
    rows = table.sort_values(["id", "layer", "head"], kind="stable")
    heads = list(dict.fromkeys(zip(rows["layer"], rows["head"], strict=True)))
    if len(rows) != rows["id"].nunique() * len(heads):
        raise InputError(f"{name}: expected a row for each sentence, layer and head, found others; evaluate again")
    below = rows[weight].to_numpy(float).reshape(-1, len(heads))
    values = rows[name].to_numpy(float).reshape(below.shape)
    return HeadMeasures(heads, np.where(below > 0, values, 0.0) * below, below)
