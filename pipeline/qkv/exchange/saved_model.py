"""Export to TensorFlow's SavedModel, which takes strings and returns text, tokens, scores and attention.

TensorFlow with TensorFlow Text can load it without this package, and so can TensorFlow Serving. A batch has at least
one sentence. A source that is longer than the model accepts is cut, and its translation counts as truncated.

Letters: B batch, T target tokens, S source tokens, L layers, H heads.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text

from ..alignment.readout import MEAN_HEAD, AlignmentReadout
from ..decoding.build import build_search
from ..decoding.forced import forced_pass
from ..errors import InputError
from ..run.trained_run import TrainedRun
from ..runtime.graphs import forget_gradients
from ..runtime.import_tensorflow import silenced_stderr
from ..text.lines.line import EMPTY, character_ranges
from ..text.tokens.special_tokens import BOS, EOS, PAD
from .parity import comparable_searches

CODE = r"\x{{{:x}}}"  # the format string of a character's code in a regular expression of TensorFlow
STRINGS = tf.TensorSpec([None], tf.string)


class SavedTranslator(tf.Module):
    """A run as a TensorFlow module with the functions `translate` and `align`, which take strings.

    Args:
        run: the run.
        readout: layer, head and label side of the cross-attention from which `align` reads links. Each target token is
            linked to the source token of its largest weight. None for a model without cross-attention; `align` then
            returns no links.

    Raises:
        InputError: the readout's site is not `cross`, or its extraction method is not `target`.
    """

    def __init__(self, run: TrainedRun, readout: AlignmentReadout | None) -> None:
        super().__init__()
        if readout and (readout.site != "cross" or readout.extraction != "target"):
            raise InputError("--at: expected LAYER,HEAD,SIDE, because a SavedModel has no choice of LINKS and SITE")
        tokenizer = run.tokenizer
        self._variables = [
            variable.value for variable in run.model.variables
        ]  # saved with the module; Keras layers are not
        self._tokenizer = tensorflow_text.SentencepieceTokenizer(tokenizer.model, out_type=tf.int32)
        pieces = tokenizer.pieces(range(tokenizer.vocabulary_size))
        self._pieces = tf.constant(["", *pieces[1:]])  # padding has no spelling
        settings = comparable_searches(run, {})
        greedy = build_search(settings["greedy"], run.config.run.seed)
        beam = build_search(settings["beam"], run.config.run.seed)
        # The first kind of unread characters is removed, the second is replaced by a space.
        kinds = zip(tokenizer.unread, ("", " "), strict=True)
        unread = [
            (f"[{character_ranges(characters, CODE)}]", replacement) for characters, replacement in kinds if characters
        ]
        # TensorFlow does not track the attributes of a namespace, so it does not save them.
        self._untracked = SimpleNamespace(run=run, readout=readout, greedy=greedy, beam=beam, unread=unread, graphs=[])
        self._max_positions = run.config.model.max_positions

    @tf.function(input_signature=(STRINGS, tf.TensorSpec([], tf.bool)), autograph=False)
    def translate(self, source, beam):
        """Translates sentences.

        Args:
            source: the sentences, string `(B,)`.
            beam: True for beam search, False for greedy search, a bool scalar.

        Returns:
            A dictionary:
            - text: the translations, string `(B,)`; empty for an empty source.
            - source_tokens: string `(B, S)`. A sentence ends in `</s>`; empty strings follow.
            - target_tokens: string `(B, T)`. A translation ends in `</s>` unless it is truncated; empty strings follow.
            - score: the score by which the search ranks translations, float32 `(B,)`.
            - log_probabilities: the natural logarithm of each target token's probability, float32 `(B, T)`; 0 for
              padding.
            - truncated: whether the source was cut or the translation reached the maximum length, bool `(B,)`.
            - cross_attention: the weights, float32 `(B, L, H, T, S)`; 0 for padding.
        """
        untracked = self._untracked
        untracked.graphs.append(source.graph)
        model = untracked.run.model
        decoding = untracked.run.config.decoding
        tokens = self._tokenize(source)
        source_ids = self._with_end(tokens[:, : self._max_positions - 1])
        lengths = tf.cast(tokens[:, : self._max_positions - 1].row_lengths(), tf.int32)
        max_lengths = tf.cast(decoding.max_target_ratio * tf.cast(lengths, tf.float64), tf.int32)
        max_lengths = max_lengths + decoding.max_target_extra
        max_lengths = tf.where(lengths > 0, tf.minimum(max_lengths, self._max_positions), 0)
        memory = model.encode(source_ids, training=False)._replace(self_attention=())
        length = tf.reduce_max(tf.concat([max_lengths, [1]], 0))
        hypotheses = tf.cond(
            beam,
            lambda: untracked.beam(model, memory, max_lengths, length),
            lambda: untracked.greedy(model, memory, max_lengths, length),
        )
        ids = hypotheses.ids[:, 0]
        count = tf.reduce_sum(tf.cast(ids != PAD, tf.int32), axis=1)
        last = tf.gather(ids, tf.maximum(count - 1, 0), axis=1, batch_dims=1)
        too_long = tf.cast(tokens.row_lengths(), tf.int32) > lengths
        forced = forced_pass(model, source_ids, self._shifted(ids), ids[:, :0], ("cross",))
        is_text = (ids != PAD) & (ids != BOS) & (ids != EOS)
        return {
            "text": self._tokenizer.detokenize(tf.ragged.boolean_mask(ids, is_text)),
            "source_tokens": tf.gather(self._pieces, source_ids),
            "target_tokens": tf.gather(self._pieces, ids),
            "score": hypotheses.scores[:, 0],
            "log_probabilities": hypotheses.log_probabilities[:, 0],
            "truncated": too_long | ((count > 0) & (last != EOS)),
            "cross_attention": _without_padding(forced.attention["cross"], ids),
        }

    @tf.function(input_signature=(STRINGS, STRINGS), autograph=False)
    def align(self, source, target):
        """Scores and aligns translations.

        Args:
            source: the sentences, string `(B,)`.
            target: their translations, string `(B,)`.

        Returns:
            A dictionary with `source_tokens`, `target_tokens`, `log_probabilities` and `cross_attention`, see
            `translate`, and:
            - links: the index of the source token to which each target token is linked, int32 `(B, T)`; -1 for `</s>`,
              for padding, and for tokens that attend to no source token but `</s>`.
        """
        self._untracked.graphs.append(source.graph)
        source_ids = self._with_end(self._tokenize(source)[:, : self._max_positions - 1])
        target_ids = self._with_end(self._tokenize(target))[:, : self._max_positions]
        forced = forced_pass(self._untracked.run.model, source_ids, self._shifted(target_ids), target_ids, ("cross",))
        cross = _without_padding(forced.attention["cross"], target_ids)
        return {
            "source_tokens": tf.gather(self._pieces, source_ids),
            "target_tokens": tf.gather(self._pieces, target_ids),
            "log_probabilities": tf.where(target_ids == PAD, 0.0, forced.log_probabilities),
            "cross_attention": cross,
            "links": self._links(cross, source_ids, target_ids),
        }

    def _tokenize(self, text):
        """Returns the tokens of text, int32 ragged `(B, None)`, as the run reads it.

        Characters are composed (NFC). Invisible characters that the run does not read are removed or become spaces. A
        blank line has no tokens. See `text.lines.line`.
        """
        text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8")  # bytes that are not UTF-8 become U+FFFD
        for characters, replacement in self._untracked.unread:
            text = tf.strings.regex_replace(text, characters, replacement)
        text = tensorflow_text.normalize_utf8(text, "NFC")
        return self._tokenizer.tokenize(tf.where(tf.strings.regex_full_match(text, EMPTY), "", text))

    def _with_end(self, tokens):
        """Appends EOS to each sentence of ragged tokens, and pads them with PAD: int32 `(B, longest)`."""
        return tf.concat([tokens, tf.fill([tokens.nrows(), 1], EOS)], axis=1).to_tensor(PAD)

    def _shifted(self, ids):
        """Returns the decoder's input tokens for output tokens `ids`: BOS and all but the last, int32 `(B, T)`."""
        return tf.concat([tf.fill([tf.shape(ids)[0], 1], BOS), ids[:, :-1]], axis=1)

    def _links(self, cross, source_ids, target_ids):
        """Returns the index of the source token to which each target token is linked; -1 if it has no link.

        Args:
            cross: the cross-attention `(B, L, H, T, S)`.
            source_ids: `(B, S)`.
            target_ids: `(B, T)`.

        Returns:
            int32 `(B, T)`.
        """
        readout = self._untracked.readout
        if readout is None:
            return tf.fill(tf.shape(target_ids), -1)
        row_shift = int(readout.side == "input")  # the row that reads a token follows the row that predicts it
        weights = cross[:, readout.layer]
        weights = tf.reduce_mean(weights, axis=1) if readout.head == MEAN_HEAD else weights[:, int(readout.head)]
        weights = tf.concat([weights[:, row_shift:], tf.zeros_like(weights[:, :row_shift])], axis=1)
        is_source, is_target = ((ids != PAD) & (ids != EOS) for ids in (source_ids, target_ids))
        weights = tf.where(is_source[:, None], weights, 0.0)
        linked = is_target & (tf.reduce_max(weights, axis=-1) > 0)
        return tf.where(linked, tf.argmax(weights, axis=-1, output_type=tf.int32), -1)


