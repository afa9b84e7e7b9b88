"""Comprehensiveness and sufficiency of scores of source tokens (DeYoung et al. 2020, section 4.1).

The model predicts each target token again, without the source tokens of the highest scores (comprehensiveness) or with
these source tokens only (sufficiency).

Letters: B rows of a batch, T target tokens, M measured target tokens, S source tokens with EOS, n source tokens without
EOS, K shares, P predictions, D width of an embedding.
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
from ...runtime.parallel import in_threads
from ...text.batch_plan import FORCED_BATCH_TOKENS, batches_by_length
from ...text.tokens.special_tokens import BOS, EOS, PAD
from .faithfulness import KEYS, SUMS, Scorer, as_shares

SEED = 0
"""The seed of random scores and of random units."""


class ScoredSentence(NamedTuple):
    """A sentence with scores of its source tokens.

    - id: the index of the sentence in its set.
    - source_ids: the n ids of the source, without EOS.
    - target_ids: the T ids of the target, which end in EOS unless truncated.
    - scores: the scores of each scorer, `(T, n)`; see `inspection.experiments.faithfulness.score_sources`.
    - noise: random numbers that order equal scores, `(T, n)`.
    - measured: bool `(T,)`, True for the target tokens that are measured.
    """

    id: int
    source_ids: Sequence[int]
    target_ids: Sequence[int]
    scores: Mapping[Scorer, np.ndarray]
    noise: np.ndarray
    measured: np.ndarray


SHARES = (0.1, 0.2, 0.5)
"""The shares of the source tokens that the hard removal removes or keeps."""


def measure_sentences(
    model: keras.Model,
    sentences: Iterable[ScoredSentence],
    *,
    shares: Sequence[float] = SHARES,
    batch_tokens: int = FORCED_BATCH_TOKENS,
    threads: int = 1,
) -> pd.DataFrame:
    """Measures the drop of the target tokens' probabilities if source tokens are removed by their scores.

    The hard removal removes the share of the source tokens with the highest scores, or keeps only these. The soft
    removal removes or keeps random units of each token's embedding, with the token's share of the scores as the
    probability.

    Args:
        model: any `TranslationModel`.
        sentences: the sentences. Those with an empty source or without measured tokens are left out.
        shares: the shares of the source tokens for the hard removal.
        batch_tokens: the maximum number of positions of either side of a batch, padding included.
        threads: the number of sentences that are read at the same time.

    Returns:
        One row for each sentence, scorer and removal, with these columns:

        - id, scorer, layer, head: the sentence and the scorer.
        - removal: `hard` or `soft`.
        - share: the share of the hard removal; NaN for `soft`.
        - tokens: the number of measured target tokens.
        - comprehensiveness: the drop of the probability if the source tokens are removed, a sum over measured tokens.
        - sufficiency: the drop of the probability if only these source tokens are kept, a sum over measured tokens.
        - taken: the share of the source tokens that is removed for comprehensiveness, a sum over measured tokens. For
          `hard`, numbers of tokens are rounded up; for `soft`, it is the expected share of the units.
    """
    reader = ReducedReader(model, batch_tokens)
    measurable = (sentence for sentence in sentences if len(sentence.source_ids) and sentence.measured.any())

    def measure(sentence: ScoredSentence) -> list[dict[str, Any]]:
        return [*_measure(reader, sentence, shares)]

    rows = [row for rows_of_sentence in in_threads(measure, measurable, threads) for row in rows_of_sentence]
    return pd.DataFrame(rows, columns=["id", *KEYS, "tokens", *SUMS])


Graph = Callable[..., Any]
"""A traced function, see `_make_graph`."""


class ReducedReader:
    """Computes the probabilities of target tokens when only part of the source is read (teacher forcing).

    Args:
        model: any `TranslationModel`.
        batch_tokens: the maximum number of positions of either side of a batch, padding included.

    Attributes:
        width: D, the width of the source embeddings.
    """

    def __init__(self, model: keras.Model, batch_tokens: int = FORCED_BATCH_TOKENS) -> None:
        self.batch_tokens = batch_tokens
        self.width = int(model.source_embedding.width)
        self._graph = _make_graph(model)

    def read_masked(
        self, source_ids: Sequence[int], target_ids: Sequence[int], positions: np.ndarray, is_kept: np.ndarray
    ) -> np.ndarray:
        """Predicts target tokens from some of the source tokens.

        The other source tokens become padding: nothing attends to them, and the positions of all tokens stay the same.
        Predictions that keep the same source tokens share one pass, because a target token is predicted only from the
        target tokens before it.

        Args:
            source_ids: the n ids of the source, without EOS. EOS is always kept.
            target_ids: the T ids of the target.
            positions: int `(P,)`, the positions of the target tokens to predict.
            is_kept: bool `(P, n)`, the source tokens that are kept for each prediction.

        Returns:
            float64 `(P,)`, the probability of each predicted token.
        """
        masks, mask_index = np.unique(is_kept, axis=0, return_inverse=True)
        targets = len(target_ids)
        # A pass of a mask predicts a position once, however many predictions ask for it.
        predictions, prediction_index = np.unique(mask_index.reshape(-1) * targets + positions, return_inverse=True)
        mask_of_prediction, position_of_prediction = np.divmod(predictions, targets)
        masks = np.pad(masks, [(0, 0), (0, 1)], constant_values=True)  # EOS is kept
        source = np.where(masks, [*source_ids, EOS], PAD).astype(np.int32)

        def read(rows: np.ndarray, *target: np.ndarray) -> Any:
            return self._graph(source[rows], *target, np.ones((1, 1, 1), bool))

        probabilities = self._read(read, len(source_ids) + 1, target_ids, mask_of_prediction, position_of_prediction)
        return probabilities[prediction_index]

    def read_thinned(
        self,
        source_ids: Sequence[int],
        target_ids: Sequence[int],
        positions: np.ndarray,
        keep: Callable[[np.ndarray], np.ndarray],
    ) -> np.ndarray:
        """Predicts target tokens with some units of the source embeddings set to zero.

        Args:
            source_ids: the n ids of the source, without EOS. All units of EOS are kept.
            target_ids: the T ids of the target.
            positions: int `(P,)`, the positions of the target tokens to predict.
            keep: a function of the indices of B predictions, int `(B,)`, that returns the units that are kept, bool
                `(B, n, D)`.

        Returns:
            float64 `(P,)`, the probability of each predicted token.
        """
        source = np.array([[*source_ids, EOS]], np.int32)

        def read(rows: np.ndarray, *target: np.ndarray) -> Any:
            units = np.pad(keep(rows), [(0, 0), (0, 1), (0, 0)], constant_values=True)
            return self._graph(np.repeat(source, len(rows), axis=0), *target, units)

        return self._read(read, source.shape[1], target_ids, np.arange(len(positions)), positions)

    def _read(
        self, read: Graph, sources: int, target_ids: Sequence[int], rows: np.ndarray, positions: np.ndarray
    ) -> np.ndarray:
        """Predicts target tokens in batches.

        Args:
            read: a function of the rows of a batch `(B,)`, the target inputs `(B, T)`, the (row in the batch, position)
                of each prediction, and the ids to predict. It returns the probabilities of these ids, a tensor.
            sources: S, the length of the source.
            target_ids: the T ids of the target.
            rows: int `(P,)`, the index of the reduced source of each prediction. A row whose predictions are all early
                in the target does not read the rest of the target.
            positions: int `(P,)`, the target position of each prediction.

        Returns:
            float64 `(P,)`, the probabilities.
        """
        ids = np.array(target_ids, np.int32)
        inputs = np.array([BOS, *target_ids[:-1]], np.int32)
        lengths = np.zeros(rows.max() + 1, np.int64)
        np.maximum.at(lengths, rows, positions + 1)
        probabilities = np.zeros(len(rows))
        for batch in batches_by_length(np.full_like(lengths, sources), lengths, self.batch_tokens):
            row_in_batch = np.full(len(lengths), -1)
            row_in_batch[batch] = np.arange(len(batch))
            in_batch = np.flatnonzero(row_in_batch[rows] >= 0)
            batch_positions = positions[in_batch]
            target_input = np.tile(inputs[: lengths[batch[-1]]], (len(batch), 1))
            cells = np.stack([row_in_batch[rows[in_batch]], batch_positions], axis=1).astype(np.int32)
            probabilities[in_batch] = read(batch, target_input, cells, ids[batch_positions]).numpy()
        return probabilities


def _measure(reader: ReducedReader, sentence: ScoredSentence, shares: Sequence[float]) -> Iterator[dict[str, Any]]:
    """Yields the rows of a sentence, see `measure_sentences`."""
    is_top = np.stack([top_tokens(scores, sentence.noise, shares) for scores in sentence.scores.values()])
    is_top = is_top[:, :, sentence.measured]
    full, hard = _read_hard(reader, sentence, is_top)
    soft = _read_soft(reader, sentence)
    tokens = int(sentence.measured.sum())
    hard_taken = is_top.mean(axis=-1).sum(axis=-1)
    soft_taken = tokens / len(sentence.source_ids)
    for number, scorer in enumerate(sentence.scores):
        removals = [("hard", share, hard[:, number, k], hard_taken[number, k]) for k, share in enumerate(shares)]
        removals.append(("soft", np.nan, soft[:, number], soft_taken))
        for removal, share, probabilities, taken in removals:
            comprehensiveness, sufficiency = (full - probabilities).sum(axis=-1)
            sums = dict(zip(SUMS, (comprehensiveness, sufficiency, taken), strict=True))
            keys = dict(zip(KEYS, (*scorer, removal, share), strict=True))
            yield {"id": sentence.id, **keys, "tokens": tokens, **sums}


def _read_hard(reader: ReducedReader, sentence: ScoredSentence, is_top: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Predicts the measured tokens with the whole source, and after the hard removals.

    Args:
        reader: the reader.
        sentence: the sentence.
        is_top: bool `(scorers, K, M, n)`, the source tokens of the highest scores.

    Returns:
        The probabilities with the whole source, `(M,)`; and those without the top tokens, then with the top tokens
        only, `(2, scorers, K, M)`.
    """
    measured = np.flatnonzero(sentence.measured)
    sources = is_top.shape[-1]
    is_kept = np.stack([~is_top, is_top]).reshape(-1, len(measured), sources)
    is_kept = np.concatenate([np.ones((1, len(measured), sources), bool), is_kept])
    positions = np.tile(measured, len(is_kept))
    probabilities = reader.read_masked(
        sentence.source_ids, sentence.target_ids, positions, is_kept.reshape(-1, sources)
    )
    full, *reduced = probabilities.reshape(len(is_kept), len(measured))
    return full, np.reshape(reduced, (2, *is_top.shape[:-1]))


