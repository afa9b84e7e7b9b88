"""Chooses the weights of the finished model: those of the best checkpoint, or the mean of several."""

import logging
from collections.abc import Callable
from typing import NamedTuple

import keras

from ..config import RunConfig
from ..config.names.translation import rank
from .checkpoint import Progress, load_checkpoint, load_mean
from .checkpoint_folder import Checkpoints

log = logging.getLogger(__name__)


class KeptWeights(NamedTuple):
    """The weights that the finished model has.

    - description: the weights in words.
    - metric: the validation metric by which they were chosen.
    - value: the value of that metric.
    """

    description: str
    metric: str
    value: float


def keep_best_weights(
    config: RunConfig,
    model: keras.Model,
    checkpoints: Checkpoints,
    progress: Progress,
    validate: Callable[[], dict[str, float]],
) -> KeptWeights:
    """Loads the weights that are best on validation into the model."""
    metric = config.training.early_stopping.metric
    assert progress.best_metric is not None  # training ends with a validation
    paths = checkpoints.recent()[-config.training.average_checkpoints :]
    if len(paths) > 1:
        load_mean(paths, model, checkpoints.origin)
        validation = validate()
        value = validation[f"val_{metric}"]
        log.info(
            "validation %s: %.2f for the mean of the last %d checkpoints, %.2f for the best single one",
            metric,
            value,
            len(paths),
            progress.best_metric,
        )
        if rank(metric, validation) < rank(metric, progress.best_validation):
            return KeptWeights(f"the mean of the last {len(paths)} checkpoints", metric, value)
    load_checkpoint(checkpoints.best, model, origin=checkpoints.origin)
    return KeptWeights(f"update {progress.best_update}", metric, progress.best_metric)
