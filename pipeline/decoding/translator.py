"""Translates sentences: batches them by length, searches in a graph, and decodes the results to text."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from ..runtime.cores import in_order
from ..text.batches import pad, round_up
from ..text.tokenizer import EOS, PAD, Tokenizer
from .search import GreedySearch, Search

LENGTH_MULTIPLE = 8


@dataclass(frozen=True)
class Translation:
    """One translation of a sentence.

    Args:
        text: the translation.
        source_ids: the tokens that were translated, without EOS.
        ids: the tokens of the translation, ending in EOS unless truncated.
        log_probabilities: natural logarithms, one for each of `ids`; 0.0 for an empty source, which is not searched.
        truncated: whether the longest length was reached before EOS, or the source was too long and was cut.
        score: the score by which the search ranked it.
        prefix_tokens: how many of `ids` were given, rather than found.
    """

    text: str
    source_ids: list[int]
    ids: list[int]
    log_probabilities: list[float]
    truncated: bool
    score: float = 0.0
    prefix_tokens: int = 0


class Translator:
    """Translates sentences with a model of any architecture.

    Args:
        model: any `TranslationModel`.
        tokenizer: the tokenizer with which it was trained.
        search: how translations are found; by default greedily.
        batch_sentences: sentences translated at once.
        max_target_ratio: a translation has at most `max_target_ratio * source tokens + max_target_extra` tokens.
        max_target_extra: see `max_target_ratio`.
        max_positions: the maximum number of tokens on either side; longer sources are cut.
        workers: batches translated at the same time.
    """

    def __init__(
        self,
        model: keras.Model,
        tokenizer: Tokenizer,
        *,
        search: Search | None = None,
        batch_sentences: int = 64,
        max_target_ratio: float = 2.0,
        max_target_extra: int = 10,
        max_positions: int = 512,
        workers: int = 1,
    ) -> None:
        self.workers = workers
        self.tokenizer = tokenizer
        self.batch_sentences = batch_sentences
        self.max_target_ratio = max_target_ratio
        self.max_target_extra = max_target_extra
        self.max_positions = max_positions

        search = search or GreedySearch()

        def search_with_prefix(source, max_lengths, length, prefix):
            memory = model.encode(source, training=False)._replace(self_attention=())
            return search(model, memory, max_lengths, length, prefix)

        def search_batch(source, max_lengths, length):
            return search_with_prefix(source, max_lengths, length, None)

        ids, row, number = (tf.TensorSpec(shape, tf.int32) for shape in ([None, None], [None], []))
        self._search_graph = tf.function(search_batch, input_signature=(ids, row, number), autograph=False)
        signature = (ids, row, number, ids)
        self._prefix_graph = tf.function(search_with_prefix, input_signature=signature, autograph=False)

    def translate(self, sentences: Sequence[str]) -> list[Translation]:
        """Returns the best translation of each sentence, in the order given. The translation of an empty sentence is
        empty."""
        return [translations[0] for translations in self.translate_n_best(sentences)]

    def translate_n_best(self, sentences: Sequence[str]) -> list[list[Translation]]:
        """Returns all translations of each sentence that the search returns, best first."""
        return self.translate_ids(self.tokenizer.encode(sentences))

    def translate_ids(
        self, source_ids: Sequence[list[int]], prefix_ids: Sequence[list[int]] | None = None
    ) -> list[list[Translation]]:
        """Translates like `translate_n_best`, given the ids of the sentences, without BOS and EOS.

        Args:
            source_ids: the sentences.
            prefix_ids: the tokens with which each translation begins, fewer than `max_positions`; by default none. They
                are scored as if they had been found; constraints of the search do not apply to them.
        """
        prefix_ids = prefix_ids or [[]] * len(source_ids)
        # One more for EOS.
        rows = [_Row(ids[: self.max_positions - 1], prefix) for ids, prefix in zip(source_ids, prefix_ids, strict=True)]
        translations = [[Translation("", [], [EOS], [0.0], truncated=False)] for _ in rows]
        order = sorted((i for i, row in enumerate(rows) if any(row)), key=lambda i: -len(rows[i].source))
        batches = [order[first : first + self.batch_sentences] for first in range(0, len(order), self.batch_sentences)]
        results = in_order(self._translate_batch, ([rows[i] for i in batch] for batch in batches), self.workers)
        for batch, result in zip(batches, results, strict=True):
            for i, n_best in zip(batch, result, strict=True):
                is_cut = len(rows[i].source) < len(source_ids[i])
                translations[i] = [replace(one, truncated=one.truncated or is_cut) for one in n_best]
        return translations

    def max_lengths(self, source_lengths: np.ndarray) -> np.ndarray:
        """Returns the maximum number of tokens, EOS included, of translations of sources of these lengths: int32."""
        lengths = (self.max_target_ratio * source_lengths).astype(np.int32) + self.max_target_extra
        return np.minimum(lengths, self.max_positions)

    def _translate_batch(self, rows: list["_Row"]) -> list[list[Translation]]:
        lengths, prefix_lengths = (np.array([len(row[side]) for row in rows]) for side in (0, 1))
        source = pad(
            [[*row.source, EOS] for row in rows],
            min(round_up(int(lengths.max()) + 1, LENGTH_MULTIPLE), self.max_positions),
        )
        max_lengths = self.max_lengths(lengths)
        if prefix_lengths.any():
            longest = np.minimum(prefix_lengths + self.max_target_extra, self.max_positions)
            max_lengths = np.maximum(max_lengths, longest).astype(np.int32)
        length = min(int(round_up(int(max_lengths.max()), LENGTH_MULTIPLE)), self.max_positions)
        if prefix_lengths.any():
            prefix = pad([row.prefix for row in rows], length)
            result = self._prefix_graph(source, max_lengths, length, prefix)
        else:
            result = self._search_graph(source, max_lengths, length)
        all_ids, all_log_probabilities, all_scores = (x.numpy() for x in result)
        places = np.argwhere(np.isfinite(all_scores))  # (sentence, rank)
        targets = [[int(token) for token in all_ids[i, n] if token != PAD] for i, n in places]
        translations: list[list[Translation]] = [[] for _ in rows]
        for (i, n), ids, text in zip(places, targets, self.tokenizer.decode(targets), strict=True):
            log_probabilities = [float(value) for value in all_log_probabilities[i, n, : len(ids)]]
            score = float(all_scores[i, n])
            is_cut = ids[-1] != EOS
            translations[i].append(
                Translation(text, rows[i].source, ids, log_probabilities, is_cut, score, len(rows[i].prefix))
            )
        return translations


class _Row(NamedTuple):
    source: list[int]
    prefix: list[int]
