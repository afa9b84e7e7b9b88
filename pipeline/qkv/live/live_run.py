"""A run that answers: translates a sentence, with heads changed or not, and reads the attention over it."""

import threading
from dataclasses import dataclass, replace
from typing import Any

from ..config.names.inspection import SITES
from ..decoding.build import build_search, build_translator
from ..decoding.translator import Translation, Translator
from ..errors import InputError
from ..inspection.changed_model import ChangedModel
from ..inspection.forced_pairs import ForcedPair, pair_translations
from ..inspection.record import Record
from ..inspection.recorder import AttentionRecorder
from ..inspection.split_score import explained_sites
from ..inspection.viewer.page import encode_weights
from ..inspection.viewer.viewer_run import ViewerRun
from ..run.trained_run import TrainedRun
from ..text.lines.line import without_tag
from ..text.lines.look import find_difference
from ..text.lines.typed_line import find_unknown, name_characters
from ..text.tokens.special_tokens import BOS, EOS, PAD
from .alternatives import Alternatives
from .changes import ChangeVariables
from .explanation import explain_row, typed_line
from .page import SHOWN_SITES
from .question import Question, ScoreQuestion


@dataclass(frozen=True)
class Answer:
    """What a run says to a question.

    Args:
        record: the sentence, its translation and its attention.
        facts: what the page shows, JSON-ready.
        question: what was asked.
    """

    record: Record
    facts: dict[str, Any]
    question: Question

    @property
    def record_bytes(self) -> int:
        """The size of the weights."""
        return sum(weights.nbytes for weights in self.record.attention.values())


class LiveRun:
    """Answers questions, one at a time.

    Args:
        run: the trained run.
        name: what the page calls it.
    """

    def __init__(self, run: TrainedRun, name: str) -> None:
        self.run = run
        self.name = name
        self.changes = ChangeVariables(run.model)
        self.explained = explained_sites(run.model)
        self._lock = threading.Lock()
        self._translators: dict[tuple[int, int, bool], Translator] = {}
        read = ChangedModel(run.model, self.changes.of_heads_and_row)
        longest = run.config.model.max_positions
        self._recorder = AttentionRecorder(read, run.tokenizer, sites=SHOWN_SITES, max_positions=longest)
        self._alternatives = Alternatives(read, run.tokenizer)

    def answer(self, question: Question) -> Answer:
        """Answers a question.

        Raises:
            InputError: the run has no such token or head.
        """
        text = typed_line(self.run, question)
        with self._lock:
            self.changes.set(question.changes, question.row)
            n_best = self._translate(text, question)
            best = n_best[0]
            self._check_row(question, best)
            mode = "forced" if question.target is not None else "greedy" if question.beam_size == 1 else "beam"
            pair = next(pair_translations([text], None, [best], mode))
            if question.target is not None:
                pair = replace(pair, log_probabilities=None)  # they are read, not found
            record = self._record(pair)
            alternatives = self._alternatives.at_each_token(best.source_ids, best.ids)
            facts = self._facts(question, record, n_best, alternatives)
        return Answer(record, facts, question)

    def explain(self, question: ScoreQuestion) -> dict[str, Any]:
        """Splits the scores of one row, see `explain_row`.

        Raises:
            InputError: the run has no such token, layer, head or row, or its scores cannot be split.
        """
        self._check_target(question.target)
        with self._lock:
            return explain_row(self.run, question)

    def _translate(self, text: str, question: Question) -> list[Translation]:
        ids = self.run.tokenizer.encode([text])[0]
        self._check_ids(question.prefix)
        if question.target is None:
            return self._translator(question).translate_ids([ids], [question.prefix])[0]
        self._check_target(question.target)
        target = question.target or [EOS]
        longest = self.run.config.model.max_positions
        (translated,) = self.run.tokenizer.decode([target])
        source = ids[: longest - 1]
        return [Translation(translated, source, target, [0.0] * len(target), len(source) < len(ids))]

    def _translator(self, question: Question) -> Translator:
        key = self._key(question)
        if key not in self._translators:
            size, count, changed = key
            given = {"search": "beam", "beam_size": size, "n_best": count}
            config = self.run.config
            settings = type(config.decoding)(**(_search_settings(config.decoding) | given))
            model = ChangedModel(self.run.model, self.changes.of_heads) if changed else self.run.model
            search = build_search(settings, config.run.seed)
            self._translators[key] = build_translator(model, self.run.tokenizer, config, search)
        return self._translators[key]

    @staticmethod
    def _key(question: Question) -> tuple[int, int, bool]:
        return question.beam_size, question.n_best, bool(question.changes)

    def _record(self, pair: ForcedPair) -> Record:
        self._recorder.units = self.run.cutter.units([pair.source], [pair.hypothesis])
        return next(self._recorder.record([pair]))

    def _check_ids(self, ids: list[int]) -> None:
        size, longest = self.run.tokenizer.vocabulary_size, self.run.config.model.max_positions
        if any(token >= size or token in (PAD, BOS) for token in ids):
            raise InputError(f"tokens: expected ids below {size}, without padding and beginning of sentence")
        if len(ids) > longest:
            raise InputError(f"tokens: expected at most {longest}, found {len(ids)}")

    def _check_target(self, target: list[int]) -> None:
        self._check_ids(target)
        longest = self.run.config.model.max_positions
        if len(target) > longest or EOS in target[:-1]:
            raise InputError(f"target: expected at most {longest} tokens of which the last alone may be EOS")

    @staticmethod
    def _check_row(question: Question, translation: Translation) -> None:
        if (row := question.row) is None:
            return
        lengths = {"source": len(translation.source_ids) + 1, "target": len(translation.ids)}
        site = next(site for site in SITES.values() if site.weighed_at == row.site)
        queries, keys = (lengths[axis] for axis in site.axes)
        if row.query >= queries or len(row.weights) != keys:
            raise InputError(
                f"row: expected a query below {queries} and {keys} weights, found query {row.query} and "
                f"{len(row.weights)} weights"
            )

    def _facts(
        self,
        question: Question,
        record: Record,
        n_best: list[Translation],
        alternatives: list[list[tuple[int, str, float]]],
    ) -> dict[str, Any]:
        plain = self.run.detokenize if self.run.config.data.tokenized else None
        viewed = ViewerRun(self.name, plain=plain).add_all([record])
        return {
            "sentence": viewed.sentences[0],
            "sites": viewed.sites,
            "units": viewed.units,
            "weights": encode_weights(viewed.weights),
            "ids": n_best[0].ids,
            "alternatives": alternatives,
            "nBest": [
                {"text": one.text, "ids": one.ids, "score": one.score, "logProbability": sum(one.log_probabilities)}
                for one in n_best
            ],
            "logProbability": sum(record.token_log_probabilities),
            "prefixTokens": len(question.prefix),
            "difference": self._difference(record.source),
        }

    def _difference(self, source: str) -> str | None:
        """Returns in words why a sentence does not look like the training text, or None."""
        text, look = without_tag(source, self.run.tokenizer.tags), self.run.source_look
        if unknown := find_unknown(text, self.run.tokenizer):
            return f"the vocabulary has no {name_characters(unknown)}"
        return find_difference(text, look) if look else None


def _search_settings(settings: Any) -> dict[str, Any]:
    """Returns what a run's decoding says of beam search."""
    return settings.model_dump(exclude={"search", "beam_size", "n_best", "temperature", "top_k", "top_p"})
