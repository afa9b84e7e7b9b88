"""The faithfulness of each scorer over a set, with intervals over its sentences.

Letters: N sentences, R rows of the table, B bootstrap samples.
"""

import numpy as np
import pandas as pd

from ...statistics.resampling import SAMPLES, interval, ratio, resample, sentence_counts
from .scorers import Scorer

KEYS = (*Scorer._fields, "removal", "share")
MEASURES = ("comprehensiveness", "sufficiency")
SUMS = (*MEASURES, "taken")
"""What is summed over the measured tokens of a sentence."""


def with_means(sentences: pd.DataFrame) -> pd.DataFrame:
    """Adds to the rows of sentences the removal `mean`, of the hard removal over its shares: the "area over the
    perturbation curve" (DeYoung et al. 2020, section 4.1)."""
    hard = sentences[sentences["removal"] == "hard"]
    keys = ["id", *KEYS[:3]]
    means = hard.groupby(keys, sort=False)[["tokens", *SUMS]].mean().reset_index()
    return pd.concat([means.assign(removal="mean", share=np.nan), sentences], ignore_index=True)


def sums_of_sentences(sentences: pd.DataFrame) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Returns the scorers and removals, a row each; the sums `(N, R, 3)` of `SUMS`; and the tokens `(N, R)`.

    Args:
        sentences: of `measure.measure_sentences`.
    """
    rows = with_means(sentences)
    keys = rows[list(KEYS)].drop_duplicates(ignore_index=True)
    place = rows[list(KEYS)].merge(keys.reset_index(), on=list(KEYS), how="left")["index"].to_numpy(int)
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
        over sentences (`_low`, `_high`), and with its difference to the random order, whose interval is that of the
        same samples (`_over_random`, `_over_random_low`, `_over_random_high`); `taken`, the share of the source that
        was taken away; `sentences`; `tokens` measured and `token_share`.
    """
    keys, sums, tokens = sums_of_sentences(sentences)
    below = np.repeat(tokens[..., None], len(MEASURES), axis=-1)
    above = sums[..., : len(MEASURES)]
    values = ratio(above, below)
    drawn = resample(above, below, sentence_counts(len(sums), samples=samples))
    random = _random_row_of_each(keys)
    low, high = interval(drawn)
    over, over_low, over_high = values - values[random], *interval(drawn - drawn[:, random])
    table = keys.copy()
    for i, measure in enumerate(MEASURES):
        columns = {"": values, "_low": low, "_high": high}
        columns |= {"_over_random": over, "_over_random_low": over_low, "_over_random_high": over_high}
        table = table.assign(**{measure + suffix: column[:, i] for suffix, column in columns.items()})
    table = table.assign(taken=ratio(sums[..., 2], tokens), sentences=len(sums), tokens=tokens.sum(axis=0).astype(int))
    return _sort(table.assign(token_share=token_share))


def _random_row_of_each(keys: pd.DataFrame) -> np.ndarray:
    """Returns for each row that of the random order with the same removal."""
    removals = [(removal, str(share)) for removal, share in zip(keys["removal"], keys["share"], strict=True)]
    places = {removals[row]: row for row in keys.index[keys["scorer"] == "random"]}
    return np.array([places[removal] for removal in removals], int)


def _sort(table: pd.DataFrame) -> pd.DataFrame:
    removal = table["removal"].map({name: place for place, name in enumerate(table["removal"].unique())})
    order = table.assign(_removal=removal, _value=-table[MEASURES[0]])
    order = order.sort_values(["_removal", "share", "_value"], kind="stable")
    return table.loc[order.index].reset_index(drop=True)
