"""Populations of sentences with the true value of a measure, from which sets are drawn to see how often intervals and
tests are right; of tests, two results are drawn for each sentence in the same way, so that nothing differs."""

from functools import cache
from typing import NamedTuple

import numpy as np

from qkv.alignment.error_rate import error_terms
from qkv.inspection.measures import MEASURES
from qkv.metrics.bleu import CorpusScore, make_bleu
from qkv.statistics.resampling import ratio_interval
from qkv.statistics.significance import randomisation_p
from tests.support.records import measure

POPULATION, SENTENCES, SETS = 3000, 200, 1000
SCORED_SETS = 300  # sacreBLEU computes one score after the other
FAMILIES = ("AER", "entropy", "agreement", "confidence", "loss_change")


class Population(NamedTuple):
    """Numerators of two results and their denominators, `(2, POPULATION)` each."""

    above: np.ndarray
    below: np.ndarray


@cache
def population(family: str) -> Population:
    """The sentences of a family; the two results of one sentence are drawn alike."""
    random = np.random.default_rng(11)
    lengths = random.integers(3, 30, size=POPULATION)
    if family == "AER":
        return Population(*_error_terms(random, lengths))
    if family == "loss_change":  # most tokens lose little, a few much
        rates = random.gamma(0.5, size=POPULATION)
        losses = [[(rate * random.gamma(0.3, size=n)).sum() for rate, n in _zip(rates, lengths)] for _ in range(2)]
        return Population(np.array(losses), np.broadcast_to(lengths * 1.0, (2, POPULATION)))
    values = _measures()[:, list(MEASURES).index(family)]
    return Population(values * _lengths(), np.broadcast_to(_lengths() * 1.0, values.shape))


def _zip(*columns):
    return zip(*columns, strict=True)


def _error_terms(random, lengths):
    """Each sentence has its own rate of errors."""
    sure = np.maximum(1, lengths - random.integers(0, 3, size=POPULATION))
    right = random.beta(7, 3, size=POPULATION)
    counts = []
    for _ in range(2):
        in_sure = random.binomial(sure, right)
        in_possible = in_sure + random.binomial(lengths - sure, 0.5)
        counts.append(np.stack([lengths, sure, in_sure, in_possible], axis=-1))
    return error_terms(np.stack(counts))


@cache
def _lengths():
    return np.random.default_rng(12).integers(2, 9, size=POPULATION)


@cache
def _measures():
    """Measures of a head beside another one, `(2, MEASURES, POPULATION)`; each sentence is as sharp as it is."""
    random = np.random.default_rng(13)
    found = np.zeros((2, len(MEASURES), POPULATION))
    for i, length in enumerate(_lengths()):
        sharpness = random.gamma(1.0) + 0.05
        for result in found:
            weights = random.dirichlet(np.full(length + 2, sharpness), size=(1, 2, length))
            result[:, i] = [value[0, 0] for value in measure(weights).values()]
    return found


def draw_sets(family: str, results: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Numerators and denominators `(SENTENCES, SETS)` of one or two results on the same drawn sentences; which result
    is the first is drawn for each sentence."""
    random = np.random.default_rng(14)
    above, below = population(family)
    drawn = random.integers(0, POPULATION, size=(SENTENCES, SETS))
    first = random.integers(0, 2, size=drawn.shape)
    return [(above[which, drawn], below[which, drawn]) for which in (first, 1 - first)[:results]]


def cover(family: str) -> float:
    """The share of the sets whose 95 % interval holds the value of the population."""
    above, below = population(family)
    true = above.sum() / below.sum()
    low, high = ratio_interval(*draw_sets(family, 1)[0])
    return float(((low <= true) & (true <= high)).mean())


def p_values(family: str) -> np.ndarray:
    """The p-values `(SETS,)` of two results that are drawn alike."""
    return randomisation_p(*draw_sets(family, 2), samples=999)


def distance_from_uniform(p: np.ndarray) -> float:
    """The Kolmogorov-Smirnov distance; of N uniform numbers it is below 1.628 / sqrt(N) in 99 of 100 cases."""
    p, steps = np.sort(p), np.arange(1, len(p) + 1) / len(p)
    return float(max(np.abs(steps - p).max(), np.abs(steps - 1 / len(p) - p).max()))


@cache
def corpus_populations(name: str) -> list[CorpusScore]:
    """Two results of 1,500 sentences whose words are wrong with a rate of each sentence, as counted by BLEU or chrF."""
    random = np.random.default_rng(15)
    words = [f"{a}{b}{c}" for a in "bdfglm" for b in "aeiou" for c in "nrst"]
    references, texts = [], [[], []]
    for _ in range(1500):
        reference = random.choice(words, size=random.integers(5, 20))
        references.append(" ".join(reference))
        rate = random.beta(2, 5)
        for found in texts:
            wrong = random.random(len(reference)) < rate
            found.append(" ".join(np.where(wrong, random.choice(words, size=len(reference)), reference)))
    from sacrebleu import CHRF

    metric = make_bleu("none") if name == "BLEU" else CHRF()
    return [CorpusScore.of(metric, found, references) for found in texts]


def draw_corpora(name: str, number: int, sentences: int = 150) -> list[CorpusScore]:
    """Two results of the same drawn sentences, as `draw_sets`; number is that of the set."""
    random = np.random.default_rng((16, number))
    both = np.stack([one.counts for one in corpus_populations(name)])
    drawn, first = random.integers(0, both.shape[1], size=sentences), random.integers(0, 2, size=sentences)
    metric = corpus_populations(name)[0].metric
    return [CorpusScore(metric, both[which, drawn]) for which in (first, 1 - first)]
