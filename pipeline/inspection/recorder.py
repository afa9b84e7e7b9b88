"""From sentence pairs to records: one teacher-forced pass that reads every layer's and head's attention at once."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, compress, islice
from typing import Any

import keras
import numpy as np

from ..decoding.forced_graph import make_forced_graph
from ..decoding.translator import Translation
from ..runtime.cores import in_order
from ..text.batches import FORCED_BATCH_TOKENS, batches_by_length, forced_batch
from ..text.tokenizer import BOS, EOS, Tokenizer
from .record import SITE_AXES, Record

WINDOW_SENTENCES = 256  # sorted by length within such windows, so that memory stays flat and the order is kept


@dataclass(frozen=True)
class ForcedPair:
    """A sentence pair to be traced.

    Args:
        id: position of the sentence in its file, from 0.
        source: its text.
        reference: its given translation, or None.
        hypothesis: the text of the target that is read.
        source_ids: without EOS.
        target_ids: ending in EOS unless truncated.
        mode: where the target comes from: `greedy`, `beam`, `sampling` or `forced`.
        truncated: whether source or target was cut to the longest that they can be.
        log_probabilities: of the target's tokens, where they are known.
    """

    id: int
    source: str
    reference: str | None
    hypothesis: str
    source_ids: list[int]
    target_ids: list[int]
    mode: str
    truncated: bool
    log_probabilities: list[float] | None = None


class AttentionRecorder:
    """Makes records of sentence pairs.

    Args:
        model: anything with the surface of `pipeline.model.interface`.
        tokenizer: the one it was trained with.
        sites: what the records hold: any of `SITE_AXES`.
        batch_tokens: positions of either side that are read at once, padding included.
        max_positions: the most tokens either side can have; longer ones are cut.
        workers: batches read side by side.

    Attributes:
        read: the `ForcedGraph` of these sites.
    """

    def __init__(
        self,
        model: keras.Model,
        tokenizer: Tokenizer,
        *,
        sites: Sequence[str] = ("cross",),
        batch_tokens: int = FORCED_BATCH_TOKENS,
        max_positions: int = 512,
        workers: int = 1,
    ) -> None:
        self.workers = workers
        self.tokenizer = tokenizer
        self.sites = tuple(sites)
        self.batch_tokens = batch_tokens
        self.max_positions = max_positions
        self.read: Any = make_forced_graph(model, self.sites)

    @property
    def graph(self) -> Any:
        """What is computed, as TensorFlow's `GraphDef`."""
        return self.read.get_concrete_function().graph.as_graph_def()

    def of_translations(
        self,
        sources: Sequence[str],
        references: Sequence[str] | None,
        translations: Sequence[Translation],
        mode: str = "greedy",
    ) -> Iterator[Record]:
        """Records of what a search found, in order."""
        return self.trace(self.found(sources, references, translations, mode))

    def found(
        self,
        sources: Sequence[str],
        references: Sequence[str] | None,
        translations: Sequence[Translation],
        mode: str = "greedy",
    ) -> Iterator[ForcedPair]:
        """What is traced of what a search found."""
        for i, (source, translation) in enumerate(zip(sources, translations, strict=True)):
            yield ForcedPair(
                i,
                source,
                references[i] if references is not None else None,
                translation.text,
                translation.source_ids,
                translation.ids,
                mode,
                translation.truncated,
                translation.log_probabilities if translation.source_ids else None,  # an empty one was not searched
            )

    def of_references(self, sources: Sequence[str], references: Sequence[str]) -> Iterator[Record]:
        """Records of given translations, in order."""
        return self.trace(self.forced(sources, references))

    def forced(self, sources: Sequence[str], references: Sequence[str]) -> Iterator[ForcedPair]:
        """What is traced of given translations."""
        longest = self.max_positions - 1  # one more for EOS or BOS
        for i, (source, reference, source_ids, target_ids) in enumerate(
            zip(sources, references, self._ids(sources), self._ids(references), strict=True)
        ):
            yield ForcedPair(
                i,
                source,
                reference,
                reference,
                source_ids[:longest],
                [*target_ids, EOS][: self.max_positions],
                "forced",
                len(source_ids) > longest or len(target_ids) > longest,
            )

    def trace(self, pairs: Iterable[ForcedPair], window_sentences: int = WINDOW_SENTENCES) -> Iterator[Record]:
        """Records of pairs, in their order; no batch has sentences of two windows."""
        stream = iter(pairs)
        orders: deque[list[int]] = deque()  # of windows that are not given yet

        def batches() -> Iterator[list[ForcedPair]]:
            while window := list(islice(stream, window_sentences)):
                source = np.array([len(pair.source_ids) + 1 for pair in window])
                target = np.array([len(pair.target_ids) for pair in window])
                found = batches_by_length(source, target, self.batch_tokens)
                orders.append(np.concatenate(found).tolist())
                yield from ([window[i] for i in rows] for rows in found)

        # One stream over all windows, so that batches are read while whoever asked looks at the records before.
        records = chain.from_iterable(in_order(self._batch, batches(), self.workers))
        for first in records:
            order = orders.popleft()
            window = dict(zip(order, [first, *islice(records, len(order) - 1)], strict=True))
            yield from (window[i] for i in range(len(order)))

    def _ids(self, sentences: Sequence[str]) -> list[list[int]]:
        return self.tokenizer.encode(sentences).to_list() if sentences else []

    def _batch(self, pairs: Sequence[ForcedPair]) -> list[Record]:
        ids = [(pair.source_ids, pair.target_ids) for pair in pairs]
        batch = forced_batch(ids)
        if "gradients" not in self.sites and all(pair.log_probabilities is not None for pair in pairs):
            batch = batch._replace(target_output=batch.target_output[:, :0])  # nothing is asked of the vocabulary
        forced = self.read(*batch)
        log_probabilities = forced.log_probabilities.numpy()
        attention = {site: weights.numpy() for site, weights in forced.attention.items()}
        source_words, target_words = self._words(pairs)
        return [
            self._record(
                pair,
                source_words[i],
                target_words[i],
                log_probabilities[i] if pair.log_probabilities is None else pair.log_probabilities,
                {site: weights[i] for site, weights in attention.items()},
            )
            for i, pair in enumerate(pairs)
        ]

    def _words(self, pairs: Sequence[ForcedPair]) -> tuple[list[list[int | None]], list[list[int | None]]]:
        """The words that tokens of the sources belong to, and those of output tokens, EOS with them."""
        source = [
            [*words[: len(pair.source_ids)], None]
            for pair, words in zip(pairs, self.tokenizer.words_from_text([pair.source for pair in pairs]), strict=True)
        ]
        given = [pair.mode == "forced" and not pair.truncated for pair in pairs]
        texts = iter(self.tokenizer.words_from_text([pair.hypothesis for pair in compress(pairs, given)]))
        target = [
            [*next(texts), None] if forced else self.tokenizer.words_from_ids(pair.target_ids)
            for pair, forced in zip(pairs, given, strict=True)
        ]
        return source, target

    def _record(
        self,
        pair: ForcedPair,
        source_words: list[int | None],
        target_words: list[int | None],
        log_probabilities: np.ndarray | list[float],
        attention: dict[str, np.ndarray],
    ) -> Record:
        lengths = {"source": len(pair.source_ids) + 1, "target": len(pair.target_ids)}
        outputs = self.tokenizer.pieces(pair.target_ids)
        cut = {
            site: weights[:, :, : lengths[SITE_AXES[site][0]], : lengths[SITE_AXES[site][1]]]
            for site, weights in attention.items()
        }
        return Record(
            id=pair.id,
            source=pair.source,
            reference=pair.reference,
            hypothesis=pair.hypothesis,
            source_tokens=self.tokenizer.pieces([*pair.source_ids, EOS]),
            target_input_tokens=[*self.tokenizer.pieces([BOS]), *outputs[:-1]],
            target_output_tokens=outputs,
            source_words=source_words,
            target_words=target_words,
            token_log_probabilities=[float(x) for x in log_probabilities[: lengths["target"]]],
            mode=pair.mode,
            truncated=pair.truncated,
            attention=cut,
        )
