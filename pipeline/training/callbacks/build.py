"""Builds the callbacks of a training run from its config."""

from typing import Any

import keras

from ...config import RunConfig
from ...config.run import flat_settings
from ...decoding.translator import Translator
from ...inspection.recorder import AttentionRecorder
from ...run_directory import RunDirectory
from ..checkpoint import Progress
from ..loop import Training
from .probe_archive import ProbeArchive
from .profile import Profile
from .progress import History, ProgressLine
from .tensorboard import TensorBoard

COMPARED = ("tokenizer", "batches", "model", "training", "decoding")


def build_callbacks(
    config: RunConfig, run: RunDirectory, translator: Translator, training: Training, progress: Progress
) -> list[keras.callbacks.Callback]:
    """Builds the callbacks that show and record the training, in the order in which they run; only the worker that
    writes needs them."""
    probes = [(probe.source, probe.reference) for probe in config.inspection.probes]
    recorder = AttentionRecorder(training.model, translator.tokenizer, max_positions=translator.max_positions)
    profiled_updates = config.inspection.profile_updates
    epoch_updates = training.batches.updates(training.batches.full_epoch)
    return [
        *([Profile(run.tensorboard, profiled_updates)] if profiled_updates else []),
        ProgressLine(training.stopping.limits, epoch_updates, progress),
        History(run.history, progress),
        TensorBoard(run.tensorboard, translator, recorder, probes, compared_settings(config), progress.update),
        ProbeArchive(run.probes, recorder, probes, progress.update),
    ]


def compared_settings(config: RunConfig) -> dict[str, Any]:
    """Returns the settings by which runs are compared, by dotted key: seed, text, model, training and decoding."""
    values = config.model_dump(mode="json", include={"run": {"seed"}, **dict.fromkeys(COMPARED, True)})
    return dict(flat_settings(values))
