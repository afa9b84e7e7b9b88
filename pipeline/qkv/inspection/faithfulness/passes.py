"""The passes of a model over sources of which something was taken away.

Letters: B rows of a batch, T target tokens, S source tokens with EOS, n without it, P predictions, D width.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ...text.batch_plan import FORCED_BATCH_TOKENS
from ...text.tokens.special_tokens import BOS, EOS, PAD

Graph = Callable[..., Any]


class ReducedReader:
    """Reads a given target with reduced sources, and returns the probabilities of its tokens.

    Args:
        model: any `TranslationModel`.
        batch_tokens: the maximum number of positions of either side of a batch.
    """

    def __init__(self, model: keras.Model, batch_tokens: int = FORCED_BATCH_TOKENS) -> None:
        self.batch_tokens = batch_tokens
        # Traced before any thread reads: while one of them is traced, the model's embedding is another one.
        self._masked, self._thinned = (_make_graph(model, thinned) for thinned in (False, True))

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
        source = np.where(_with_eos(masks), [*source_ids, EOS], PAD).astype(np.int32)

        def read(rows: np.ndarray, *target: np.ndarray) -> Any:
            return self._masked(source[rows], *target)

        return self._read(read, len(source_ids) + 1, target_ids, *np.divmod(wanted, targets))[places]

    def read_thinned(
        self,
        source_ids: Sequence[int],
        target_ids: Sequence[int],
        positions: np.ndarray,
        keep: Callable[[np.ndarray], np.ndarray],
    ) -> np.ndarray:
        """Predicts target tokens when some units of the source's embeddings are zero.

        Args:
            source_ids: n ids, without EOS, which keeps all units.
            target_ids: T ids.
            positions: int `(P,)`, the target tokens that are predicted.
            keep: returns the units that are not zero, bool `(B, n, D)`, for B of the P predictions.

        Returns:
            float64 `(P,)`, the probability of each of them.
        """
        source = np.array([[*source_ids, EOS]], np.int32)

        def read(rows: np.ndarray, *target: np.ndarray) -> Any:
            units = np.pad(keep(rows), [(0, 0), (0, 1), (0, 0)], constant_values=True)
            return self._thinned(np.repeat(source, len(rows), axis=0), *target, units)

        return self._read(read, source.shape[1], target_ids, np.arange(len(positions)), positions)

    def _read(
        self, read: Graph, sources: int, target_ids: Sequence[int], rows: np.ndarray, positions: np.ndarray
    ) -> np.ndarray:
        """Predicts the target token at a position from the source of a row; a row that is needed for early positions
        alone does not read the later ones."""
        ids, inputs = np.array(target_ids, np.int32), np.array([BOS, *target_ids[:-1]], np.int32)
        lengths = np.zeros(rows.max() + 1, np.int64)
        np.maximum.at(lengths, rows, positions + 1)
        found = np.zeros(len(rows))
        for batch in _cut(np.argsort(lengths, kind="stable"), lengths, sources, self.batch_tokens):
            place_in_batch = np.full(len(lengths), -1)
            place_in_batch[batch] = np.arange(len(batch))
            here = np.flatnonzero(place_in_batch[rows] >= 0)
            target_input = np.tile(inputs[: lengths[batch[-1]]], (len(batch), 1))
            places = np.stack([place_in_batch[rows[here]], positions[here]], axis=1).astype(np.int32)
            found[here] = read(batch, target_input, places, ids[positions[here]]).numpy()
        return found


def _with_eos(kept: np.ndarray) -> np.ndarray:
    return np.pad(kept, [(0, 0), (0, 1)], constant_values=True)


def _cut(order: np.ndarray, lengths: np.ndarray, sources: int, batch_tokens: int) -> Iterator[np.ndarray]:
    """Cuts rows, ordered by length, into batches of up to `batch_tokens` positions."""
    first = 0
    for last, row in enumerate(order):
        if last > first and (last + 1 - first) * max(lengths[row], sources) > batch_tokens:
            yield order[first:last]
            first = last
    yield order[first:]


def _make_graph(model: keras.Model, thinned: bool) -> Graph:
    """Makes a graph of sources `(B, S)`, target inputs `(B, T)`, places `(P, 2)` of predictions in the batch and their
    tokens `(P,)`, which returns the tokens' probabilities; `thinned` with the units that are kept, `(B, S, D)`."""

    def read(source, target_input, places, outputs, units=None):
        with _units_kept(model.source_embedding, units):
            memory = model.encode(source, training=False)
        states = tf.gather_nd(model.decode(target_input, memory, training=False).states, places)
        scores = tf.nn.log_softmax(model.output_embedding.logits(states[None])[0])
        return tf.exp(tf.gather(scores, outputs, batch_dims=1))

    ids = tf.TensorSpec([None, None], tf.int32)
    signature = [ids, ids, tf.TensorSpec([None, 2], tf.int32), tf.TensorSpec([None], tf.int32)]
    if thinned:
        signature.append(tf.TensorSpec([None, None, None], tf.bool))
    graph = tf.function(read, input_signature=signature, autograph=False)
    graph.get_concrete_function()
    return graph


@contextmanager
def _units_kept(embedding: keras.layers.Layer, units: Any) -> Iterator[None]:
    """Makes the units of what the embedding returns zero that are not kept; None keeps all."""
    if units is None:
        yield
        return
    original_call = embedding.call

    def call(*arguments, **named):
        vectors = original_call(*arguments, **named)
        return vectors * tf.cast(units, vectors.dtype)

    embedding.call = call
    try:
        yield
    finally:
        del embedding.call
