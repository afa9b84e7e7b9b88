"""Translates sentences: batches them by length, searches in a graph, and decodes the results to text."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from threading import Lock
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from ..errors import InputError
from ..runtime.graphs import GraphCache, ModelGraph
from ..runtime.parallel import in_threads
from ..text.batch import pad
from ..text.batch_plan import round_up
from ..text.phrases.required import RequiredPhrase, tokens_needed
from ..text.phrases.token_text import TokenText
from ..text.tokens.special_tokens import EOS, PAD
from ..text.tokens.tokenizer import Tokenizer
from .greedy import GreedySearch
from .lexical_constraints import Requirements, make_requirements
from .search import Search

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
        score: the score with which the search ranked it.
        prefix_tokens: how many of `ids` were given, rather than found.
        required: the phrases that had to be in the text.
    """

    text: str
    source_ids: list[int]
    ids: list[int]
    log_probabilities: list[float]
    truncated: bool
    score: float = 0.0
    prefix_tokens: int = 0
    required: list[str] = field(default_factory=list)


class Draws:
    """The number of steps that sampling has drawn, which go on from call to call; one call at a time draws."""

    def __init__(self) -> None:
        self.count = 0
        self.turn = Lock()

    def add(self, steps: int) -> None:
        """Counts further steps."""
        self.count += steps


