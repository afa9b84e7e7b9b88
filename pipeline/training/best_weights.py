"""Which of all weights that training went through the model keeps."""

import logging
from collections.abc import Callable
from typing import NamedTuple

import keras

from ..config import RunConfig
from ..config.names import is_better
from .checkpoint import Progress, load_checkpoint, load_mean
from .checkpoint_folder import Checkpoints

log = logging.getLogger(__name__)


class KeptWeights(NamedTuple):
    """Those of all that training went through that the model has.

    - which: in words.
    - metric: what they were chosen by.
    - value: of the metric, on validation.
    """

    which: str
    metric: str
    value: float


def keep_best_weights(
    config: RunConfig,
    model: keras.Model,
    checkpoints: Checkpoints,
    progress: Progress,
    validate: Callable[[], dict[str, float]],
) -> KeptWeights:
    """Puts the weights that are best on validation into the model, and says which they are."""
    metric = config.training.early_stopping.metric
    assert progress.best_metric is not None  # training ends with a validation
    which, count = config.training.average_of, config.training.average_checkpoints
    paths = checkpoints.recent()[-count:] if which == "last" else checkpoints.best_few(progress)
    if min(len(paths), count) > 1:
        load_mean(paths, model)
        value = validate()[f"val_{metric}"]
        log.info(
            "validation %s: %.2f for the mean of the %s %d checkpoints, %.2f for the best single one",
            metric,
            value,
            which,
            len(paths),
            progress.best_metric,
        )
        if is_better(metric, value, progress.best_metric):
            return KeptWeights(f"the mean of the {which} {len(paths)} checkpoints", metric, value)
    load_checkpoint(checkpoints.best, model)
    return KeptWeights(f"update {progress.best_update}", metric, progress.best_metric)
