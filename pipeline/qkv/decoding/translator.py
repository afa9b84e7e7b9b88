"""Translates sentences: batches them by length, searches in a graph, and decodes the results to text.

Letters: B sentences in a batch, K hypotheses of a sentence, T target positions.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from threading import Lock
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from ..errors import InputError
from ..model.embedding import transposed_tables
from ..runtime.graphs import GraphCache, ModelGraph
from ..runtime.parallel import in_threads
from ..text.batch import pad
from ..text.phrases.required import RequiredPhrase, tokens_needed
from ..text.phrases.token_text import TokenText
from ..text.text_reader import TextReader
from ..text.tokens.special_tokens import EOS, PAD
from ..text.tokens.tokenizer import Tokenizer
from .greedy import GreedySearch
from .lexical_constraints import Requirements, make_requirements
from .search import Search, padded_width

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Translation:
    """One translation of a sentence.

    Args:
        text: the translation.
        source_ids: the ids that the model has read, without EOS.
        ids: the ids of the translation, with EOS at the end unless it is truncated.
        log_probabilities: the natural logarithm of the probability of each of `ids`; 0.0 for an empty source, which is
            not searched.
        truncated: whether the maximum length was reached before EOS, or the source was too long and was cut.
        score: the score by which the search ranked the translation.
        prefix_tokens: the number of `ids` in the prefix that the caller required.
        required: the phrases that the caller required in the text.
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
    """A counter of the steps in which sampling has drawn tokens, so that the draws continue from call to call.

    Attributes:
        count: the number of steps so far.
        turn: the lock that a call holds while it draws.
    """

    def __init__(self) -> None:
        self.count = 0
        self.turn = Lock()

    def add(self, steps: int) -> None:
        """Adds the number of steps of a call to `count`."""
        self.count += steps


