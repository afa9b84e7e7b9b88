"""Comprehensiveness and sufficiency of what scorers say of each target token (DeYoung et al. 2020, section 4.1): source
tokens are taken away, or left alone, and the model predicts again.

Letters: B rows of a batch, T target tokens, M of them that are measured, S source tokens with EOS, n without it, K
shares, P predictions, D width of an embedding.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import pandas as pd
import tensorflow as tf

from ...layers.tap import tapped
from ...runtime.graphs import ModelGraph
from ...runtime.parallel import in_order
from ...text.batch_plan import FORCED_BATCH_TOKENS, batches_by_length
from ...text.tokens.special_tokens import BOS, EOS, PAD
from .faithfulness import KEYS, SUMS, Scorer, as_shares

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


SHARES = (0.1, 0.2, 0.5)
"""Of the source tokens, taken away in turn."""


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
        return [*_measure(reader, sentence, shares)]

    rows = [row for measured in in_order(measure, wanted, workers) for row in measured]
    return pd.DataFrame(rows, columns=["id", *KEYS, "tokens", *SUMS])


Graph = Callable[..., Any]


class ReducedReader:
    """Reads a given target with reduced sources, in batches of so many positions on either side, and returns the
    probabilities of its tokens."""

    def __init__(self, model: keras.Model, batch_tokens: int = FORCED_BATCH_TOKENS) -> None:
        self.batch_tokens = batch_tokens
        self.width = int(model.source_embedding.width)
        self._graph = _make_graph(model)

    def read_masked(
        self, source_ids: Sequence[int], target_ids: Sequence[int], positions: np.ndarray, kept: np.ndarray
    ) -> np.ndarray:
        """Predicts target tokens from the source tokens that are kept.

        A token that is not kept is padding to the model: nothing attends to it, and the others stay where they are.
        One pass with a mask gives all target tokens that are read with it, because each is predicted from those before
        it alone.

        Args:
            source_ids: n ids, without EOS, which is always kept.
            target_ids: T ids.
            positions: int `(P,)`, the target tokens that are predicted.
            kept: bool `(P, n)`, for each of them the source tokens that are kept.

        Returns:
            float64 `(P,)`, the probability of each of them.
        """
        masks, mask_of = np.unique(kept, axis=0, return_inverse=True)
        targets = len(target_ids)
        wanted, places = np.unique(mask_of.reshape(-1) * targets + positions, return_inverse=True)
        masks = np.pad(masks, [(0, 0), (0, 1)], constant_values=True)  # EOS is kept
        source = np.where(masks, [*source_ids, EOS], PAD).astype(np.int32)

        def read(rows: np.ndarray, *target: np.ndarray) -> Any:
            return self._graph(source[rows], *target, np.ones((1, 1, 1), bool))

        return self._read(read, len(source_ids) + 1, target_ids, *np.divmod(wanted, targets))[places]

    def read_thinned(
        self,
        source_ids: Sequence[int],
        target_ids: Sequence[int],
        positions: np.ndarray,
        keep: Callable[[np.ndarray], np.ndarray],
    ) -> np.ndarray:
        """Predicts target tokens like `read_masked`, when some units of the source's embeddings are zero.

        Args:
            source_ids, target_ids, positions: see `read_masked`. EOS keeps all units.
            keep: returns the units that are not zero, bool `(B, n, D)`, for B of the P predictions.
        """
        source = np.array([[*source_ids, EOS]], np.int32)

        def read(rows: np.ndarray, *target: np.ndarray) -> Any:
            units = np.pad(keep(rows), [(0, 0), (0, 1), (0, 0)], constant_values=True)
            return self._graph(np.repeat(source, len(rows), axis=0), *target, units)

        return self._read(read, source.shape[1], target_ids, np.arange(len(positions)), positions)

    def _read(
        self, read: Graph, sources: int, target_ids: Sequence[int], rows: np.ndarray, positions: np.ndarray
    ) -> np.ndarray:
        """Predicts the target token at a position from the source of a row; a row that is needed for early positions
        alone does not read the later ones."""
        ids = np.array(target_ids, np.int32)
        inputs = np.array([BOS, *target_ids[:-1]], np.int32)
        lengths = np.zeros(rows.max() + 1, np.int64)
        np.maximum.at(lengths, rows, positions + 1)
        found = np.zeros(len(rows))
        for batch in batches_by_length(np.full_like(lengths, sources), lengths, self.batch_tokens):
            place_in_batch = np.full(len(lengths), -1)
            place_in_batch[batch] = np.arange(len(batch))
            here = np.flatnonzero(place_in_batch[rows] >= 0)
            target_input = np.tile(inputs[: lengths[batch[-1]]], (len(batch), 1))
            places = np.stack([place_in_batch[rows[here]], positions[here]], axis=1).astype(np.int32)
            found[here] = read(batch, target_input, places, ids[positions[here]]).numpy()
        return found


def _measure(reader: ReducedReader, sentence: ScoredSentence, shares: Sequence[float]) -> Iterator[dict[str, Any]]:
    first = np.stack([first_of(scores, sentence.noise, shares) for scores in sentence.scores.values()])
    first = first[:, :, sentence.measured]
    full, hard = _read_hard(reader, sentence, first)
    soft = _read_soft(reader, sentence)
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


def _read_soft(reader: ReducedReader, sentence: ScoredSentence) -> np.ndarray:
    """Returns the probabilities with the scores' shares of the units taken away and alone left, `(2, scorers, M)`."""
    measured = np.flatnonzero(sentence.measured)
    sources = len(sentence.source_ids)
    shares = np.stack([as_shares(scores[measured]) for scores in sentence.scores.values()])
    scorers = len(shares)
    shares = np.concatenate([shares, shares]).reshape(-1, sources)
    positions = np.tile(measured, 2 * scorers)
    left = np.arange(len(positions)) >= len(positions) // 2

    def keep(rows: np.ndarray) -> np.ndarray:
        return keep_units(positions[rows], shares[rows], left[rows], reader.width, (SEED, sentence.id))

    found = reader.read_thinned(sentence.source_ids, sentence.target_ids, positions, keep)
    return found.reshape(2, scorers, len(measured))


