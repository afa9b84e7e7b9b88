"""Scores of source tokens' importance to target tokens, by attention and baselines, and tables of their faithfulness.

Letters: T target tokens, n source tokens without EOS, N sentences, R rows of the table, B bootstrap samples.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd

from ...statistics.resampling import SAMPLES, interval, ratio, resample, sentence_counts
from ..record import Record

MEAN = "mean"


class Scorer(NamedTuple):
    """A method that scores the importance of source tokens.

    - scorer: one of `config.choices.inspection.SOURCE_SCORERS`.
    - layer: the index of the layer; `mean` for all layers; empty if the method has no layers.
    - head: the index of the head; `mean` for all heads; empty if the method has no heads.
    """

    scorer: str
    layer: int | str = ""
    head: int | str = ""

    def __str__(self) -> str:
        layer = "" if self.layer in ("", MEAN) else f", layer {self.layer}"
        head = "" if self.head == "" else ", all heads" if self.head == MEAN else f", head {self.head}"
        return self.scorer + layer + head


def score_sources(record: Record, noise: np.ndarray, gold: np.ndarray | None = None) -> dict[Scorer, np.ndarray]:
    """Scores the importance of a sentence's source tokens to each of its target tokens.

    EOS of the source is not scored: it is not a word of the sentence, and no model was trained on sources without it.

    Args:
        record: a record with the site `cross`, and optionally `norms` and `gradients`.
        noise: the random scores of `draw_noise`, `(T, n)`.
        gold: the scores of the scorer `gold`, `(T, n)`: higher for surer links. None leaves this scorer out.

    Returns:
        The scores of each scorer, float `(T, n)`, at least 0; the higher, the more important.
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
    """Draws random scores, the baseline of all scorers.

    Divided by their sum, the scores of a row have the flat Dirichlet distribution: all divisions into shares are
    equally likely.

    Args:
        record: the sentence.
        seed: the seed; the same seed and sentence id give the same scores.

    Returns:
        float64 `(T, n)`, above 0.
    """
    shape = len(record.target_output_tokens), len(record.source_tokens) - 1
    return np.random.default_rng((seed, record.id)).exponential(size=shape)


def score_diagonal(targets: int, sources: int) -> np.ndarray:
    """Scores source tokens by their distance from the diagonal.

    The target without its last token, EOS, is scaled to the length of the source. The score is 1 at the position of the
    target token, and halves with each source token of distance.

    Args:
        targets: T, with EOS.
        sources: n, without EOS.

    Returns:
        float64 `(T, n)`.
    """
    diagonal = (np.arange(targets) + 0.5) / max(targets - 1, 1) * sources - 0.5
    return 2.0 ** -np.abs(diagonal[:, None] - np.arange(sources))


def as_shares(scores: np.ndarray) -> np.ndarray:
    """Divides the scores of each row by their sum; a row of zeros becomes equal shares."""
    total = scores.sum(axis=-1, keepdims=True)
    equal = np.full_like(scores, 1 / max(scores.shape[-1], 1))
    return np.divide(scores, total, out=equal, where=total > 1e-9)


KEYS = (*Scorer._fields, "removal", "share")
"""The columns that identify a scorer and a removal of source tokens."""

FAITHFULNESS_MEASURES = ("comprehensiveness", "sufficiency")

SUMS = (*FAITHFULNESS_MEASURES, "taken")
"""The columns that are sums over the measured tokens of a sentence."""


def sums_of_sentences(sentences: pd.DataFrame) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Arranges the table of `inspection.experiments.removal.measure_sentences` as arrays.

    The removal `mean` is added: the mean of the hard removals over all shares, the "area over the perturbation curve"
    (DeYoung et al. 2020, section 4.1).

    Returns:
        `(keys, sums, tokens)`:

        - keys: a table with the columns `KEYS` and a row for each scorer and removal, R rows.
        - sums: the values of the columns `SUMS` for each sentence and row of `keys`, `(N, R, 3)`.
        - tokens: the numbers of measured tokens, `(N, R)`.

        A sentence without values for a row has zeros.
    """
    hard = sentences[sentences["removal"] == "hard"]
    means = hard.groupby(["id", *KEYS[:3]], sort=False)[["tokens", *SUMS]].mean().reset_index()
    rows = pd.concat([means.assign(removal="mean", share=np.nan), sentences], ignore_index=True)
    keys = rows[list(KEYS)].drop_duplicates(ignore_index=True)
    key_index = rows.groupby(list(KEYS), sort=False, dropna=False).ngroup().to_numpy()
    ids, sentence_index = np.unique(rows["id"], return_inverse=True)
    sums = np.zeros((len(ids), len(keys), len(SUMS)))
    tokens = np.zeros((len(ids), len(keys)))
    sums[sentence_index, key_index] = rows[list(SUMS)].to_numpy(float)
    tokens[sentence_index, key_index] = rows["tokens"].to_numpy(float)
    return keys, sums, tokens


def faithfulness_table(sentences: pd.DataFrame, token_share: float, samples: int = SAMPLES) -> pd.DataFrame:
    """Makes the table of the faithfulness of all scorers.

    Args:
        sentences: the table of `inspection.experiments.removal.measure_sentences`.
        token_share: the share of the target tokens that were measured; it is copied into the table.
        samples: B, the number of bootstrap samples.

    Returns:
        A row for each scorer and removal, ordered by removal and share, then the most comprehensive scorer first. The
        columns are:

        - scorer, layer, head, removal, share: the scorer and the removal.
        - comprehensiveness, sufficiency: means over all measured tokens.
        - `_low` and `_high` of both: the ends of the 95 % intervals over sentences.
        - `_over_random` of both: the difference from the scorer `random`, and the ends of its 95 % interval,
          `_over_random_low` and `_over_random_high`, from the same bootstrap samples.
        - taken: the mean share of the source tokens that was removed.
        - sentences, tokens: the numbers of sentences and of measured tokens.
        - token_share: see above.
    """
    keys, sums, tokens = sums_of_sentences(sentences)
    numerators = sums[..., : len(FAITHFULNESS_MEASURES)]
    denominators = np.repeat(tokens[..., None], len(FAITHFULNESS_MEASURES), axis=-1)
    means = ratio(numerators, denominators)
    resampled = resample(numerators, denominators, sentence_counts(len(sums), samples=samples))
    random_rows = keys[keys["scorer"] == "random"].reset_index()
    random = keys.merge(random_rows, on=["removal", "share"], how="left")["index"].to_numpy(int)
    low, high = interval(resampled)
    over_random_low, over_random_high = interval(resampled - resampled[:, random])
    columns = {
        "": means,
        "_low": low,
        "_high": high,
        "_over_random": means - means[random],
        "_over_random_low": over_random_low,
        "_over_random_high": over_random_high,
    }
    table = keys.copy()
    for i, measure in enumerate(FAITHFULNESS_MEASURES):
        table = table.assign(**{measure + suffix: column[:, i] for suffix, column in columns.items()})
    table = table.assign(taken=ratio(sums[..., 2], tokens), sentences=len(sums), tokens=tokens.sum(axis=0).astype(int))
    removal = table["removal"].map({name: number for number, name in enumerate(table["removal"].unique())})
    order = table.assign(removal=removal, value=-table["comprehensiveness"])
    order = order.sort_values(["removal", "share", "value"], kind="stable")
    return table.assign(token_share=token_share).loc[order.index].reset_index(drop=True)
