"""Builds the callbacks of a training run from its config."""

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
    """Makes the callbacks of `training.callbacks`.

    Raises:
        InputError: one does not take its arguments.
    """
    return [make_callback(one.name, one.arguments, run.root) for one in config.training.callbacks]


def callback_params(config: RunConfig, run: RunDirectory, batches: TrainingBatches) -> dict[str, Any]:
    """Returns the `params` of all callbacks: those that Keras' `fit` gives, the folder of the run, and all settings by
    dotted key."""
    return {
        "epochs": config.training.max_epochs,
        "steps": batches.updates(0),
        "verbose": 0,
        "run": str(run.root),
        "settings": dict(flat_settings(config.model_dump(mode="json"))),
    }


COMPARED = ("tokenizer", "batches", "model", "training", "decoding")


def build_callbacks(
    config: RunConfig,
    run: RunDirectory,
    translator: Translator,
    training: Training,
    progress: Progress,
    validation: Corpus,
    stream: TextIO | None = None,
) -> list[keras.callbacks.Callback]:
    """Builds the callbacks that show and record the training, in the order in which they run; only the worker that
    writes needs them. Progress is written to `stream`, by default standard output."""
    given = config.inspection.probes
    probes = middle_pairs(validation) if given is None else [(one.source, one.reference) for one in given]
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
    """Returns what runs are compared by, by dotted key: name, corpus, and what differs from the defaults of seed, text,
    model, training and decoding. TensorBoard takes the mean of runs for which all of these are equal, and so of none.
    """
    compared: dict[str, Any] = {"run": {"seed"}, **dict.fromkeys(COMPARED, True)}
    values = config.model_dump(mode="json", include=compared, exclude_defaults=True)
    return {"run.name": run.root.name, "corpus": _describe_corpus(config.data, run), **dict(flat_settings(values))}


def _describe_corpus(data: DataSettings, run: RunDirectory) -> str:
    """Returns languages and training file, and the beginning of a digest of all files, which may be changed in place
    between two runs."""
    digest = hashlib.sha256(json.dumps(recorded_sha256(run), sort_keys=True).encode()).hexdigest()
    file = ", ".join(str(corpus.table or corpus.source) for corpus in data.training_corpora)
    return f"{data.source_language}-{data.target_language} {file} ({digest[:8]})"
