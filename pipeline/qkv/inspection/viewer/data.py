"""The data of the viewer's page: the sentences of each run, and the measures that are shown and sorted by."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...text.corpora.word_links import GoldAlignment
from ..measures import MEASURES, OnPage, measure_site, sentence_row, under_attended_words
from ..record import Record

Words = str | tuple[str, Mapping[str, Any]]
"""A text that the page shows as it is, such as the name of a run, or a key of words.csv with values for its words."""


@dataclass
class ViewerRun:
    """The sentences of one run, in the form of the page's data.

    Args:
        name: the name of the run on the page.
        gold: the gold alignments of the sentences, at the index of their id. They are drawn over the attention if the
            target is the reference.
        scores: the scores of the translations by a metric, at the index of the sentence's id; empty if there are none.
        confidences: the confidence of each translation, see `evaluation.confidence`, at the index of the sentence's id;
            empty if there are none.
        plain: a function that detokenises a translation, to show plain text beside it; None if translations are plain
            text.
        sites: (layers, heads) of each site. Adding a sentence sets it.
        units: the units of words of `source` and of `target`. Adding a sentence sets them.
        sentences: the data of the sentences. Adding a sentence extends it.
        weights: the weights of all sites of the sentences, uint16. Adding a sentence extends it.
        facts: facts about the run for the header of the page, such as its languages and scores; see
            `evaluation.page.page_facts`.
        sentences_in_set: the number of sentences of the set, if the page shows only its first ones; None if unknown.
        types: the types of heads, see `inspection.head_types.describe_types`.
    """

    name: Words
    gold: Sequence[GoldAlignment] = ()
    scores: Sequence[float] = ()
    plain: Callable[[str], str] | None = None
    sites: dict[str, list[int]] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    sentences: list[dict[str, Any]] = field(default_factory=list)
    weights: list[np.ndarray] = field(default_factory=list)
    facts: Sequence[Words] = ()
    sentences_in_set: int | None = None
    types: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    confidences: Sequence[float] = ()

    def add(self, record: Record, row: Mapping[str, Any]) -> None:
        """Adds a sentence.

        Args:
            record: the sentence.
            row: the measures of the sentence, the result of `inspection.measures.sentence_row`.
        """
        self.sites = {site: list(weights.shape[:2]) for site, weights in record.attention.items()}
        self.units = {"source": record.source_unit, "target": record.target_unit}
        for weights in record.attention.values():
            self.weights.append(np.rint(weights.astype("float64").ravel() * 65535).clip(0, 65535).astype("uint16"))
        self.sentences.append(self._sentence(record, row))

    def add_all(self, records: Iterable[Record]) -> "ViewerRun":
        """Measures sentences and adds them. Returns the object itself, so that calls can be chained."""
        for record in records:
            self.add(record, sentence_row(record, measure_site(record)))
        return self

    def data(self) -> dict[str, Any]:
        """Returns the data of the run for the page, without weights; all values are JSON values."""
        return {
            "name": self.name,
            "sites": self.sites,
            "units": self.units,
            "facts": list(self.facts),
            "sentencesInSet": self.sentences_in_set,
            "types": self.types,
            "sentences": self.sentences,
        }

    def _sentence(self, record: Record, row: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the data of a sentence for the page, without weights; all values are JSON values."""
        is_reference = record.mode == "forced" or record.hypothesis == record.reference
        gold = self.gold[record.id] if is_reference and record.id < len(self.gold) else None
        links = sorted(gold.possible) if gold else []
        return {
            "id": record.id,
            "sourceText": record.source,
            "reference": record.reference,
            "hypothesis": record.hypothesis,
            "plain": self.plain(record.hypothesis) if self.plain else None,
            "source": record.source_tokens,
            "target": record.target_output_tokens,
            "sourceWords": record.source_words,
            "targetWords": record.target_words,
            "logProbabilities": [round(value, 4) for value in record.token_log_probabilities] or None,
            "likelihood": round(sum(record.token_log_probabilities) / max(1, len(record.token_log_probabilities)), 4),
            "mode": record.mode,
            "truncated": record.truncated,
            "score": round(float(self.scores[record.id]), 2) if record.id < len(self.scores) else None,
            "confidence": round(self.confidences[record.id], 4) if record.id < len(self.confidences) else None,
            "gold": [[i, j, int((i, j) in gold.sure)] for i, j in links] if gold else [],
            # NaN becomes 0, so that sentences can be sorted.
            "measures": {name: 0.0 if math.isnan(row[name]) else round(row[name], 4) for name in shown_measures()},
            "underAttended": row["under_attended"],
            "underAttendedWords": under_attended_words(record),
        }


def shown_measures() -> dict[str, OnPage]:
    """Returns where the page shows each measure, for the measures that it shows.

    Returns:
        column of `inspection.measures.sentence_row` -> the places.
    """
    measures: dict[str, OnPage] = {**MEASURES, "least_coverage": OnPage(lowest_first=True)}
    return {name: row for name, row in measures.items() if row.note or row.lowest_first or row.highest_first}


def measure_places() -> dict[str, list[Any]]:
    """Returns the measures in the page's notes beside sentences and in its orders of sentences.

    Returns:
        `{"notes": [...], "orders": [...]}`, JSON-ready. Notes and orders have the keys `measure`, a column of
        `inspection.measures.sentence_row`, and `label`, a text or True, see `inspection.measures.OnPage`. An order also
        has the key `first`, `lowest` or `highest`.
    """
    shown = shown_measures()
    return {
        "notes": [{"measure": name, "label": row.note} for name, row in shown.items() if row.note],
        "orders": [
            {"measure": name, "first": first, "label": label}
            for name, row in shown.items()
            for first, label in (("lowest", row.lowest_first), ("highest", row.highest_first))
            if label
        ],
    }
