"""A run that answers: translates a sentence, with heads changed or not, and reads the attention over it, the likeliest
tokens at each position of a translation, and why a head looks where it looks.

Letters: S source positions, T target positions, K tokens that are shown.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from ..config.choices.inspection import SITES
from ..config.choices.model import ATTENTION_SITES
from ..decoding.build import build_search, build_translator
from ..decoding.translator import Translation, Translator
from ..errors import InputError
from ..inspection.experiments.activations import Pair
from ..inspection.experiments.intervention import CHANGES, UNCHANGED, ChangedModel, Intervention, changeable_layers
from ..inspection.experiments.logit_parts import split_logit
from ..inspection.experiments.score_parts import explained_sites, layer_name, shared_float64, split_score
from ..inspection.record import Record
from ..inspection.recorder import AttentionRecorder, pair_translations
from ..inspection.viewer.data import ViewerRun
from ..inspection.viewer.page import encode_weights
from ..run.trained_run import TrainedRun
from ..runtime.graphs import ModelGraph
from ..text.batch import forced_batch
from ..text.tokens.special_tokens import BOS, EOS, PAD
from ..text.tokens.tokenizer import Tokenizer
from .page import SHOWN_SITES
from .question import GivenRow, HeadChange, LogitQuestion, Question, ScoreQuestion

DIGITS = 6  # after the point, of explained scores and logits


@dataclass(frozen=True)
class Answer:
    """The answer of a run to a question.

    Args:
        record: the sentence, its translation and its attention.
        facts: the content of the page, JSON-ready.
        question: the question.
    """

    record: Record
    facts: dict[str, Any]
    question: Question

    @property
    def record_bytes(self) -> int:
        """The size of the weights."""
        return sum(weights.nbytes for weights in self.record.attention.values())


class LiveRun:
    """Answers questions, one at a time, by a trained run with a name on the page."""

    def __init__(self, run: TrainedRun, name: str) -> None:
        self.run = run
        self.name = name
        self.changes = ChangeVariables(run.model)
        self.explained = explained_sites(run.model)
        self._changed = ChangedModel(run.model, self.changes.of_heads)
        read = ChangedModel(run.model, self.changes.of_heads_and_row)
        longest = run.config.model.max_positions
        self._recorder = AttentionRecorder(read, run.tokenizer, sites=SHOWN_SITES, max_positions=longest)
        self._alternatives = Alternatives(read, run.tokenizer)

    def divide(self, text: str) -> dict[str, list[str]] | None:
        """Returns a text's `Paragraph`, JSON-ready; None if sentencex, which finds sentences, is not installed."""
        with suppress(InputError):
            return self.run.reader.splitter.divide_lines(text)._asdict()
        return None

    def answer(self, question: Question) -> Answer:
        """Answers a question.

        Raises:
            InputError: the run has no such token or head.
        """
        text = self._typed_line(question.text)
        self.changes.set(question.changes, question.row)
        n_best = self._translate(text, question)
        best = n_best[0]
        self._check_row(question, best)
        mode = "forced" if question.target is not None else "greedy" if question.beam_size == 1 else "beam"
        pair = next(pair_translations([text], None, [best], mode))
        pair = replace(pair, known=question.target is None and pair.known)  # what is given is read, not found
        self._recorder.units = self.run.reader.segmenter.units([pair.source], [best.text])
        record = next(self._recorder.record([pair]))
        viewed = ViewerRun(self.name, plain=self.run.reader.detokenize if self.run.config.data.tokenized else None)
        viewed.add_all([record])
        facts = {
            "sentence": viewed.sentences[0],
            "sites": viewed.sites,
            "units": viewed.units,
            "weights": encode_weights(viewed.weights),
            "ids": best.ids,
            "alternatives": self._alternatives.at_each_token(best.source_ids, best.ids),
            "nBest": [
                {"text": one.text, "ids": one.ids, "score": one.score, "logProbability": sum(one.log_probabilities)}
                for one in n_best
            ],
            "logProbability": sum(record.token_log_probabilities),
            "prefixTokens": len(question.prefix),
            "difference": self.run.reader.describe_difference(question.text, record.source),
        }
        return Answer(record, facts, question)

    def explain(self, question: ScoreQuestion) -> dict[str, Any]:
        """Splits the scores of one row into what query and key take from the model below.

        Returns:
            JSON-ready: the names of the parts, the tokens of the keys, and for each key its score and how much each
            pair of parts differs from its mean over the row, `(keys, query parts, key parts)`.

        Raises:
            InputError: the run has no such token, site, layer, head or row, or its scores cannot be split.
        """
        run, pair = self.run, self._pair(question)
        if question.site not in ATTENTION_SITES:
            raise InputError(f"site: expected {', '.join(ATTENTION_SITES)}, found {question.site!r:.60}")
        layer = layer_name(question.site, question.layer)
        parts = split_score(self._float64_model(), pair, layer, question.head, question.query).merged()
        return {
            "queryParts": parts.query_parts,
            "keyParts": parts.key_parts,
            "keys": run.tokenizer.pieces([int(key) for key in parts.keys]),
            "scores": parts.scores.round(DIGITS).tolist(),
            "differences": np.moveaxis(parts.differences, -1, 0).round(DIGITS).tolist(),
        }

    def split(self, question: LogitQuestion) -> dict[str, Any]:
        """Splits the logit of the token that a row predicts, less its mean over the vocabulary.

        Returns:
            JSON-ready: the sum; what cross-attention has read from each source token for it, and the other parts:
            lists of (name, value).

        Raises:
            InputError: the run has no such token or row, or its logits cannot be split.
        """
        pair = self._pair(question)
        if question.query >= len(question.target):
            raise InputError(f"row: expected a number below {len(question.target)}, found {question.query}")
        parts = split_logit(self._float64_model(), pair, question.query, question.target[question.query])
        read = parts["source"] >= 0
        of_sources = parts[read].groupby("source")["difference"].sum().reindex(range(len(pair[0])), fill_value=0.0)
        others = parts[~read].groupby("part", sort=False)["difference"].sum()
        return {
            "total": round(float(parts["difference"].sum()), DIGITS),
            "sources": list(zip(self.run.tokenizer.pieces(pair[0]), of_sources.round(DIGITS).to_list(), strict=True)),
            "others": list(zip(others.index.to_list(), others.round(DIGITS).to_list(), strict=True)),
        }

    def _float64_model(self) -> keras.Model:
        """Returns a copy of the run's model that computes in float64."""
        return shared_float64(self.run.model, self.run.graphs)

    def _pair(self, question: LogitQuestion) -> Pair:
        """Returns the ids that the model reads."""
        self._check_target(question.target)
        source = self.run.tokenizer.encode([self._typed_line(question.text)])[0]
        return [*source[: self.run.config.model.max_positions - 1], EOS], [BOS, *(question.target or [EOS])[:-1]]

    def _typed_line(self, text: str) -> str:
        """Returns a text as the model reads it, as one sentence. Raises an `InputError` if it is not text."""
        return self.run.reader.read_line(" ".join(text.split("\n")), "text")

    def _translate(self, text: str, question: Question) -> list[Translation]:
        ids = self.run.tokenizer.encode([text])[0]
        self._check_ids(question.prefix)
        if question.target is None:
            return self._translator(question).translate_ids([ids], [question.prefix])[0]
        self._check_target(question.target)
        target = question.target or [EOS]
        (translated,) = self.run.tokenizer.decode([target])
        source = ids[: self.run.config.model.max_positions - 1]
        return [Translation(translated, source, target, [0.0] * len(target), len(source) < len(ids))]

    def _translator(self, question: Question) -> Translator:
        config = self.run.config
        settings = {"search": "beam", "beam_size": question.beam_size, "n_best": question.n_best}
        search = build_search(config.decoding.model_copy(update=settings), config.run.seed)
        model = self._changed if question.changes else self.run.model
        return build_translator(model, self.run.tokenizer, config, search, graphs=self.run.graphs)

    def _check_ids(self, ids: list[int]) -> None:
        size = self.run.tokenizer.vocabulary_size
        longest = self.run.config.model.max_positions
        if any(token >= size or token in (PAD, BOS) for token in ids):
            raise InputError(f"tokens: expected ids below {size}, without padding and beginning of sentence")
        if len(ids) > longest:
            raise InputError(f"tokens: expected at most {longest}, found {len(ids)}")

    def _check_target(self, target: list[int]) -> None:
        self._check_ids(target)
        if EOS in target[:-1]:
            raise InputError("target: expected tokens of which the last alone may be EOS")

    @staticmethod
    def _check_row(question: Question, translation: Translation) -> None:
        if (row := question.row) is None:
            return
        lengths = {"source": len(translation.source_ids) + 1, "target": len(translation.ids)}
        site = next(site for site in SITES.values() if site.weighed_at == row.site)
        queries, keys = (lengths[axis] for axis in site.axes)
        if row.query >= queries or len(row.weights) != keys:
            found = f"query {row.query} and {len(row.weights)} weights"
            raise InputError(f"row: expected a query below {queries} and {keys} weights, found {found}")