@dataclass(eq=False)
class Translator:
    """Translates sentences with a model of any architecture.

    Translators of one model that share a `GraphCache` share the graphs of searches that differ in their numbers alone,
    such as a seed, a temperature or a length penalty.

    Args:
        model: any `TranslationModel`.
        tokenizer: the tokenizer with which it was trained.
        search: how translations are found; by default greedily.
        batch_sentences: sentences translated at once.
        max_target_ratio: a translation has at most `max_target_ratio * source tokens + max_target_extra` tokens.
        max_target_extra: see `max_target_ratio`.
        max_positions: the maximum number of tokens on either side; longer sources are cut.
        workers: batches translated at the same time.
        tokens: the target language's, needed where phrases are required.
        read: returns the tokens of sentences as a person gives them, of a side that is `source` or `target`; by
            default the tokenizer's.
        graphs: the graphs that are kept; by default this translator's.
        draws: the draws of sampling.
    """

    model: keras.Model
    tokenizer: Tokenizer
    _: KW_ONLY
    search: Search = field(default_factory=GreedySearch)
    batch_sentences: int = 64
    max_target_ratio: float = 2.0
    max_target_extra: int = 10
    max_positions: int = 512
    workers: int = 1
    tokens: TokenText | None = None
    read: Callable[[Sequence[str], str], list[list[int]]] | None = None
    graphs: GraphCache = field(default_factory=GraphCache)
    draws: Draws = field(default_factory=Draws)

    def translate(self, sentences: Sequence[str]) -> list[Translation]:
        """Returns the best translation of each sentence, in order; of an empty sentence it is empty."""
        return [n_best[0] for n_best in self.translate_ids(self.encode(sentences))]

    def encode(self, sentences: Sequence[str], side: str = "source") -> list[list[int]]:
        """Returns the tokens of sentences as a person gives them, without BOS and EOS, of `source` or `target`."""
        if self.read:
            return self.read(sentences, side)
        return (self.tokenizer if side == "source" else self.tokenizer.of_target).encode(sentences)

    def translate_ids(
        self,
        source_ids: Sequence[list[int]],
        prefix_ids: Sequence[list[int]] | None = None,
        required: Sequence[Sequence[RequiredPhrase]] | None = None,
    ) -> list[list[Translation]]:
        """Returns all translations that the search returns of each sentence, in order, given ids without BOS and EOS.

        Args:
            source_ids: the sentences.
            prefix_ids: the tokens with which each translation begins, fewer than `max_positions`; by default none. They
                are scored as if they had been found; constraints of the search do not apply to them.
            required: the phrases that each translation contains as whole words; by default none. Only a beam search can
                meet them. With the prefix they need at most `max_positions` tokens, see `tokens_needed`.
        """
        given = zip(source_ids, prefix_ids or [[]] * len(source_ids), required or [()] * len(source_ids), strict=True)
        # One more for EOS.
        rows = [_Row(ids[: self.max_positions - 1], prefix, phrases) for ids, prefix, phrases in given]
        translations = [[Translation("", [], [EOS], [0.0], truncated=False)] for _ in rows]
        order = sorted((i for i, row in enumerate(rows) if any(row)), key=lambda i: -len(rows[i].source))
        batches = [order[first : first + self.batch_sentences] for first in range(0, len(order), self.batch_sentences)]
        results = in_threads(self._translate_batch, ([rows[i] for i in batch] for batch in batches), self.workers)
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
        lengths = np.array([len(row.source) for row in rows])
        prefix_lengths = np.array([len(row.prefix) for row in rows])
        width = min(round_up(int(lengths.max()) + 1, LENGTH_MULTIPLE), self.max_positions)
        source = pad([[*row.source, EOS] for row in rows], width)
        needed = prefix_lengths + np.array([tokens_needed(row.required) for row in rows])
        longest = np.where(needed > 0, np.minimum(needed + self.max_target_extra, self.max_positions), 0)
        max_lengths = np.maximum(self.max_lengths(lengths), longest).astype(np.int32)
        length = min(int(round_up(int(max_lengths.max()), LENGTH_MULTIPLE)), self.max_positions)
        given: dict[str, Any] = {}
        if prefix_lengths.any():
            given["prefix"] = pad([row.prefix for row in rows], length)
        if any(row.required for row in rows):
            if self.tokens is None:
                raise ValueError("tokens: expected the target language's, because phrases are required; found None")
            given["required"] = make_requirements([row.required for row in rows], self.tokens.symbols)
        all_ids, all_log_probabilities, all_scores = self._search(source, max_lengths, length, given)
        _check_scores(all_scores)
        places = np.argwhere(np.isfinite(all_scores))  # (sentence, rank)
        targets = [[int(token) for token in all_ids[i, n] if token != PAD] for i, n in places]
        translations: list[list[Translation]] = [[] for _ in rows]
        for (i, n), ids, text in zip(places, targets, self.tokenizer.decode(targets), strict=True):
            log_probabilities = [float(value) for value in all_log_probabilities[i, n, : len(ids)]]
            score = float(all_scores[i, n])
            is_cut = ids[-1] != EOS
            row, phrases = rows[i], [phrase.text for phrase in rows[i].required]
            translations[i].append(
                Translation(text, row.source, ids, log_probabilities, is_cut, score, len(row.prefix), phrases)
            )
        return translations

    def _search(self, source: Any, max_lengths: Any, length: int, given: Mapping[str, Any]) -> list[np.ndarray]:
        graph, numbers = self.graph(*given), self.search.numbers
        if "drawn" not in numbers:
            return [x.numpy() for x in graph(source, max_lengths, length, numbers, given)]
        with self.draws.turn:
            numbers["drawn"] += self.draws.count
            ids, *others = (x.numpy() for x in graph(source, max_lengths, length, numbers, given))
            self.draws.add(int((ids != PAD).sum(axis=-1).max()))
        return [ids, *others]

    def graph(self, *names: str) -> ModelGraph:
        """Returns the graph of the search, given `prefix`, `required`, both or neither."""
        model, numbers = self.model, self.search.numbers
        kind = self.search.with_numbers(dict.fromkeys(numbers))  # equal for searches that differ in numbers alone

        def search_batch(source, max_lengths, length, numbers, given):
            memory = model.encode(source, training=False)._replace(self_attention=())
            return kind.with_numbers(numbers)(model, memory, max_lengths, length, **given)

        scalars = {name: tf.TensorSpec([], number.dtype) for name, number in numbers.items()}
        signature = (_IDS, _ROW, _NUMBER, scalars, {name: _GIVEN[name] for name in names})
        return self.graphs.get((model, kind, names), lambda: ModelGraph(model, search_batch, signature))


def _check_scores(scores: np.ndarray) -> None:
    """Checks the scores of the hypotheses `(sentences, rank)`; minus infinity stands for none."""
    if np.isnan(scores).any():
        raise InputError(
            "the model gives scores that are not numbers: its weights have diverged, or are too large for its "
            "precision; see training.learning_rate and training.precision"
        )
    if not np.isfinite(scores).any(axis=1).all():
        raise InputError(
            "decoding: no translation meets all constraints; lower min_length or no_repeat_ngram, or ban fewer phrases"
        )


class _Row(NamedTuple):
    source: list[int]
    prefix: list[int]
    required: Sequence[RequiredPhrase]


_IDS, _ROW, _NUMBER = (tf.TensorSpec(shape, tf.int32) for shape in ([None, None], [None], []))
_GIVEN: dict[str, Any] = {
    "prefix": _IDS,
    "required": Requirements(
        symbols=tf.TensorSpec([None, None], tf.int16),
        following=_IDS,
        completed=_IDS,
        pending=_ROW,
        starts=_ROW,
        bits=_ROW,
        tokens=tf.TensorSpec([None, None, None], tf.int32),
        lengths=_IDS,
    ),
}
"""The signatures of what can be given for each sentence."""
