"""A run as TensorFlow's SavedModel: written, and loaded again."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from ..alignment.readout import MEAN_HEAD, AlignmentReadout
from ..decoding.build import build_search
from ..errors import InputError
from ..run.trained_run import TrainedRun
from ..runtime.import_tensorflow import silenced_stderr
from .parity import searches
from .saved_translator import SavedTranslator

BATCH_SENTENCES = 64


def make_saved_translator(run: TrainedRun, readout: AlignmentReadout) -> SavedTranslator:
    """Makes what is saved of a run.

    Args:
        run: the run.
        readout: where `align` reads links.

    Raises:
        InputError: `align` cannot read links so.
    """
    if readout.site != "cross" or readout.extraction != "target":
        raise InputError("--at: the links of a SavedModel are those of LAYER,HEAD,SIDE; leave out LINKS and SITE")
    decoding, tokenizer = run.config.decoding, run.tokenizer
    return SavedTranslator(
        run.model,
        tokenizer.model,
        tokenizer.pieces(range(tokenizer.vocabulary_size)),
        *(build_search(settings, run.config.run.seed) for settings in searches(run, {}).values()),
        max_target_ratio=decoding.max_target_ratio,
        max_target_extra=decoding.max_target_extra,
        max_positions=run.config.model.max_positions,
        layer=readout.layer,
        head=None if readout.head == MEAN_HEAD else int(readout.head),
        row_shift=int(readout.side == "input"),
    )


def write_saved_model(translator: SavedTranslator, folder: Path) -> None:
    """Writes a SavedModel with the signatures `translate` and `align`; `serving_default` is `translate`."""
    translate, align = translator.translate, translator.align
    signatures = {"serving_default": translate, "translate": translate, "align": align}
    tf.saved_model.save(translator, str(folder), signatures=signatures)


class LoadedSavedModel:
    """A SavedModel, loaded from its folder.

    Args:
        folder: what `write_saved_model` wrote.
    """

    own_decoding: Mapping[str, Any] = {}

    def __init__(self, folder: Path) -> None:
        with silenced_stderr():  # the tokenizer says that its text is not normalised
            self._loaded = tf.saved_model.load(str(folder))

    def translate(self, sources: Sequence[str], decoding: Any) -> list[str]:
        """See `ExportedModel`."""
        texts = []
        for first in range(0, len(sources), BATCH_SENTENCES):
            batch = tf.constant(sources[first : first + BATCH_SENTENCES])
            found = self._loaded.signatures["translate"](source=batch, beam=tf.constant(decoding.beam_size > 1))
            texts += [text.decode() for text in found["text"].numpy()]
        return texts

    def log_probabilities(self, sources: Sequence[str], targets: Sequence[str]) -> list[np.ndarray]:
        """See `ExportedModel`."""
        rows: list[np.ndarray] = []
        for first in range(0, len(sources), BATCH_SENTENCES):
            source, target = (tf.constant(side[first : first + BATCH_SENTENCES]) for side in (sources, targets))
            found = self._loaded.signatures["align"](source=source, target=target)
            lengths = (found["target_tokens"].numpy() != b"").sum(axis=1)
            rows += [row[:length] for row, length in zip(found["log_probabilities"].numpy(), lengths, strict=True)]
        return rows
