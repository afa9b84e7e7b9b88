"""What says how much each source token matters to each target token: attention, and what it is compared with.

Letters: T target tokens, n source tokens without EOS.
"""

from typing import NamedTuple

import numpy as np

from ..record import Record

MEAN = "mean"


class Scorer(NamedTuple):
    """What orders the source tokens.

    - scorer: one of `config.names.inspection.SOURCE_SCORERS`.
    - layer: from 0, `mean`, or empty for what has no layers.
    - head: from 0, `mean`, or empty for what has no heads.
    """

    scorer: str
    layer: int | str = ""
    head: int | str = ""

    def __str__(self) -> str:
        if self.layer == "":
            return self.scorer
        place = (
            "all heads"
            if self.layer == MEAN
            else f"layer {self.layer}, " + ("all heads" if self.head == MEAN else f"head {self.head}")
        )
        return f"{self.scorer}, {place}"


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