def write_saved_model(translator: SavedTranslator, folder: Path) -> None:
    """Writes a SavedModel with the signatures `translate`, `align`, and `serving_default`, which is `translate`."""
    translate = translator.translate
    align = translator.align
    signatures = {"serving_default": translate, "translate": translate, "align": align}
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)  # a translator needs none
    tf.saved_model.save(translator, str(folder), signatures=signatures, options=options)
    for graph in translator._untracked.graphs:  # `get_concrete_function` would trace again: TensorFlow keeps them apart
        forget_gradients(graph)


class LoadedSavedModel:
    """A SavedModel that TensorFlow has loaded, with the interface `exchange.parity.ExportedModel`.

    Its settings of the search are stored in it. `translate` uses only the beam size of `decoding`: 1 for greedy search,
    larger for beam search with the stored size. It ignores `longest`.

    Args:
        folder: a folder that `write_saved_model` wrote.
    """

    fixed_decoding: Mapping[str, Any] = {}

    def __init__(self, folder: Path) -> None:
        with silenced_stderr():  # the tokenizer prints a warning that it does not normalise text
            self._loaded = tf.saved_model.load(str(folder))

    def translate(self, sources: Sequence[str], decoding: Any, longest: int) -> list[str]:
        beam = tf.constant(decoding.beam_size > 1)
        results = self._loaded.signatures["translate"](source=tf.constant(sources), beam=beam)
        return [text.decode() for text in results["text"].numpy()]

    def log_probabilities(self, sources: Sequence[str], targets: Sequence[str]) -> list[np.ndarray]:
        results = self._loaded.signatures["align"](source=tf.constant(sources), target=tf.constant(targets))
        lengths = (results["target_tokens"].numpy() != b"").sum(axis=1)
        return [row[:length] for row, length in zip(results["log_probabilities"].numpy(), lengths, strict=True)]


def _without_padding(attention, target_ids):
    """Returns the attention `(B, L, H, T, S)` with zeros in the rows of target tokens that are PAD."""
    return tf.where((target_ids != PAD)[:, None, None, :, None], attention, 0.0)
