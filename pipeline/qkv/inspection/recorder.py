"""Turns sentence pairs into records: one teacher-forced pass gives log-probabilities and the attention of all heads.

The targets are translations by a search, or references.
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import chain, islice
from typing import Any

import keras
import numpy as np

from ..config.choices.inspection import SITES
from ..decoding.forced import make_forced_graph
from ..decoding.translator import Translation
from ..runtime.parallel import in_threads
from ..text.batch import forced_batch
from ..text.batch_plan import FORCED_BATCH_TOKENS, batches_by_length
from ..text.tokens.special_tokens import BOS, EOS
from ..text.tokens.tokenizer import Tokenizer
from ..text.tokens.words import BETWEEN_SPACES, WordUnits
from .record import Record

WINDOW_SENTENCES = 256
"""The number of neighbouring sentences that are sorted by length and divided into batches together.

Windows limit the memory. They are as long as a shard of the archive: no batch has sentences of two shards, so the
numbers do not depend on the sentences of other shards.
"""

ENCODED_SENTENCES = 4096
"""The number of sentences that are tokenised together."""


@dataclass(frozen=True)
class ForcedPair:
    """A source and the target that the model reads (teacher forcing).

    Args:
        id: the index of the sentence in its file, from 0.
        source: the text of the source.
        reference: the text of the reference; None if there is none.
        translation: the target, with the tokens of both sides.
        mode: the origin of the target: `greedy`, `beam`, `sampling` or `forced`.
        known: whether the translation already has the model's log-probabilities, so that they are not computed again.
    """

    id: int
    source: str
    reference: str | None
    translation: Translation
    mode: str
    known: bool = False

    @property
    def ids(self) -> tuple[list[int], list[int]]:
        """The ids of the source without EOS, and of the target, which end in EOS unless truncated."""
        return self.translation.source_ids, self.translation.ids


@dataclass(eq=False)
class AttentionRecorder:
    """Records the attention of sentence pairs.

    Args:
        model: any `TranslationModel`.
        tokenizer: the tokenizer of the model.
        sites: the sites of attention that can be recorded, any of `config.choices.inspection.SITES`.
        batch_tokens: the maximum number of positions of either side of a batch, padding included.
        max_positions: the maximum number of tokens on either side, EOS included. `record_references` cuts longer
            sentences.
        threads: the number of batches that are read at the same time.
        units: the unit of words on each side, for the fields `source_words` and `target_words` of records.

    Attributes:
        forced_graph: the `ForcedGraph` of all sites except `gradients`, which take as long as all other sites together
            and have a separate graph.
    """

    model: keras.Model
    tokenizer: Tokenizer
    _: KW_ONLY
    sites: Sequence[str] = ("cross",)
    batch_tokens: int = FORCED_BATCH_TOKENS
    max_positions: int = 512
    threads: int = 1
    units: WordUnits = BETWEEN_SPACES

    def __post_init__(self) -> None:
        sites = [site for site in self.sites if site != "gradients"]
        self.forced_graph: Any = make_forced_graph(self.model, sites)
        # It is traced at the first call, so it costs nothing if gradients are not recorded.
        self._read_gradients = make_forced_graph(self.model, ("gradients",))

    def record_references(
        self, sources: Sequence[str], references: Sequence[str], sites: Collection[str] | None = None
    ) -> Iterator[Record]:
        """Records references, in order.

        Args:
            sources: the texts of the sources.
            references: the texts of their references.
            sites: the sites that the records hold, any of the recorder's sites; None for all of them.

        Yields:
            The records, with the mode `forced`. Their ids are indices into `sources`.
        """

        def pairs() -> Iterator[ForcedPair]:
            for first in range(0, len(sources), ENCODED_SENTENCES):
                some_sources = sources[first : first + ENCODED_SENTENCES]
                some_references = references[first : first + ENCODED_SENTENCES]
                source_ids = self.tokenizer.encode(some_sources)
                reference_ids = self.tokenizer.of_target.encode(some_references)
                yield from pair_references(
                    some_sources, some_references, source_ids, reference_ids, self.max_positions, first
                )

        return self.record(pairs(), sites)

    def record(self, pairs: Iterable[ForcedPair], sites: Collection[str] | None = None) -> Iterator[Record]:
        """Records pairs, in their order. The arguments are those of `read`."""
        return (record for record, _ in self.read(pairs, sites))

    def read(self, pairs: Iterable[ForcedPair], sites: Collection[str] | None = None) -> Iterator[tuple[Record, int]]:
        """Records pairs in their order, and counts the target tokens that the model predicts.

        Args:
            pairs: the pairs. Each is read once.
            sites: the sites that the records hold, any of the recorder's sites; None for all of them.

        Yields:
            `(record, right)`: the record, and the number of target tokens to which the model gives the highest
            probability. It is 0 if all pairs of the batch are `known`, since no predictions are computed then.
        """
        stream = iter(pairs)
        orders: deque[list[int]] = deque()  # for each window not yielded yet, the order in which its pairs are read

        def batches() -> Iterator[list[ForcedPair]]:
            while window := list(islice(stream, WINDOW_SENTENCES)):
                source_lengths = np.array([len(pair.ids[0]) + 1 for pair in window])
                target_lengths = np.array([len(pair.ids[1]) for pair in window])
                rows_of_batches = batches_by_length(source_lengths, target_lengths, self.batch_tokens)
                orders.append(np.concatenate(rows_of_batches).tolist())
                yield from ([window[i] for i in rows] for rows in rows_of_batches)

        def read_batch(batch: list[ForcedPair]) -> list[tuple[Record, int]]:
            return self._read_batch(batch, self.sites if sites is None else sites)

        # One stream over all windows, so that batches are read while the caller processes earlier pairs.
        results = chain.from_iterable(in_threads(read_batch, batches(), self.threads))
        for first in results:
            order = orders.popleft()
            window = dict(zip(order, [first, *islice(results, len(order) - 1)], strict=True))
            yield from (window[i] for i in range(len(order)))

    def _read_batch(self, pairs: Sequence[ForcedPair], sites: Collection[str]) -> list[tuple[Record, int]]:
        """Reads a batch; returns the record and the number of right predictions of each pair, see `read`."""
        batch = forced_batch([pair.ids for pair in pairs])
        attention = self._read_gradients(*batch.ids).attention if "gradients" in sites else {}
        if all(pair.known for pair in pairs):  # without output tokens, no predictions are computed
            batch = batch._replace(target_output=batch.target_output[:, :0])
        forced = self.forced_graph(*batch.ids)
        attention |= forced.attention
        weights = {site: attention[site].numpy() for site in self.sites if site in sites}
        sinks = {site: forced.sinks[site].numpy() for site in weights if site in forced.sinks}
        log_probabilities = forced.log_probabilities.numpy()
        is_right = forced.likeliest.numpy() == batch.target_output
        results = []
        for i, (pair, source_words, target_words) in enumerate(zip(pairs, *self._words(pairs), strict=True)):
            translation = pair.translation
            source_length = len(translation.source_ids) + 1
            target_length = len(translation.ids)
            shapes = {site: SITES[site].pick(source_length, target_length) for site in weights}
            outputs = self.tokenizer.pieces(translation.ids)
            row_log_probabilities = translation.log_probabilities if pair.known else log_probabilities[i]
            record = Record(
                pair.id,
                pair.source,
                pair.reference,
                translation.text,
                mode=pair.mode,
                truncated=translation.truncated,
                prefix_tokens=translation.prefix_tokens,
                required=translation.required,
                source_tokens=self.tokenizer.pieces([*translation.source_ids, EOS]),
                target_input_tokens=[*self.tokenizer.pieces([BOS]), *outputs[:-1]],
                target_output_tokens=outputs,
                source_words=source_words,
                target_words=target_words,
                token_log_probabilities=[float(x) for x in row_log_probabilities[:target_length]],
                attention={site: weights[site][i][..., :rows, :keys] for site, (rows, keys) in shapes.items()},
                sinks={site: sinks[site][i][..., : shapes[site][0]] for site in sinks},
                source_unit=self.units.source,
                target_unit=self.units.target,
            )
            results.append((record, int(is_right[i, :target_length].sum())))
        return results

    def _words(self, pairs: Sequence[ForcedPair]) -> tuple[list[list[int | None]], list[list[int | None]]]:
        """Returns the word of each source token and of each target output token, for all pairs.

        A word is an index into the words of the sentence. EOS has None.
        """
        source_text_words = self.tokenizer.words_from_text([pair.source for pair in pairs], self.units.source)
        source_words = [
            [*words[: len(pair.ids[0])], None] for pair, words in zip(pairs, source_text_words, strict=True)
        ]
        # For a forced text, the text decides: its ids would spell other words if they stand for unknown characters.
        forced_texts = [pair.translation.text for pair in pairs if pair.mode == "forced"]
        forced_words = iter(self.tokenizer.of_target.words_from_text(forced_texts, self.units.target))
        target_words: list[list[int | None]] = []
        for pair in pairs:
            if pair.mode == "forced":
                target_words.append([*next(forced_words), None][: len(pair.translation.ids)])
            else:
                target_words.append(self.tokenizer.words_from_ids(pair.translation.ids, self.units.target))
        return source_words, target_words


def pair_translations(
    sources: Sequence[str], references: Sequence[str] | None, translations: Sequence[Translation], mode: str = "greedy"
) -> Iterator[ForcedPair]:
    """Pairs each source with its translation by a search.

    Args:
        sources: the texts of the sources.
        references: the texts of the references; None if there are none.
        translations: the translations of the sources.
        mode: the kind of the search: `greedy`, `beam` or `sampling`.

    Yields:
        The pairs. Their log-probabilities are `known`, except for empty sources without prefix and required phrases,
        which are not searched.
    """
    for i, (source, translation) in enumerate(zip(sources, translations, strict=True)):
        was_searched = bool(translation.source_ids or translation.prefix_tokens or translation.required)
        reference = references[i] if references is not None else None
        yield ForcedPair(i, source, reference, translation, mode, was_searched)


def pair_references(
    sources: Sequence[str],
    references: Sequence[str],
    source_ids: Iterable[Sequence[int]],
    reference_ids: Iterable[Sequence[int]],
    max_positions: int,
    first: int = 0,
) -> Iterator[ForcedPair]:
    """Pairs each source with its reference.

    Args:
        sources: the texts of the sources.
        references: the texts of the references.
        source_ids: the ids of the sources, without EOS.
        reference_ids: the ids of the references, without EOS.
        max_positions: the maximum number of tokens on either side, EOS included; longer sides are cut.
        first: the id of the first pair.

    Yields:
        The pairs, with the mode `forced`.
    """
    longest = max_positions - 1  # one more for EOS or BOS
    for i, (source, reference, source_row, target_row) in enumerate(
        zip(sources, references, source_ids, reference_ids, strict=True), first
    ):
        ids = list(source_row[:longest]), [*target_row, EOS][:max_positions]
        is_cut = len(source_row) > longest or len(target_row) > longest
        yield ForcedPair(i, source, reference, Translation(reference, *ids, [], is_cut), "forced")
