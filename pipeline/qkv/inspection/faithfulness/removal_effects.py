"""Comprehensiveness and sufficiency of what scorers say of each target token (DeYoung et al. 2020, section 4.1).

Letters: T target tokens, M of them that are measured, n source tokens without EOS, K shares.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import pandas as pd

from ...runtime.parallel import in_order
from ...text.batch_plan import FORCED_BATCH_TOKENS
from .effects_table import KEYS, SUMS
from .passes import ReducedReader
from .removal import SHARES, UnitDraws, first_of
from .scorers import Scorer, as_shares

SEED = 0


class ScoredSentence(NamedTuple):
    """A sentence whose source tokens were scored.

    - id: its number in the set.
    - source_ids: n ids, without EOS.
    - target_ids: T ids, ending in EOS unless truncated.
    - scores: for each scorer `(T, n)`.
    - noise: `(T, n)`, which orders equal scores.
    - measured: bool `(T,)`, the target tokens that are measured.
    """

    id: int
    source_ids: Sequence[int]
    target_ids: Sequence[int]
    scores: Mapping[Scorer, np.ndarray]
    noise: np.ndarray
    measured: np.ndarray


def measure_sentences(
    model: keras.Model,
    sentences: Iterable[ScoredSentence],
    *,
    shares: Sequence[float] = SHARES,
    batch_tokens: int = FORCED_BATCH_TOKENS,
    workers: int = 1,
) -> pd.DataFrame:
    """Takes away what scorers say matters, or all else, and measures what that costs each target token.

    Args:
        model: any `TranslationModel`.
        sentences: what is measured; those without a source or without measured tokens are left out.
        shares: of the source tokens, which the hard removal takes away or leaves alone.
        batch_tokens: the maximum number of positions of either side of a batch, padding included.
        workers: number of sentences read in parallel.

    Returns:
        A row for each sentence, scorer and removal: `id`, `scorer`, `layer`, `head`, `removal` (`hard` or `soft`),
        `share` (not-a-number for `soft`), `tokens` that were measured, and sums over them: `comprehensiveness`, the
        drop of the token's probability when the share is taken away; `sufficiency`, its drop when the share alone is
        left; `taken`, the share of the source tokens that was taken away, rounded up to whole tokens, or for `soft` the
        expected share of their units.
    """
    reader = ReducedReader(model, batch_tokens)
    wanted = (sentence for sentence in sentences if len(sentence.source_ids) and sentence.measured.any())

    def measure(sentence: ScoredSentence) -> list[dict[str, Any]]:
        return [*_measure(reader, sentence, shares, int(model.source_embedding.width))]

    rows = [row for measured in in_order(measure, wanted, workers) for row in measured]
    return pd.DataFrame(rows, columns=["id", *KEYS, "tokens", *SUMS])


def _measure(
    reader: ReducedReader, sentence: ScoredSentence, shares: Sequence[float], width: int
) -> Iterator[dict[str, Any]]:
    first = np.stack([first_of(scores, sentence.noise, shares) for scores in sentence.scores.values()])
    first = first[:, :, sentence.measured]
    full, hard = _read_hard(reader, sentence, first)
    soft = _read_soft(reader, sentence, width)
    tokens = int(sentence.measured.sum())
    taken, soft_taken = first.mean(axis=-1).sum(axis=-1), tokens / len(sentence.source_ids)
    for place, scorer in enumerate(sentence.scores):
        found = [("hard", share, hard[:, place, k], taken[place, k]) for k, share in enumerate(shares)]
        for removal, share, probabilities, share_taken in [*found, ("soft", np.nan, soft[:, place], soft_taken)]:
            drops = (full - probabilities).sum(axis=-1)
            sums = dict(zip(SUMS, (*drops, share_taken), strict=True))
            keys = dict(zip(KEYS, (*scorer, removal, share), strict=True))
            yield {"id": sentence.id, **keys, "tokens": tokens, **sums}


def _read_hard(reader: ReducedReader, sentence: ScoredSentence, first: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the probabilities with the whole source `(M,)`, and, with the first tokens of each order taken away and
    alone left, `(2, scorers, K, M)`."""
    measured = np.flatnonzero(sentence.measured)
    sources = first.shape[-1]
    kept = np.stack([~first, first]).reshape(-1, len(measured), sources)
    kept = np.concatenate([np.ones((1, len(measured), sources), bool), kept])
    positions = np.tile(measured, len(kept))
    found = reader.read_masked(sentence.source_ids, sentence.target_ids, positions, kept.reshape(-1, sources))
    full, *reduced = found.reshape(len(kept), len(measured))
    return full, np.reshape(reduced, (2, *first.shape[:-1]))


def _read_soft(reader: ReducedReader, sentence: ScoredSentence, width: int) -> np.ndarray:
    """Returns the probabilities with the scores' shares of the units taken away and alone left, `(2, scorers, M)`."""
    measured = np.flatnonzero(sentence.measured)
    sources = len(sentence.source_ids)
    shares = np.stack([as_shares(scores[measured]) for scores in sentence.scores.values()])
    scorers = len(shares)
    shares = np.concatenate([shares, shares]).reshape(-1, sources)
    positions = np.tile(measured, 2 * scorers)
    left = np.arange(len(positions)) >= len(positions) // 2
    draws = UnitDraws(sources, width, (SEED, sentence.id))

    def keep(rows: np.ndarray) -> np.ndarray:
        return draws.kept(positions[rows], shares[rows], left[rows])

    found = reader.read_thinned(sentence.source_ids, sentence.target_ids, positions, keep)
    return found.reshape(2, scorers, len(measured))
