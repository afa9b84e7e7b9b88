"""From sentence pairs to records: one teacher-forced pass over sources and their targets, which are translations that a
search found, or references, reads the log-probabilities and the attention of every layer and head."""

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import chain, islice
from typing import Any

import keras
import numpy as np

from ..config.names.inspection import SITES
from ..decoding.forced import make_forced_graph
from ..decoding.translator import Translation
from ..runtime.parallel import in_order
from ..text.batch import forced_batch
from ..text.batch_plan import FORCED_BATCH_TOKENS, batches_by_length
from ..text.tokens.special_tokens import BOS, EOS
from ..text.tokens.tokenizer import Tokenizer
from ..text.tokens.words import BETWEEN_SPACES, WordUnits
from .record import Record

# Sorted by length within such windows, so that memory stays flat and the order is kept; as many as a shard of the
# archive has, so that no number depends on sentences of another shard.
WINDOW_SENTENCES = 256


@dataclass(frozen=True)
class ForcedPair:
    """A source and the target that the model is made to read.

    Args:
        id: position of the sentence in its file, from 0.
        source: its text.
        reference: its given translation, or None.
        translation: the target that is read, with the tokens of both sides.
        mode: where the target comes from: `greedy`, `beam`, `sampling` or `forced`.
        known: whether the translation's log-probabilities are the model's, which then computes none.
    """

    id: int
    source: str
    reference: str | None
    translation: Translation
    mode: str
    known: bool = False

    @property
    def ids(self) -> tuple[list[int], list[int]]:
        """The tokens of the source, without EOS, and of the target, ending in EOS unless truncated."""
        return self.translation.source_ids, self.translation.ids


