"""A run as TensorFlow's SavedModel, written and loaded: strings in; text, tokens, scores and attention out.

It is loaded by TensorFlow and TensorFlow Text alone, also by TensorFlow Serving. Batches have one sentence or more, of
any length: a source longer than the model accepts is cut, and its translation `truncated`.

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
from ..text.lines.line import EMPTY, class_of
from ..text.tokens.special_tokens import BOS, EOS, PAD
from .parity import searches

CODE = r"\x{{{:x}}}"  # a character in a regular expression of TensorFlow, see `class_of`
STRINGS = tf.TensorSpec([None], tf.string)


class SavedTranslator(tf.Module):
    """Translates and aligns strings as a run does.

    Args:
        run: the run.
        readout: where `align` reads links; None for a model without cross-attention, which links nothing.

    Raises:
        InputError: `align` cannot read links so.
    """

    def __init__(self, run: TrainedRun, readout: AlignmentReadout | None) -> None:
        super().__init__()
        if readout and (readout.site != "cross" or readout.extraction != "target"):
            raise InputError("--at: a SavedModel reads links at LAYER,HEAD,SIDE; leave out LINKS and SITE")
        tokenizer = run.tokenizer
        self._variables = [variable.value for variable in run.model.variables]  # what is saved; Keras' layers are not
        self._tokenizer = tensorflow_text.SentencepieceTokenizer(tokenizer.model, out_type=tf.int32)
        pieces = tokenizer.pieces(range(tokenizer.vocabulary_size))
        self._pieces = tf.constant(["", *pieces[1:]])  # padding has no spelling
        greedy, beam = (build_search(settings, run.config.run.seed) for settings in searches(run, {}).values())
        kinds = zip(tokenizer.unread, ("", " "), strict=True)
        unread = [(f"[{class_of(kind, CODE)}]", read) for kind, read in kinds if kind]
        # Not tracked, so not saved.
        self._own = SimpleNamespace(run=run, readout=readout, greedy=greedy, beam=beam, unread=unread)
        self._max_positions = run.config.model.max_positions

    @tf.function(input_signature=(STRINGS, tf.TensorSpec([], tf.bool)), autograph=False)
    def translate(self, source, beam):
        """Translates sentences.

        Args:
            source: string `(B,)`.
            beam: whether to search with a beam, rather than greedily.

        Returns:
            A dictionary:
            - text: string `(B,)`; empty for an empty source.
            - source_tokens: string `(B, S)`, ending in `</s>`, then empty.
            - target_tokens: string `(B, T)`, ending in `</s>` unless truncated, then empty.
            - score: float32 `(B,)`; the search ranks by it.
            - log_probabilities: float32 `(B, T)`, natural logarithms; 0 for padding.
            - truncated: bool `(B,)`, whether the source was cut or the longest length was reached.
            - cross_attention: float32 `(B, L, H, T, S)`; zeros for padding.
        """
        own = self._own
        model, decoding = own.run.model, own.run.config.decoding
        tokens = self._tokenize(source)
        source_ids = self._with_end(tokens[:, : self._max_positions - 1])
        lengths = tf.cast(tokens[:, : self._max_positions - 1].row_lengths(), tf.int32)
        usual = tf.cast(decoding.max_target_ratio * tf.cast(lengths, tf.float64), tf.int32)
        longest = usual + decoding.max_target_extra
        longest = tf.where(lengths > 0, tf.minimum(longest, self._max_positions), 0)
        memory = model.encode(source_ids, training=False)._replace(self_attention=())
        length = tf.reduce_max(tf.concat([longest, [1]], 0))
        found = tf.cond(
            beam, lambda: own.beam(model, memory, longest, length), lambda: own.greedy(model, memory, longest, length)
        )
        ids = found.ids[:, 0]
        count = tf.reduce_sum(tf.cast(ids != PAD, tf.int32), axis=1)
        last = tf.gather(ids, tf.maximum(count - 1, 0), axis=1, batch_dims=1)
        too_long = tf.cast(tokens.row_lengths(), tf.int32) > lengths
        forced = forced_pass(model, source_ids, self._shifted(ids), ids[:, :0], ("cross",))
        is_text = (ids != PAD) & (ids != BOS) & (ids != EOS)
        return {
            "text": self._tokenizer.detokenize(tf.ragged.boolean_mask(ids, is_text)),
            "source_tokens": tf.gather(self._pieces, source_ids),
            "target_tokens": tf.gather(self._pieces, ids),
            "score": found.scores[:, 0],
            "log_probabilities": found.log_probabilities[:, 0],
            "truncated": too_long | ((count > 0) & (last != EOS)),
            "cross_attention": _without_padding(forced.attention["cross"], ids),
        }

    @tf.function(input_signature=(STRINGS, STRINGS), autograph=False)
    def align(self, source, target):
        """Reads the attention over given translations.

        Args:
            source: string `(B,)`.
            target: their translations, string `(B,)`.

        Returns:
            A dictionary of `source_tokens`, `target_tokens`, `log_probabilities` and `cross_attention` as `translate`
            returns them, and:
            - links: int32 `(B, T)`, the index of the source token to which each target token is linked; -1 for
              `</s>`, padding, and tokens that attend to no token but `</s>`.
        """
        source_ids = self._with_end(self._tokenize(source)[:, : self._max_positions - 1])
        target_ids = self._with_end(self._tokenize(target))[:, : self._max_positions]
        forced = forced_pass(self._own.run.model, source_ids, self._shifted(target_ids), target_ids, ("cross",))
        cross = _without_padding(forced.attention["cross"], target_ids)
        return {
            "source_tokens": tf.gather(self._pieces, source_ids),
            "target_tokens": tf.gather(self._pieces, target_ids),
            "log_probabilities": tf.where(target_ids == PAD, 0.0, forced.log_probabilities),
            "cross_attention": cross,
            "links": self._links(cross, source_ids, target_ids),
        }

    def _tokenize(self, text):
        """Reads text as the run does: composed, without the invisible characters that it does not read, and none where
        there is nothing to be seen, see `text.lines.line`."""
        text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8")  # bytes that are not UTF-8 become U+FFFD
        for characters, read in self._own.unread:
            text = tf.strings.regex_replace(text, characters, read)
        text = tensorflow_text.normalize_utf8(text, "NFC")
        return self._tokenizer.tokenize(tf.where(tf.strings.regex_full_match(text, EMPTY), "", text))

    def _with_end(self, tokens):
        return tf.concat([tokens, tf.fill([tokens.nrows(), 1], EOS)], axis=1).to_tensor(PAD)

    def _shifted(self, ids):
        """Returns the ids that the decoder reads to predict each of `ids`."""
        return tf.concat([tf.fill([tf.shape(ids)[0], 1], BOS), ids[:, :-1]], axis=1)

    def _links(self, cross, source_ids, target_ids):
        readout = self._own.readout
        if readout is None:
            return tf.fill(tf.shape(target_ids), -1)
        row_shift = int(readout.side == "input")  # the row that reads a token is below the one that predicts it
        weights = cross[:, readout.layer]
        weights = tf.reduce_mean(weights, axis=1) if readout.head == MEAN_HEAD else weights[:, int(readout.head)]
        weights = tf.concat([weights[:, row_shift:], tf.zeros_like(weights[:, :row_shift])], axis=1)
        is_source, is_target = ((ids != PAD) & (ids != EOS) for ids in (source_ids, target_ids))
        weights = tf.where(is_source[:, None], weights, 0.0)
        linked = is_target & (tf.reduce_max(weights, axis=-1) > 0)
        return tf.where(linked, tf.argmax(weights, axis=-1, output_type=tf.int32), -1)


def write_saved_model(translator: SavedTranslator, folder: Path) -> None:
    """Writes a SavedModel with the signatures `translate` and `align`; `serving_default` is `translate`."""
    translate, align = translator.translate, translator.align
    signatures = {"serving_default": translate, "translate": translate, "align": align}
    tf.saved_model.save(translator, str(folder), signatures=signatures)
    for function in (translate, align):
        forget_gradients(function.get_concrete_function().graph)


class LoadedSavedModel:
    """A SavedModel from the folder that `write_saved_model` wrote; see `ExportedModel`. It knows the longest length."""

    own_decoding: Mapping[str, Any] = {}

    def __init__(self, folder: Path) -> None:
        with silenced_stderr():  # the tokenizer says that its text is not normalised
            self._loaded = tf.saved_model.load(str(folder))

    def translate(self, sources: Sequence[str], decoding: Any, longest: int) -> list[str]:
        beam = tf.constant(decoding.beam_size > 1)
        found = self._loaded.signatures["translate"](source=tf.constant(sources), beam=beam)
        return [text.decode() for text in found["text"].numpy()]

    def log_probabilities(self, sources: Sequence[str], targets: Sequence[str]) -> list[np.ndarray]:
        found = self._loaded.signatures["align"](source=tf.constant(sources), target=tf.constant(targets))
        lengths = (found["target_tokens"].numpy() != b"").sum(axis=1)
        return [row[:length] for row, length in zip(found["log_probabilities"].numpy(), lengths, strict=True)]


def _without_padding(attention, target_ids):
    """Sets the rows `(B, L, H, T, S)` of padding to zero."""
    return tf.where((target_ids != PAD)[:, None, None, :, None], attention, 0.0)