NO_ROW = (-1, 0, 0)
NO_WEIGHTS = (0.0,)  # for as many keys as there are


class ChangeVariables:
    """The changes of a model's heads, as variables; nothing can be changed in a model that is no Transformer.

    Attributes:
        heads: for each site whose heads can be changed, the number of layers and of heads.
        of_heads: interventions in whole heads, for `ChangedModel`.
        of_heads_and_row: the same, and in one row.
    """

    def __init__(self, model: keras.Model) -> None:
        self.heads = {site: (len(found), found[0].num_heads) for site, found in changeable_layers(model).items()}
        self._kinds = {site: tf.Variable(np.full(shape, UNCHANGED, "int32")) for site, shape in self.heads.items()}
        self._rows = {site: tf.Variable(np.array(NO_ROW, "int32")) for site in self.heads}
        self._weights = {site: tf.Variable(np.array(NO_WEIGHTS, "float32"), shape=[None]) for site in self.heads}
        self.of_heads: Mapping[str, Intervention] = {site: Intervention(kinds) for site, kinds in self._kinds.items()}
        self.of_heads_and_row: Mapping[str, Intervention] = {
            site: Intervention(kinds, self._rows[site], self._weights[site]) for site, kinds in self._kinds.items()
        }

    def set(self, changes: Iterable[HeadChange], row: GivenRow | None = None) -> None:
        """Sets what is changed from now on.

        Raises:
            InputError: there is no such head.
        """
        kinds = {site: np.full(shape, UNCHANGED, "int32") for site, shape in self.heads.items()}
        for change in changes:
            self._check_head(change)
            kinds[change.site][change.layer, change.head] = list(CHANGES).index(change.change)
        if row is not None:
            self._check_head(row)
        for site in self.heads:
            self._kinds[site].assign(kinds[site])
            here = row is not None and row.site == site
            self._rows[site].assign((row.layer, row.head, row.query) if row and here else NO_ROW)
            self._weights[site].assign(row.weights if row and here else NO_WEIGHTS)

    def _check_head(self, place: HeadChange | GivenRow) -> None:
        if not self.heads:
            raise InputError("changes: expected none, since heads can be changed in a Transformer alone")
        if place.site not in self.heads:
            raise InputError(f"site: expected {', '.join(self.heads)}, found {place.site!r:.60}")
        layers, heads = self.heads[place.site]
        if place.layer >= layers or place.head >= heads:
            found = f"layer {place.layer}, head {place.head}"
            raise InputError(f"{place.site}: expected a layer below {layers} and a head below {heads}, found {found}")