def tokens_of_share(share: float, tokens: int) -> int:
    """Returns how many tokens a share is, rounded up: of a short sentence, too, one is taken."""
    return math.ceil(round(share * tokens, 9))


def first_of(scores: np.ndarray, noise: np.ndarray, shares: Sequence[float] = SHARES) -> np.ndarray:
    """Returns which tokens come first in the order of the scores `(T, n)`, for each of K shares: bool `(K, T, n)`.

    Equal scores say nothing of their order, so noise decides: attention that is the same everywhere orders as chance
    does.
    """
    order = np.lexsort((-noise, -scores), axis=-1)
    places = np.argsort(order, axis=-1)
    return np.stack([places < tokens_of_share(share, scores.shape[-1]) for share in shares])


def keep_units(
    positions: np.ndarray, shares: np.ndarray, left: np.ndarray, width: int, seed: Sequence[int]
) -> np.ndarray:
    """Draws which units of each source token's embedding are kept (Zhao and Aletras 2023, section 3).

    A unit is taken away with the probability of its token's share of the scores. All scorers of a target token have the
    same draws, and what is taken away for one measure is what is left for the other.

    Args:
        positions: int `(passes,)`, target tokens.
        shares: `(passes, n)`.
        left: bool `(passes,)`, whether the shares are what is left; else they are what is taken away.
        width: D.
        seed: of the sentence.

    Returns:
        bool `(passes, n, D)`.
    """
    shape = shares.shape[-1], width
    draws = {t: np.random.default_rng((*seed, t)).random(shape, np.float32) for t in np.unique(positions).tolist()}
    chosen = np.stack([draws[t] for t in positions.tolist()]) < shares[..., None]
    return chosen == left[:, None, None]


def _make_graph(model: keras.Model) -> Graph:
    """Makes a graph of sources `(B, S)`, target inputs `(B, T)`, places `(P, 2)` of predictions in the batch, their
    tokens `(P,)`, and the units of the source's embeddings that are kept, bool, broadcastable to `(B, S, D)`.

    It returns the tokens' probabilities.
    """

    def read(source, target_input, places, outputs, units):
        def thin(layer, part, value, **seen):
            return value * tf.cast(units, value.dtype) if part == "vectors" else value

        with tapped(thin):
            memory = model.encode(source, training=False)
        states = tf.gather_nd(model.decode(target_input, memory, training=False).states, places)
        scores = tf.nn.log_softmax(model.output_embedding.logits(states[None])[0])
        return tf.exp(tf.gather(scores, outputs, batch_dims=1))

    shapes = [None, None], [None, None], [None, 2], [None]
    signature = [*(tf.TensorSpec(shape, tf.int32) for shape in shapes), tf.TensorSpec([None, None, None], tf.bool)]
    return ModelGraph(model, read, signature)
