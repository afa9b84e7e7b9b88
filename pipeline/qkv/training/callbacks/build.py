"""Builds the callbacks of a run from its config."""

import hashlib
import json
import sys
from typing import Any, TextIO

import keras

from ...config import RunConfig
from ...config.data import DataSettings
from ...config.run import flat_settings
from ...decoding.translator import Translator
from ...files.run_directory import RunDirectory
from ...inspection.recorder import AttentionRecorder
from ...text.corpora.corpus import Corpus
from ...text.corpora.provenance import recorded_sha256
from ..batches import TrainingBatches
from ..loop import Training
from ..progress import Progress
from . import make_callback
from .probes import ProbeArchive, ProbeLines, middle_pairs
from .progress_line import History, ProgressLine
from .tensorboard import TensorBoard


def make_callbacks(config: RunConfig, run: RunDirectory) -> list[keras.callbacks.Callback]:
    """Makes the callbacks that `training.callbacks` of the config names.

    Raises:
        InputError: see `make_callback`.
    """
    return [make_callback(setting.name, setting.arguments, run.root) for setting in config.training.callbacks]


def callback_params(config: RunConfig, run: RunDirectory, batches: TrainingBatches) -> dict[str, Any]:
    """Returns the `params` of all callbacks.

    These are `epochs`, `steps` and `verbose`, as in Keras' `fit`; `run`, the folder of the run; and `settings`, all
    settings by dotted key.
    """
    return {
        "epochs": config.training.max_epochs,
        "steps": batches.updates(0),
        "verbose": 0,
        "run": str(run.root),
        "settings": dict(flat_settings(config.model_dump(mode="json"))),
    }


COMPARED_SECTIONS = ("tokenizer", "batches", "model", "training", "decoding")


def build_callbacks(
    config: RunConfig,
    run: RunDirectory,
    translator: Translator,
    training: Training,
    progress: Progress,
    validation: Corpus,
    stream: TextIO | None = None,
) -> list[keras.callbacks.Callback]:
    """Builds the callbacks that show and record the training. Only the chief needs them.

    Args:
        config: the config.
        run: the folder of the run.
        translator: translates with the model that is trained.
        training: the training.
        progress: the progress of the run.
        validation: the validation set, from which probe sentences are chosen if the config has none.
        stream: the stream for progress; None for standard output.

    Returns:
        The callbacks in the order of their calls.
    """
    settings = config.inspection.probes
    probes = middle_pairs(validation) if settings is None else [(probe.source, probe.reference) for probe in settings]
    recorder = AttentionRecorder(training.step.model, translator.tokenizer, max_positions=translator.max_positions)
    board = TensorBoard(run, translator, recorder, probes, hyperparameters(config, run), progress.update)
    return [
        ProgressLine(training.stopping.limits, training.batches.updates(0), progress, stream or sys.stdout),
        ProbeLines(translator, probes, stream),
        History(run.history, progress),
        board,
        ProbeArchive(
            run.probes, recorder, probes, progress.update, config.inspection.probe_updates, board.show_attention
        ),
    ]


def hyperparameters(config: RunConfig, run: RunDirectory) -> dict[str, Any]:
    """Returns the hyperparameters of a run by dotted key, for TensorBoard's table of runs.

    These are the run's name, its corpus, and the settings that differ from their defaults: the seed and the sections in
    `COMPARED_SECTIONS`. TensorBoard averages runs whose hyperparameters are all equal. The name prevents that.
    """
    compared: dict[str, Any] = {"run": {"seed"}, **dict.fromkeys(COMPARED_SECTIONS, True)}
    values = config.model_dump(mode="json", include=compared, exclude_defaults=True)
    return {"run.name": run.root.name, "corpus": _describe_corpus(config.data, run), **dict(flat_settings(values))}


def _describe_corpus(data: DataSettings, run: RunDirectory) -> str:
    """Returns the languages, the training files, and the beginning of a digest of the content of all files.

    The digest tells runs apart if a file was changed between them.
    """
    digest = hashlib.sha256(json.dumps(recorded_sha256(run), sort_keys=True).encode()).hexdigest()
    file = ", ".join(str(corpus.table or corpus.source) for corpus in data.training_corpora)
    return f"{data.source_language}-{data.target_language} {file} ({digest[:8]})"
