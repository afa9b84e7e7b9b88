"""A run that answers the questions of the live page.

It translates a sentence, with changed heads or without changes, and records its attention and the likeliest tokens at
each position of the translation. It also splits scores and logits into parts.
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
from ..inspection.experiments.row_steps import predict_alone, row_steps, stepped_sites
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
from .question import HeadChange, LogitQuestion, Question, RowQuestion, RowReplacement

ANSWER_DIGITS = 6
"""The number of digits after the point of the parts of scores and logits."""


@dataclass(frozen=True)
class Answer:
    """The answer of a run to a question.

    Args:
        record: the sentence, its translation and its attention.
        facts: the answer for the page, JSON-ready.
        question: the question.
    """

    record: Record
    facts: dict[str, Any]
    question: Question

    @property
    def record_bytes(self) -> int:
        """The size of the attention weights in bytes."""
        return sum(weights.nbytes for weights in self.record.attention.values())


class LiveRun:
    """A trained run that answers questions, one at a time.

    Args:
        run: the run.
        name: the name of the run on the page.

    Attributes:
        changes: the `ChangeVariables` of the run's model.
        explained: the sites whose scores `explain` can split, of `config.choices.model.ATTENTION_SITES`.
        stepped: the sites whose rows `row` can compute.
    """

    def __init__(self, run: TrainedRun, name: str) -> None:
        self.run = run
        self.name = name
        self.changes = ChangeVariables(run.model)
        self.explained = explained_sites(run.model)
        self.stepped = stepped_sites(run.model)
        self._changed_model = ChangedModel(run.model, self.changes.of_heads)
        reading_model = ChangedModel(run.model, self.changes.of_heads_and_row)
        longest = run.config.model.max_positions
        self._recorder = AttentionRecorder(reading_model, run.tokenizer, sites=SHOWN_SITES, max_positions=longest)
        self._alternatives = Alternatives(reading_model, run.tokenizer)

    def divide(self, text: str) -> dict[str, list[str]] | None:
        """Splits a text into sentences.

        Returns:
            The fields of a `text.lines.sentences.Paragraph`, JSON-ready; None if sentencex is not installed.
        """
        with suppress(InputError):
            return self.run.reader.splitter.divide_lines(text)._asdict()
        return None

    def answer(self, question: Question) -> Answer:
        """Answers a question.

        Raises:
            InputError: the text has a NUL character or a lone surrogate, a token id is not in the vocabulary, the model
                has no such head, the row does not fit the translation, or no translation meets a constraint.
        """
        text = self._read_text(question.text)
        self.changes.set(question.changes, question.row)
        n_best = self._translate(text, question)
        best = n_best[0]
        self._check_row(question, best)
        mode = "forced" if question.target is not None else "greedy" if question.beam_size == 1 else "beam"
        pair = next(pair_translations([text], None, [best], mode))
        # A target from the question has no log-probabilities yet.
        pair = replace(pair, known=question.target is None and pair.known)
        self._recorder.units = self.run.reader.segmenter.units([pair.source], [best.text])
        record = next(self._recorder.record([pair]))
        viewer_run = ViewerRun(self.name, plain=self.run.reader.detokenize if self.run.config.data.tokenized else None)
        viewer_run.add_all([record])
        facts = {
            "sentence": viewer_run.sentences[0],
            "sites": viewer_run.sites,
            "units": viewer_run.units,
            "weights": encode_weights(viewer_run.weights),
            "ids": best.ids,
            "alternatives": self._alternatives.at_each_token(best.source_ids, best.ids),
            "nBest": [
                {
                    "text": translation.text,
                    "ids": translation.ids,
                    "score": translation.score,
                    "logProbability": sum(translation.log_probabilities),
                }
                for translation in n_best
            ],
            "logProbability": sum(record.token_log_probabilities),
            "prefixTokens": len(question.prefix),
            "difference": self.run.reader.describe_difference(question.text, record.source),
        }
        return Answer(record, facts, question)

    def row(self, question: RowQuestion) -> dict[str, Any]:
        """Computes one row of one head, from its query to the sum of its values.

        Returns:
            JSON-ready: `query`, the query, a list of d_k numbers; `keys` and `values`, a vector for each key; `tokens`,
            the tokens of the keys; `products`, the query times each key; `scale`, the factor that makes them `scores`;
            `weights`; `words`, the token that each value alone would predict, empty in the encoder; `lengths`, the
            length of what each value adds if it gets all the weight; and `context`, the weighted sum of the values.

        Raises:
            InputError: a token id is not in the vocabulary, the model has no site, layer, head or row of this name or
                index, or its rows cannot be computed step by step (see `row_steps`).
        """
        self._check_site(question.site)
        pair = self._read_pair(question)
        layer = layer_name(question.site, question.layer)
        model = self._float64_model()
        token = [*question.target, EOS][min(question.query, len(question.target))]
        steps = row_steps(model, pair, layer, question.head, question.query, token)
        values = steps.values
        added = values["v"] @ steps.arrays["W_o"]
        is_encoder = layer.startswith("encoder")
        predicted = [] if is_encoder else predict_alone(model, added).tolist()
        key_ids = pair[1] if question.site == "decoder_self" else pair[0]
        names = {"query": "q", "keys": "k", "values": "v"} | {
            name: name for name in ("products", "scores", "weights", "context")
        }
        return {
            **{key: values[name].round(ANSWER_DIGITS).tolist() for key, name in names.items()},
            "scale": 1.0 if values["scores"] is values["products"] else values["q"].size ** -0.5,
            "tokens": self.run.tokenizer.pieces([int(key) for key in key_ids[: len(values["weights"])]]),
            "words": self.run.tokenizer.of_target.pieces(predicted),
            "lengths": np.linalg.norm(added, axis=-1).round(ANSWER_DIGITS).tolist(),
        }

    def explain(self, question: RowQuestion) -> dict[str, Any]:
        """Splits the scores of one row of one head into parts of the query and the key.

        Returns:
            JSON-ready: `queryParts` and `keyParts`, the names of the parts; `keys`, the tokens of the keys; `scores`,
            the score of each key; and `differences`, each pair of parts minus its mean over the keys, as nested lists
            `(keys, query parts, key parts)`.

        Raises:
            InputError: a token id is not in the vocabulary, the model has no site, layer, head or row of this name or
                index, or its scores cannot be split.
        """
        self._check_site(question.site)
        pair = self._read_pair(question)
        layer = layer_name(question.site, question.layer)
        parts = split_score(self._float64_model(), pair, layer, question.head, question.query).merged()
        return {
            "queryParts": parts.query_parts,
            "keyParts": parts.key_parts,
            "keys": self.run.tokenizer.pieces([int(key) for key in parts.keys]),
            "scores": parts.scores.round(ANSWER_DIGITS).tolist(),
            "differences": np.moveaxis(parts.differences, -1, 0).round(ANSWER_DIGITS).tolist(),
        }

    def split(self, question: LogitQuestion) -> dict[str, Any]:
        """Splits the logit of the token that a row predicts, minus the mean logit over the vocabulary.

        Returns:
            JSON-ready: `total`, the sum of all parts; `sources`, a list of `(token, part)`, the part that
            cross-attention reads from each source token; and `others`, a list of `(name, part)` for all other parts.

        Raises:
            InputError: a token id is not in the vocabulary, the target has no such row, or the logits of the model
                cannot be split.
        """
        pair = self._read_pair(question)
        if question.query >= len(question.target):
            raise InputError(f"row: expected a number from 0 to {len(question.target) - 1}, found {question.query}")
        parts = split_logit(self._float64_model(), pair, question.query, question.target[question.query])
        is_source = parts["source"] >= 0
        sources = parts[is_source].groupby("source")["difference"].sum().reindex(range(len(pair[0])), fill_value=0.0)
        other_parts = parts[~is_source].groupby("part", sort=False)["difference"].sum()
        return {
            "total": round(float(parts["difference"].sum()), ANSWER_DIGITS),
            "sources": list(
                zip(self.run.tokenizer.pieces(pair[0]), sources.round(ANSWER_DIGITS).to_list(), strict=True)
            ),
            "others": list(zip(other_parts.index.to_list(), other_parts.round(ANSWER_DIGITS).to_list(), strict=True)),
        }

    @staticmethod
    def _check_site(site: str) -> None:
        """Raises an `InputError` if there is no such site of attention."""
        if site not in ATTENTION_SITES:
            raise InputError(f"site: expected {', '.join(ATTENTION_SITES)}, found {site!r:.60}")

    def _float64_model(self) -> keras.Model:
        """Returns a copy of the run's model that computes in float64."""
        return shared_float64(self.run.model, self.run.graphs)

    def _read_pair(self, question: LogitQuestion) -> Pair:
        """Returns the ids that the encoder reads, with EOS, and the ids that the decoder reads, with BOS.

        Raises:
            InputError: the target cannot be a translation, or the text has a NUL character or a lone surrogate.
        """
        self._check_target(question.target)
        source = self.run.tokenizer.encode([self._read_text(question.text)])[0]
        return [*source[: self.run.config.model.max_positions - 1], EOS], [BOS, *(question.target or [EOS])[:-1]]

    def _read_text(self, text: str) -> str:
        """Returns a text as the model reads it; lines are joined by spaces.

        Raises:
            InputError: the text has a NUL character or a lone surrogate.
        """
        return self.run.reader.read_line(" ".join(text.split("\n")), "text")

    def _translate(self, text: str, question: Question) -> list[Translation]:
        """Translates a text.

        Returns:
            The n-best list of the search. If the question has a target, a list of one translation: this target, with
            log-probabilities of 0.

        Raises:
            InputError: the prefix or the target has an id that a translation cannot have.
        """
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
        """Returns a translator that searches with the question's beam size, by the model with the present changes."""
        config = self.run.config
        settings = {"search": "beam", "beam_size": question.beam_size, "n_best": question.n_best}
        search = build_search(config.decoding.model_copy(update=settings), config.run.seed)
        model = self._changed_model if question.changes else self.run.model
        return build_translator(model, self.run.tokenizer, config, search, graphs=self.run.graphs)

    def _check_ids(self, ids: list[int]) -> None:
        """Raises an `InputError` if an id is PAD, BOS or outside the vocabulary, or if there are too many ids."""
        size = self.run.tokenizer.vocabulary_size
        longest = self.run.config.model.max_positions
        if any(token >= size or token in (PAD, BOS) for token in ids):
            raise InputError(
                f"tokens: expected ids below {size}, except those of padding and of the beginning of a sentence"
            )
        if len(ids) > longest:
            raise InputError(f"tokens: expected at most {longest}, found {len(ids)}")

    def _check_target(self, target: list[int]) -> None:
        """Raises an `InputError` if `_check_ids` refuses an id, or if EOS stands before the last position."""
        self._check_ids(target)
        if EOS in target[:-1]:
            raise InputError("target: expected no end of sentence (EOS) before the last token")

    @staticmethod
    def _check_row(question: Question, translation: Translation) -> None:
        """Raises an `InputError` if a question's row does not fit the translation.

        The index of the query must be below the number of queries. There must be one weight for each key.
        """
        if (row := question.row) is None:
            return
        lengths = {"source": len(translation.source_ids) + 1, "target": len(translation.ids)}
        site = next(site for site in SITES.values() if site.weighed_at == row.site)
        queries, keys = (lengths[axis] for axis in site.axes)
        if row.query >= queries or len(row.weights) != keys:
            raise InputError(
                f"row: expected a query from 0 to {queries - 1} and {keys} weights, found query {row.query} and "
                f"{len(row.weights)} weights"
            )