@dataclass(eq=False)
class AttentionRecorder:
    """Records the attention of sentence pairs.

    Args:
        model: any `TranslationModel`.
        tokenizer: the tokenizer with which it was trained.
        sites: the attention sites that it can record: any of `config.names.inspection.SITES`.
        batch_tokens: the maximum number of positions of either side of a batch, padding included.
        max_positions: the maximum number of tokens that the model accepts on either side; longer sentences are cut.
        threads: the number of batches that are read at the same time.
        units: what counts as a word on each side.

    Attributes:
        forced_graph: the `ForcedGraph` of all sites but `gradients`, which take as long as everything else and have a
            graph of their own.
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
        # Traced only where it is called.
        self._read_gradients = make_forced_graph(self.model, ("gradients",))

    def record_references(
        self, sources: Sequence[str], references: Sequence[str], sites: Collection[str] | None = None
    ) -> Iterator[Record]:
        """Records given translations, in order; they are encoded some at a time. See `record`."""

        def pairs() -> Iterator[ForcedPair]:
            for first in range(0, len(sources), ENCODED_SENTENCES):
                texts = sources[first : first + ENCODED_SENTENCES], references[first : first + ENCODED_SENTENCES]
                ids = self.tokenizer.encode(texts[0]), self.tokenizer.of_target.encode(texts[1])
                yield from pair_references(*texts, *ids, self.max_positions, first)

        return self.record(pairs(), sites)

    def record(self, pairs: Iterable[ForcedPair], sites: Collection[str] | None = None) -> Iterator[Record]:
        """Records pairs, in their order; see `read`."""
        return (record for record, _ in self.read(pairs, sites))

    def read(self, pairs: Iterable[ForcedPair], sites: Collection[str] | None = None) -> Iterator[tuple[Record, int]]:
        """Reads pairs, each once, and yields them in their order.

        No batch has sentences of two windows of `WINDOW_SENTENCES`.

        Args:
            pairs: the pairs.
            sites: which of the recorder's sites the records hold; by default all.

        Yields:
            The record, and the number of target tokens to which the model gave the highest probability, given the
            tokens before; 0 where the log-probabilities were known, since the model computes no scores then.
        """
        stream = iter(pairs)
        orders: deque[list[int]] = deque()  # of the windows whose pairs have not been yielded yet

        def batches() -> Iterator[list[ForcedPair]]:
            while window := list(islice(stream, WINDOW_SENTENCES)):
                source, target = (np.array([len(pair.ids[side]) for pair in window]) for side in (0, 1))
                rows_of_batches = batches_by_length(source + 1, target, self.batch_tokens)
                orders.append(np.concatenate(rows_of_batches).tolist())
                yield from ([window[i] for i in rows] for rows in rows_of_batches)

        def read_batch(batch: list[ForcedPair]) -> list[tuple[Record, int]]:
            return self._read_batch(batch, self.sites if sites is None else sites)

        # One stream over all windows, so that batches are read while the caller processes earlier pairs.
        found = chain.from_iterable(in_order(read_batch, batches(), self.threads))
        for first in found:
            order = orders.popleft()
            window = dict(zip(order, [first, *islice(found, len(order) - 1)], strict=True))
            yield from (window[i] for i in range(len(order)))

    def _read_batch(self, pairs: Sequence[ForcedPair], sites: Collection[str]) -> list[tuple[Record, int]]:
        batch = forced_batch([pair.ids for pair in pairs])
        attention = self._read_gradients(*batch.ids).attention if "gradients" in sites else {}
        if all(pair.known for pair in pairs):  # no scores are needed
            batch = batch._replace(target_output=batch.target_output[:, :0])
        forced = self.forced_graph(*batch.ids)
        attention |= forced.attention
        weights = {site: attention[site].numpy() for site in self.sites if site in sites}
        sinks = {site: forced.sinks[site].numpy() for site in weights if site in forced.sinks}
        log_probabilities = forced.log_probabilities.numpy()
        is_right = forced.likeliest.numpy() == batch.target_output
        reads = []
        for i, (pair, source_words, target_words) in enumerate(zip(pairs, *self._words(pairs), strict=True)):
            translation = pair.translation
            source, target = len(translation.source_ids) + 1, len(translation.ids)
            shapes = {site: SITES[site].pick(source, target) for site in weights}
            outputs = self.tokenizer.pieces(translation.ids)
            scores = translation.log_probabilities if pair.known else log_probabilities[i]
            record = Record(
                pair.id,
                pair.source,
                pair.reference,
                translation.text,
                mode=pair.mode,
                **{name: getattr(translation, name) for name in ("truncated", "prefix_tokens", "required")},
                source_tokens=self.tokenizer.pieces([*translation.source_ids, EOS]),
                target_input_tokens=[*self.tokenizer.pieces([BOS]), *outputs[:-1]],
                target_output_tokens=outputs,
                source_words=source_words,
                target_words=target_words,
                token_log_probabilities=[float(x) for x in scores[:target]],
                attention={site: weights[site][i][..., :rows, :keys] for site, (rows, keys) in shapes.items()},
                sinks={site: sinks[site][i][..., : shapes[site][0]] for site in sinks},
                source_unit=self.units.source,
                target_unit=self.units.target,
            )
            reads.append((record, int(is_right[i, :target].sum())))
        return reads

    def _words(self, pairs: Sequence[ForcedPair]) -> tuple[list[list[int | None]], list[list[int | None]]]:
        """Returns the words to which the tokens of the sources and the output tokens belong; None for EOS."""
        sources = self.tokenizer.words_from_text([pair.source for pair in pairs], self.units.source)
        source = [[*words[: len(pair.ids[0])], None] for pair, words in zip(pairs, sources, strict=True)]
        # The ids of a given text that was cut would spell other words where they stand for unknown characters.
        given = [pair.translation.text for pair in pairs if pair.mode == "forced"]
        texts = iter(self.tokenizer.of_target.words_from_text(given, self.units.target))
        target = [
            [*next(texts), None][: len(pair.translation.ids)]
            if pair.mode == "forced"
            else self.tokenizer.words_from_ids(pair.translation.ids, self.units.target)
            for pair in pairs
        ]
        return source, target


ENCODED_SENTENCES = 4096


def pair_translations(
    sources: Sequence[str], references: Sequence[str] | None, translations: Sequence[Translation], mode: str = "greedy"
) -> Iterator[ForcedPair]:
    """Pairs each source with the translation that a search of this kind found."""
    for i, (source, translation) in enumerate(zip(sources, translations, strict=True)):
        # An empty source was not searched.
        searched = bool(translation.source_ids or translation.prefix_tokens or translation.required)
        yield ForcedPair(i, source, references[i] if references is not None else None, translation, mode, searched)


def pair_references(
    sources: Sequence[str],
    references: Sequence[str],
    source_ids: Iterable[Sequence[int]],
    reference_ids: Iterable[Sequence[int]],
    max_positions: int,
    first: int = 0,
) -> Iterator[ForcedPair]:
    """Pairs each source with its reference, given texts and tokens without EOS, both cut to `max_positions` tokens
    with EOS; `first` is the position of the first source in its file."""
    longest = max_positions - 1  # one more for EOS or BOS
    for i, (source, reference, source_row, target_row) in enumerate(
        zip(sources, references, source_ids, reference_ids, strict=True), first
    ):
        ids = list(source_row[:longest]), [*target_row, EOS][:max_positions]
        is_cut = len(source_row) > longest or len(target_row) > longest
        yield ForcedPair(i, source, reference, Translation(reference, *ids, [], is_cut), "forced")