def _read_soft(reader: ReducedReader, sentence: ScoredSentence) -> np.ndarray:
    """Predicts the measured tokens after the soft removals.

    Returns:
        The probabilities if each token's share of the units is removed, then if only that share is kept,
        `(2, scorers, M)`.
    """
    measured = np.flatnonzero(sentence.measured)
    sources = len(sentence.source_ids)
    shares = np.stack([as_shares(scores[measured]) for scores in sentence.scores.values()])
    scorers = len(shares)
    shares = np.concatenate([shares, shares]).reshape(-1, sources)
    positions = np.tile(measured, 2 * scorers)
    shares_are_kept = np.arange(len(positions)) >= len(positions) // 2

    def keep(rows: np.ndarray) -> np.ndarray:
        return keep_units(positions[rows], shares[rows], shares_are_kept[rows], reader.width, (SEED, sentence.id))

    probabilities = reader.read_thinned(sentence.source_ids, sentence.target_ids, positions, keep)
    return probabilities.reshape(2, scorers, len(measured))


def tokens_of_share(share: float, tokens: int) -> int:
    """Returns the number of tokens in a share, `share * tokens` rounded up. So a short sentence loses a token, too."""
    return math.ceil(round(share * tokens, 9))


def top_tokens(scores: np.ndarray, noise: np.ndarray, shares: Sequence[float] = SHARES) -> np.ndarray:
    """Marks the source tokens with the highest scores of each row.

    Ties are broken by `noise`, so constant attention gives a random order.

    Args:
        scores: `(T, n)`.
        noise: random numbers, `(T, n)`.
        shares: K shares of the n source tokens, from 0 to 1.

    Returns:
        bool `(K, T, n)`, True for the tokens that belong to the share with the highest scores.
    """
    order = np.lexsort((-noise, -scores), axis=-1)
    ranks = np.argsort(order, axis=-1)
    return np.stack([ranks < tokens_of_share(share, scores.shape[-1]) for share in shares])