NO_ROW = (-1, 0, 0)
"""The variable `(layer, head, query)` of a site whose rows are not replaced."""
NO_WEIGHTS = (0.0,)
"""The weights of this row, which are not used; any number of keys is allowed."""


class ChangeVariables:
    """The changes of a model's heads as TensorFlow variables. A new change needs no new graph.

    Only the heads of a Transformer can be changed.

    Args:
        model: the model.

    Attributes:
        heads: site -> the numbers of layers and heads; only sites whose heads can be changed. Empty for architectures
            other than the Transformer.
        of_heads: site -> the `Intervention` that changes whole heads, for `ChangedModel`.
        of_heads_and_row: site -> the `Intervention` that also replaces one row.
    """

    def __init__(self, model: keras.Model) -> None:
        self.heads = {site: (len(layers), layers[0].num_heads) for site, layers in changeable_layers(model).items()}
        self._kinds = {site: tf.Variable(np.full(shape, UNCHANGED, "int32")) for site, shape in self.heads.items()}
        self._rows = {site: tf.Variable(np.array(NO_ROW, "int32")) for site in self.heads}
        self._weights = {site: tf.Variable(np.array(NO_WEIGHTS, "float32"), shape=[None]) for site in self.heads}
        self.of_heads: Mapping[str, Intervention] = {site: Intervention(kinds) for site, kinds in self._kinds.items()}
        self.of_heads_and_row: Mapping[str, Intervention] = {
            site: Intervention(kinds, self._rows[site], self._weights[site]) for site, kinds in self._kinds.items()
        }

    def set(self, changes: Iterable[HeadChange], row: RowReplacement | None = None) -> None:
        """Sets the changes of the next passes; earlier changes end.

        Args:
            changes: the changes of whole heads. All other heads are unchanged.
            row: the row to replace and its new weights; None to replace no row.

        Raises:
            InputError: the model does not have one of the heads, or its heads cannot be changed.
        """
        kinds = {site: np.full(shape, UNCHANGED, "int32") for site, shape in self.heads.items()}
        for change in changes:
            self._check_head(change)
            kinds[change.site][change.layer, change.head] = list(CHANGES).index(change.change)
        if row is not None:
            self._check_head(row)
        for site in self.heads:
            self._kinds[site].assign(kinds[site])
            has_row = row is not None and row.site == site
            self._rows[site].assign((row.layer, row.head, row.query) if row and has_row else NO_ROW)
            self._weights[site].assign(row.weights if row and has_row else NO_WEIGHTS)

    def _check_head(self, change: HeadChange | RowReplacement) -> None:
        """Raises an `InputError` if the model does not have the changed head, or its heads cannot be changed."""
        if not self.heads:
            raise InputError("changes: expected none, since only the heads of a Transformer can be changed")
        if change.site not in self.heads:
            raise InputError(f"site: expected {', '.join(self.heads)}, found {change.site!r:.60}")
        layers, heads = self.heads[change.site]
        if change.layer >= layers or change.head >= heads:
            raise InputError(
                f"{change.site}: expected a layer from 0 to {layers - 1} and a head from 0 to {heads - 1}, found layer "
                f"{change.layer}, head {change.head}"
            )


