"""The faithfulness of scorers: what says how much each source token matters to each target token, attention and what it
is compared with, over a set with intervals over its sentences.

Letters: T target tokens, n source tokens without EOS, N sentences, R rows of the table, B bootstrap samples.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd

from ...statistics.resampling import SAMPLES, interval, ratio, resample, sentence_counts
from ..record import Record

MEAN = "mean"


class Scorer(NamedTuple):
    """A way to order the source tokens.

    - scorer: one of `config.names.inspection.SOURCE_SCORERS`.
    - layer: from 0, `mean`, or empty for what has no layers.
    - head: from 0, `mean`, or empty for what has no heads.
    """

    scorer: str
    layer: int | str = ""
    head: int | str = ""

    def __str__(self) -> str:
        layer = "" if self.layer in ("", MEAN) else f", layer {self.layer}"
        head = "" if self.head == "" else ", all heads" if self.head == MEAN else f", head {self.head}"
        return self.scorer + layer + head


def score_sources(record: Record, noise: np.ndarray, gold: np.ndarray | None = None) -> dict[Scorer, np.ndarray]:
    """Scores the source tokens of a sentence for each of its target tokens.

    EOS is not scored: it is no word of the sentence, and a model has never read a source without it.

    Args:
        record: with the sites `cross`, and optionally `norms` and `gradients`.
        noise: of `draw_noise`.
        gold: how surely the two tokens are linked, `(T, n)`; None without gold alignments.

    Returns:
        For each scorer float `(T, n)`, at least 0; the higher, the more it is said to matter.
    """
    sites = {site: np.maximum(weights[..., :-1], 0) for site, weights in record.attention.items()}
    scores: dict[Scorer, np.ndarray] = {} if gold is None else {Scorer("gold"): gold}
    cross = sites["cross"]
    for layer, heads in enumerate(cross):
        scores |= {Scorer("weights", layer, head): weights for head, weights in enumerate(heads)}
        if len(heads) > 1:
            scores[Scorer("weights", layer, MEAN)] = heads.mean(axis=0)
    if len(cross) > 1:
        scores[Scorer("weights", MEAN, MEAN)] = cross.mean(axis=(0, 1))
    for site in ("norms", "gradients"):
        if site in sites and len(sites[site]):
            scores[Scorer(site)] = sites[site].mean(axis=(0, 1))
    return scores | {Scorer("diagonal"): score_diagonal(*noise.shape), Scorer("random"): noise}


def draw_noise(record: Record, seed: int) -> np.ndarray:
    """Draws the order that says nothing, float `(T, n)`, the same for the same sentence and seed. As shares of its row
    it is drawn uniformly from all shares (the flat Dirichlet distribution)."""
    shape = len(record.target_output_tokens), len(record.source_tokens) - 1
    return np.random.default_rng((seed, record.id)).exponential(size=shape)


def score_diagonal(targets: int, sources: int) -> np.ndarray:
    """Scores the source tokens by how near they are to the place of the target token, both sentences scaled to one
    length: the score halves with each source token of distance. The last target token is EOS."""
    places = (np.arange(targets) + 0.5) / max(targets - 1, 1) * sources - 0.5
    return 2.0 ** -np.abs(places[:, None] - np.arange(sources))


def as_shares(scores: np.ndarray) -> np.ndarray:
    """Divides the scores of each row by their sum; a row of zeros has equal shares."""
    total = scores.sum(axis=-1, keepdims=True)
    equal = np.full_like(scores, 1 / max(scores.shape[-1], 1))
    return np.divide(scores, total, out=equal, where=total > 1e-9)


KEYS = (*Scorer._fields, "removal", "share")
MEASURES = ("comprehensiveness", "sufficiency")
SUMS = (*MEASURES, "taken")
"""The columns that are summed over the measured tokens of a sentence."""


def sums_of_sentences(sentences: pd.DataFrame) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Returns the scorers and removals of `measure_sentences`, a row each; the sums `(N, R, 3)` of `SUMS`; and the
    tokens `(N, R)`.

    The removal `mean` is added, of the hard removal over its shares: the "area over the perturbation curve" (DeYoung et
    al. 2020, section 4.1).
    """
    hard = sentences[sentences["removal"] == "hard"]
    means = hard.groupby(["id", *KEYS[:3]], sort=False)[["tokens", *SUMS]].mean().reset_index()
    rows = pd.concat([means.assign(removal="mean", share=np.nan), sentences], ignore_index=True)
    keys = rows[list(KEYS)].drop_duplicates(ignore_index=True)
    place = rows.groupby(list(KEYS), sort=False, dropna=False).ngroup().to_numpy()
    ids, sentence = np.unique(rows["id"], return_inverse=True)
    sums, tokens = np.zeros((len(ids), len(keys), len(SUMS))), np.zeros((len(ids), len(keys)))
    sums[sentence, place] = rows[list(SUMS)].to_numpy(float)
    tokens[sentence, place] = rows["tokens"].to_numpy(float)
    return keys, sums, tokens


def faithfulness_table(sentences: pd.DataFrame, token_share: float, samples: int = SAMPLES) -> pd.DataFrame:
    """Makes the table of all scorers.

    Args:
        sentences: of `measure.measure_sentences`.
        token_share: the share of the target tokens that were measured.
        samples: B.

    Returns:
        A row for each scorer and removal, the most comprehensive scorer first: `scorer`, `layer`, `head`, `removal`,
        `share`; means over all measured tokens of `comprehensiveness` and `sufficiency`, each with the 95 % interval
        over sentences (`_low`, `_high`), and with its difference to the random order, whose interval has the
        same samples (`_over_random`, `_over_random_low`, `_over_random_high`); `taken`, the share of the source that
        was taken away; `sentences`; `tokens` measured and `token_share`.
    """
    keys, sums, tokens = sums_of_sentences(sentences)
    below = np.repeat(tokens[..., None], len(MEASURES), axis=-1)
    above = sums[..., : len(MEASURES)]
    values = ratio(above, below)
    drawn = resample(above, below, sentence_counts(len(sums), samples=samples))
    of_random = keys[keys["scorer"] == "random"].reset_index()
    random = keys.merge(of_random, on=["removal", "share"], how="left")["index"].to_numpy(int)
    low, high = interval(drawn)
    over, over_low, over_high = values - values[random], *interval(drawn - drawn[:, random])
    table = keys.copy()
    for i, measure in enumerate(MEASURES):
        columns = {"": values, "_low": low, "_high": high}
        columns |= {"_over_random": over, "_over_random_low": over_low, "_over_random_high": over_high}
        table = table.assign(**{measure + suffix: column[:, i] for suffix, column in columns.items()})
    table = table.assign(taken=ratio(sums[..., 2], tokens), sentences=len(sums), tokens=tokens.sum(axis=0).astype(int))
    place = table["removal"].map({name: place for place, name in enumerate(table["removal"].unique())})
    order = table.assign(place=place, value=-table[MEASURES[0]]).sort_values(["place", "share", "value"], kind="stable")
    return table.assign(token_share=token_share).loc[order.index].reset_index(drop=True)