@dataclass(eq=False)
class Translator:
    """Translates sentences with a model of any architecture.

    Translators of one model that share a `GraphCache` share the graphs of searches that differ only in numbers, such as
    a seed, a temperature or a length penalty.

    Args:
        model: any `TranslationModel`.
        tokenizer: the tokenizer with which the model was trained.
        search: the search for translations; by default greedy.
        batch_sentences: the maximum number of sentences in a batch. A batch that does not fit into memory is split.
        free_memory: a function that returns the free bytes of the device, by which `BatchMemory` limits the number of
            sentences further; None if they are unknown. By default they are unknown.
        max_target_ratio: a translation has at most `max_target_ratio * source tokens + max_target_extra` tokens.
        max_target_extra: see `max_target_ratio`.
        max_positions: the maximum number of tokens on either side, EOS included. Longer sources are cut.
        threads: the number of batches that are translated at the same time.
        tokens: the tokens of the target language. They are needed only if phrases are required.
        reader: reads the sentences of `translate` and `encode`. By default, the tokenizer encodes them unchanged.
        graphs: the cache of graphs; by default a new one.
        draws: the counter of the steps of sampling; by default a new one. Translators with the same counter continue
            each other's draws.
    """

    model: keras.Model
    tokenizer: Tokenizer
    _: KW_ONLY
    search: Search = field(default_factory=GreedySearch)
    batch_sentences: int = 64
    free_memory: Callable[[], int | None] = lambda: None
    max_target_ratio: float = 2.0
    max_target_extra: int = 10
    max_positions: int = 512
    threads: int = 1
    tokens: TokenText | None = None
    reader: TextReader | None = None
    graphs: GraphCache = field(default_factory=GraphCache)
    draws: Draws = field(default_factory=Draws)
    _fitting: int | None = field(default=None, init=False)
    """The size to which batches are split, because a larger one did not fit into memory; None before that."""

    def translate(self, sentences: Sequence[str]) -> list[Translation]:
        """Translates sentences.

        Returns:
            The best translation of each sentence. The translation of an empty sentence is empty.

        Raises:
            InputError: as for `encode` or `translate_ids`.
        """
        return [n_best[0] for n_best in self.translate_ids(self.encode(sentences))]

    def encode(self, sentences: Sequence[str], side: str = "source") -> list[list[int]]:
        """Returns the ids of sentences, without BOS and EOS.

        Args:
            sentences: the sentences; with a reader, as users write them.
            side: `source` or `target`, the language of the sentences.

        Raises:
            InputError: `sentences` is a single text, or a sentence has several lines or characters that are not text.
                Only the reader checks this; without a reader there is no error.
        """
        if self.reader:
            return self.reader.read(sentences, side)[1]
        return (self.tokenizer if side == "source" else self.tokenizer.of_target).encode(sentences)

    def translate_ids(
        self,
        source_ids: Sequence[list[int]],
        prefix_ids: Sequence[list[int]] | None = None,
        required: Sequence[Sequence[RequiredPhrase]] | None = None,
    ) -> list[list[Translation]]:
        """Translates sentences that are given as ids, without BOS and EOS.

        Args:
            source_ids: the ids of each sentence.
            prefix_ids: the first ids of each translation, fewer than `max_positions`; by default none. They are scored
                as if the search had chosen them. The constraints of the search do not apply to them.
            required: the phrases that each translation must contain as whole words; by default none. They need a beam
                search. With the prefix they may need at most `max_positions` tokens, see
                `text.phrases.required.tokens_needed`.

        Returns:
            For each sentence, the n-best list of the search, the best translation first.

        Raises:
            InputError: the model gives NaN; no translation meets all constraints; or the device has too little memory
                for a single sentence.
            ValueError: phrases are required, and `tokens` is None or the search is not a beam search; or the lengths of
                the arguments differ.
        """
        constraints = zip(prefix_ids or [[]] * len(source_ids), required or [()] * len(source_ids), strict=True)
        rows = []
        for ids, (prefix, phrases) in zip(source_ids, constraints, strict=True):
            rows.append(_Row(ids[: self.max_positions - 1], prefix, phrases))  # one position is left for EOS
        translations = [[Translation("", [], [EOS], [0.0], truncated=False)] for _ in rows]
        order = sorted((i for i, row in enumerate(rows) if any(row)), key=lambda i: -len(rows[i].source))
        batches = self._cut_into_batches(order, [len(row.source) for row in rows])
        results = in_threads(self._translate_fitting, ([rows[i] for i in batch] for batch in batches), self.threads)
        for batch, result in zip(batches, results, strict=True):
            for i, n_best in zip(batch, result, strict=True):
                is_cut = len(rows[i].source) < len(source_ids[i])
                translations[i] = [
                    replace(translation, truncated=translation.truncated or is_cut) for translation in n_best
                ]
        return translations

    def max_lengths(self, source_lengths: np.ndarray) -> np.ndarray:
        """Returns the maximum number of tokens, EOS included, of the translation of each source.

        Args:
            source_lengths: the number of tokens of each source, without EOS, `(B,)`.

        Returns:
            int32 `(B,)`.
        """
        lengths = (self.max_target_ratio * source_lengths).astype(np.int32) + self.max_target_extra
        return np.minimum(lengths, self.max_positions)

    def _cut_into_batches(self, order: list[int], source_lengths: Sequence[int]) -> list[list[int]]:
        """Cuts the numbers of sentences, the longest source first, into batches that fit into the device's memory.

        Args:
            order: the numbers of the sentences.
            source_lengths: the number of tokens of each sentence, without EOS, at the index of its number.
        """
        # Few sentences are not worth the passes that measure a model: if they do not fit, they are split.
        free = self.free_memory() if len(order) > UNMEASURED_SENTENCES else None
        memory = BatchMemory.of(self.model, self.search.count) if free is not None else None
        batches = []
        first = 0
        while first < len(order):
            count = self.batch_sentences
            if free is not None and memory is not None:
                longest = source_lengths[order[first]]
                length = int(self.max_lengths(np.array([longest]))[0])
                count = min(count, max(int(free * MEMORY_SHARE) // memory.bytes_of_sentence(longest + 1, length), 1))
            batches.append(order[first : first + count])
            first += count
        return batches

    def _translate_fitting(self, rows: list["_Row"]) -> list[list[Translation]]:
        """Returns the result of `_translate_batch`. If the batch does not fit into memory, it is split into halves."""
        if self._fitting is None or len(rows) <= self._fitting:
            try:
                return self._translate_batch(rows)
            except tf.errors.ResourceExhaustedError:
                pass  # Outside this block, since the error refers to the batch's arrays.
            if len(rows) == 1:
                raise InputError(
                    f"translating a sentence of {len(rows[0].source)} tokens takes more memory than the device has; "
                    "lower decoding.beam_size, decoding.max_target_ratio or model.max_positions"
                )
            if self._fitting is None:
                log.warning(
                    "a batch of %d sentences does not fit into memory: translating fewer at a time; "
                    "decoding.batch_sentences sets the number",
                    len(rows),
                )
            self._fitting = (len(rows) + 1) // 2
        half = (len(rows) + 1) // 2
        return [*self._translate_fitting(rows[:half]), *self._translate_fitting(rows[half:])]

    def _translate_batch(self, rows: list["_Row"]) -> list[list[Translation]]:
        """Returns the n-best list of each row of a batch. The errors are those of `translate_ids`."""
        source_lengths = np.array([len(row.source) for row in rows])
        prefix_lengths = np.array([len(row.prefix) for row in rows])
        source = pad(
            [[*row.source, EOS] for row in rows], padded_width(int(source_lengths.max()) + 1, self.max_positions)
        )
        needed = prefix_lengths + np.array([tokens_needed(row.required) if row.required else 0 for row in rows])
        constrained_lengths = np.where(needed > 0, np.minimum(needed + self.max_target_extra, self.max_positions), 0)
        max_lengths = np.maximum(self.max_lengths(source_lengths), constrained_lengths).astype(np.int32)
        length = padded_width(int(max_lengths.max()), self.max_positions)
        constraints: dict[str, Any] = {}
        if prefix_lengths.any():
            constraints["prefix"] = pad([row.prefix for row in rows], length)
        if any(row.required for row in rows):
            if self.tokens is None:
                raise ValueError("tokens: expected the target language's, because phrases are required; found None")
            constraints["required"] = make_requirements([row.required for row in rows], self.tokens.symbols)
        all_ids, all_log_probabilities, all_scores = self._search(source, max_lengths, length, constraints)
        _check_scores(all_scores)
        hypotheses = np.argwhere(np.isfinite(all_scores))  # pairs (sentence, rank)
        targets = [[int(token) for token in all_ids[i, rank] if token != PAD] for i, rank in hypotheses]
        texts = self.tokenizer.decode(targets)
        translations: list[list[Translation]] = [[] for _ in rows]
        for (i, rank), ids, text in zip(hypotheses, targets, texts, strict=True):
            translations[i].append(
                Translation(
                    text,
                    rows[i].source,
                    ids,
                    [float(value) for value in all_log_probabilities[i, rank, : len(ids)]],
                    truncated=ids[-1] != EOS,
                    score=float(all_scores[i, rank]),
                    prefix_tokens=len(rows[i].prefix),
                    required=[phrase.text for phrase in rows[i].required],
                )
            )
        return translations

    def _search(self, source: Any, max_lengths: Any, length: int, constraints: Mapping[str, Any]) -> list[np.ndarray]:
        """Searches for the translations of a batch.

        Args:
            source: the padded ids, `(B, S)`, S source positions.
            max_lengths: the maximum length of each translation, `(B,)`.
            length: T, at least the largest of `max_lengths`.
            constraints: the constraints on each sentence, with keys of `_CONSTRAINT_SIGNATURES`.

        Returns:
            The ids and the log-probabilities, `(B, K, T)` both, and the scores `(B, K)`.
        """
        graph = self.graph(*constraints)
        numbers = self.search.numbers
        if "drawn" not in numbers:
            return [output.numpy() for output in graph(source, max_lengths, length, numbers, constraints)]
        with self.draws.turn:
            numbers["drawn"] += self.draws.count
            outputs = [output.numpy() for output in graph(source, max_lengths, length, numbers, constraints)]
            ids = outputs[0]
            self.draws.add(int((ids != PAD).sum(axis=-1).max()))
        return outputs

    def graph(self, *names: str) -> ModelGraph:
        """Returns the graph of the search: `(source, max_lengths, length, numbers, constraints) -> Hypotheses`.

        Args:
            names: the names of the constraints on each sentence: `prefix`, `required`, both or neither.
        """
        return search_graph(self.model, self.search, names, self.graphs)


def search_graph(model: Any, search: Search, names: Sequence[str], graphs: GraphCache) -> ModelGraph:
    """Returns the graph of a search: `(source, max_lengths, length, numbers, constraints) -> Hypotheses`.

    Args:
        model: any `TranslationModel`.
        search: the search. Searches that differ only in numbers get the same graph.
        names: the names of the constraints on each sentence, see `Translator.graph`.
        graphs: the cache of graphs.
    """
    numbers = search.numbers
    # Equal for all searches that differ only in numbers.
    unnumbered = search.with_numbers(dict.fromkeys(numbers))

    def search_batch(source, max_lengths, length, numbers, constraints):
        memory = model.encode(source, training=False)._replace(self_attention=())
        with transposed_tables(model):
            return unnumbered.with_numbers(numbers)(model, memory, max_lengths, length, **constraints)

    scalars = {name: tf.TensorSpec([], number.dtype) for name, number in numbers.items()}
    signature = (_IDS, _ROW, _NUMBER, scalars, {name: _CONSTRAINT_SIGNATURES[name] for name in names})
    key = model, unnumbered, tuple(names)
    return graphs.get(key, lambda: ModelGraph(model, search_batch, signature))


def _check_scores(scores: np.ndarray) -> None:
    """Checks that the scores of a batch are numbers, and that each sentence has a hypothesis.

    Args:
        scores: the scores, float32 `(B, K)`; minus infinity for a missing hypothesis.

    Raises:
        InputError: a score is NaN, or all hypotheses of a sentence are missing.
    """
    if np.isnan(scores).any():
        raise InputError(
            "the model gives scores that are not numbers: its weights have diverged, or are too large for its "
            "precision; see training.learning_rate and training.precision"
        )
    if not np.isfinite(scores).any(axis=1).all():
        raise InputError(
            "decoding: no translation meets all constraints; lower min_length or no_repeat_ngram, or ban fewer phrases"
        )


UNMEASURED_SENTENCES = 64
"""Up to this many sentences are translated without estimating their memory."""

MEMORY_SHARE = 0.7
"""The share of the free memory that a batch may take by the estimate of `BatchMemory`. Measured peaks were up to 1.25
times the estimate, and the arrays in memory have gaps between them."""

MEASURED_TOKENS = 16
"""The length of the sentence that measures a model in `BatchMemory`, if the model has as many positions."""


class BatchMemory(NamedTuple):
    """An estimate of the memory that a search takes for each sentence of a batch, for any `TranslationModel`.

    It is read off the arrays of one short sentence. Their sizes are linear in the number of tokens, but for the weights
    of the encoder's attention. The factors of `bytes_of_sentence` are measured on a processor, see
    tests/benchmarks/search_memory.py.

    - hypotheses: the number of hypotheses of a sentence that are extended at each step.
    - logits: the bytes of the logits of one hypothesis.
    - state: the bytes of the encoder's states of one source token.
    - memory: the bytes of the encoder's result, without attention, for one source token.
    - attention: the bytes of the attention weights of a layer of the encoder for one pair of source tokens.
    - cache_source: the bytes of the cache of one hypothesis before the first step, for one source token.
    - cache_target: the bytes by which this cache grows with one target token.
    """

    hypotheses: int
    logits: float
    state: float
    memory: float
    attention: float
    cache_source: float
    cache_target: float

    @classmethod
    def of(cls, model: Any, hypotheses: int) -> "BatchMemory":
        """Measures a model by an encoding and a decoding step, which take some milliseconds each.

        Args:
            model: any `TranslationModel`.
            hypotheses: the number of hypotheses of a sentence that the search extends at each step.
        """
        tokens = min(MEASURED_TOKENS, model.max_positions or MEASURED_TOKENS)
        ids = np.full((1, tokens), EOS, np.int32)
        memory = model.encode(ids, training=False)
        cache = model.start_cache(memory)
        output = model.decode(ids, memory, cache=cache, training=False)
        attention = max(map(_bytes_of, memory.self_attention), default=0)
        first = _bytes_of(cache)
        return cls(
            hypotheses,
            _bytes_of(output.logits) / tokens,
            _bytes_of(memory.states) / tokens,
            _bytes_of(memory._replace(self_attention=())) / tokens,
            attention / tokens**2,
            first / tokens,
            (_bytes_of(output.cache) - first) / tokens,
        )

    def bytes_of_sentence(self, source_length: int, length: int) -> int:
        """Returns the estimated bytes of a sentence in a batch.

        Args:
            source_length: the number of source tokens, EOS and padding included. Fewer than `MEASURED_TOKENS` count as
                that many, since some arrays are as large for any source.
            length: the maximum number of tokens of the translation.
        """
        source_length = max(source_length, MEASURED_TOKENS)
        encoding = source_length * (ENCODER_STATES * self.state + ENCODER_WEIGHTS * self.attention * source_length)
        cache = self.cache_source * source_length + self.cache_target * length
        searching = self.hypotheses * (LOGITS * self.logits + CACHES * cache + HYPOTHESIS_BYTES * length)
        return int(MEMORIES * self.memory * source_length + max(encoding, searching))


ENCODER_STATES, ENCODER_WEIGHTS, LOGITS, CACHES, MEMORIES = 10, 2, 4, 2.5, 2
"""The numbers of arrays of each kind that are in memory at once."""

HYPOTHESIS_BYTES = 48
"""The bytes of a position of a hypothesis: its id and log-probability, live, extended and finished."""


def _bytes_of(nested: Any) -> int:
    """Returns the bytes of all tensors in a nested structure. None has no bytes."""
    tensors = [tf.convert_to_tensor(x) for x in keras.tree.flatten(nested) if x is not None]
    return sum(tensor.shape.num_elements() * tensor.dtype.size for tensor in tensors)


class _Row(NamedTuple):
    """A sentence of a batch.

    - source: the ids of the sentence, without EOS.
    - prefix: the ids with which its translation begins.
    - required: the phrases that its translation contains.
    """

    source: list[int]
    prefix: list[int]
    required: Sequence[RequiredPhrase]


_IDS = tf.TensorSpec([None, None], tf.int32)
_ROW = tf.TensorSpec([None], tf.int32)
_NUMBER = tf.TensorSpec([], tf.int32)
_CONSTRAINT_SIGNATURES: dict[str, Any] = {
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
"""The signatures of the constraints on each sentence, by their names."""