def keep_units(
    positions: np.ndarray, shares: np.ndarray, shares_are_kept: np.ndarray, width: int, seed: Sequence[int]
) -> np.ndarray:
    """Draws the units of each source token's embedding that are kept (Zhao and Aletras 2023, section 3).

    A unit is drawn with its token's share of the scores as the probability. All scorers use the same random numbers for
    a target token. If their shares are equal, the units removed for comprehensiveness are those kept for sufficiency.

    Args:
        positions: int `(P,)`, the target position of each prediction.
        shares: `(P, n)`, each source token's share of the scores, from 0 to 1.
        shares_are_kept: bool `(P,)`, True to keep only the drawn units, False to remove them.
        width: D.
        seed: integers that identify the sentence; the same numbers give the same units.

    Returns:
        bool `(P, n, D)`, True for the units that are kept.
    """
    shape = shares.shape[-1], width
    numbers = {t: np.random.default_rng((*seed, t)).random(shape, np.float32) for t in np.unique(positions).tolist()}
    is_drawn = np.stack([numbers[t] for t in positions.tolist()]) < shares[..., None]
    return is_drawn == shares_are_kept[:, None, None]


def _make_graph(model: keras.Model) -> Graph:
    """Makes the graph that predicts target tokens from reduced sources.

    Returns:
        A function of the sources `(B, S)`, the target inputs `(B, T)`, the (row, position) of each prediction
        `(P, 2)`, the ids to predict `(P,)`, all int32, and the units of the source embeddings that are kept, bool,
        broadcastable to `(B, S, D)`. It returns the probabilities of the ids, `(P,)`.
    """

    def read(source, target_input, cells, outputs, units):
        def remove_units(layer, part, value, **inputs):
            return value * tf.cast(units, value.dtype) if part == "vectors" else value

        with tapped(remove_units):
            memory = model.encode(source, training=False)
        states = tf.gather_nd(model.decode(target_input, memory, training=False).states, cells)
        log_probabilities = tf.nn.log_softmax(model.output_embedding.logits(states[None])[0])
        return tf.exp(tf.gather(log_probabilities, outputs, batch_dims=1))

    shapes = [None, None], [None, None], [None, 2], [None]
    signature = [*(tf.TensorSpec(shape, tf.int32) for shape in shapes), tf.TensorSpec([None, None, None], tf.bool)]
    return ModelGraph(model, read, signature)