SHOWN_TOKENS = 8


class Alternatives:
    """Reads a translation by any `TranslationModel` and lists the likeliest tokens at each of its positions."""

    def __init__(self, model: Any, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

        def read(source, target_input):
            memory = model.encode(source, training=False)
            logits = model.decode(target_input, memory, training=False).logits
            return ops.top_k(ops.log_softmax(ops.cast(logits, "float32")), min(SHOWN_TOKENS, tokenizer.vocabulary_size))

        self._read = ModelGraph(model, read, (tf.TensorSpec([1, None], tf.int32),) * 2)

    def at_each_token(self, source_ids: list[int], target_ids: list[int]) -> list[list[tuple[int, str, float]]]:
        """Returns (id, piece, log-probability) of the likeliest tokens, the likeliest first, for each target token;
        the source is given without EOS, the target up to EOS, or to where it is cut."""
        batch = forced_batch([(source_ids, target_ids)])
        values, tokens = (x.numpy()[0, : len(target_ids)] for x in self._read(*batch.ids[:2]))
        pieces = [self._tokenizer.pieces([int(token) for token in row]) for row in tokens]
        return [
            [(int(token), piece, round(float(value), 4)) for token, piece, value in zip(*row, strict=True)]
            for row in zip(tokens, pieces, values, strict=True)
        ]
