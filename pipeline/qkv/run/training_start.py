"""What a training starts from: the devices, the text, which is the same on all workers, and the weights."""

import logging
from typing import Any

import keras
import tensorflow as tf

from ..config import RunConfig
from ..config.run import dump, flat_settings
from ..files.atomic import write_atomically
from ..files.run_directory import MADE_BY, RunDirectory
from ..runtime.devices import describe_devices, make_strategy, resolve_precision, slow_precision
from ..runtime.workers import Workers
from ..text.prepare import TrainingText, load_text, prepare_text
from ..text.provenance import check_prepared, check_settings, data_sha256, prepared_sha256
from ..text.sets import with_held_out_files
from ..training.checkpoint import Progress
from ..training.checkpoint_folder import Checkpoints
from ..training.run_folder import delete_records
from ..training.same_start import check_same_text, restore_together
from .ancestor import Ancestor, take_ancestor

log = logging.getLogger(__name__)


def start_devices(config: RunConfig) -> tf.distribute.Strategy:
    """Makes the strategy, and says what is computed on."""
    strategy = make_strategy()
    keras.utils.set_random_seed(config.run.seed)
    precision = resolve_precision(config.training.precision)
    log.info("%s", describe_devices(precision))
    if advice := slow_precision(precision):
        log.warning("%s", advice)
    return strategy


def restore(
    config: RunConfig,
    run: RunDirectory,
    checkpoints: Checkpoints,
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    workers: Workers | None,
    ancestor: Ancestor | None,
) -> Progress:
    """Loads the newest checkpoint, or else the weights of the run that this one starts from, if there is either, and
    cleans up what is not needed any more."""
    started = bool(checkpoints.all()) or run.model.is_file()
    if ancestor is not None and not started:
        ancestor.load(model, optimizer)
    progress = restore_together(workers, checkpoints, model, optimizer, started)
    if workers is not None and not workers.is_chief:
        return progress
    write_config(config, run)  # a resumed run may have new limits
    checkpoints.delete_superseded(progress) if started else delete_records(run)
    return progress


def compared_settings(config: RunConfig) -> dict[str, Any]:
    """Returns the settings that all workers must have; where the run is may differ from one machine to the next."""
    return {key: value for key, value in flat_settings(config.model_dump(mode="json")) if key != "run.directory"}


def read_same_text(
    config: RunConfig, run: RunDirectory, workers: Workers | None
) -> tuple[Ancestor | None, TrainingText]:
    """Copies the run that this one starts from, if there is one, prepares the text or reads what is prepared, and
    compares it with that of the other workers."""
    ancestor, text = _take_ancestor_and_text(config, run)
    if workers is not None:
        check_same_text(workers, data_sha256(with_held_out_files(config, run).data, run) | prepared_sha256(run))
    return ancestor, text


def _take_ancestor_and_text(config: RunConfig, run: RunDirectory) -> tuple[Ancestor | None, TrainingText]:
    if not run.config.is_file():  # at once, so that the same command finds the run
        write_config(config, run)
    ancestor = take_ancestor(config, run)
    keras.utils.set_random_seed(config.run.seed)  # after a model was loaded, as if there had been none
    if not run.corpus_report.is_file():
        return ancestor, prepare_text(config, run)
    check_settings(config, run)
    text = load_text(config, run)
    check_prepared(run)
    return ancestor, text


def write_config(config: RunConfig, run: RunDirectory) -> None:
    """Writes the settings into the run."""
    write_atomically(run.config, (MADE_BY + dump(config)).encode())