SHOWN_TOKENS = 8
"""The number of likeliest tokens at each position."""


class Alternatives:
    """Lists the likeliest tokens at each position of a translation.

    Args:
        model: any `TranslationModel`.
        tokenizer: its tokenizer.
    """

    def __init__(self, model: Any, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

        def read(source, target_input):
            memory = model.encode(source, training=False)
            logits = model.decode(target_input, memory, training=False).logits
            return ops.top_k(ops.log_softmax(ops.cast(logits, "float32")), min(SHOWN_TOKENS, tokenizer.vocabulary_size))

        self._read = ModelGraph(model, read, (tf.TensorSpec([1, None], tf.int32),) * 2)

    def at_each_token(self, source_ids: list[int], target_ids: list[int]) -> list[list[tuple[int, str, float]]]:
        """Lists the likeliest tokens at each position of a translation.

        Args:
            source_ids: the ids of the source, without EOS.
            target_ids: the ids of the translation, which end in EOS unless truncated.

        Returns:
            For each target token, at most `SHOWN_TOKENS` tuples `(id, piece, log-probability)`, the likeliest first.
        """
        batch = forced_batch([(source_ids, target_ids)])
        values, tokens = (x.numpy()[0, : len(target_ids)] for x in self._read(*batch.ids[:2]))
        pieces = [self._tokenizer.pieces([int(token) for token in row]) for row in tokens]
        return [
            [(int(token), piece, round(float(value), 4)) for token, piece, value in zip(*row, strict=True)]
            for row in zip(tokens, pieces, values, strict=True)
        ]
