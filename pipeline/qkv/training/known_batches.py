"""The size of batches where the settings leave it open: what fits into the memory of this machine."""

import logging

import keras
import tensorflow as tf

from ..config import RunConfig
from ..text.prepare import TrainingText
from .build import build_batches, build_train_step
from .largest_batch import PROCESSOR_TOKENS, find_batch_tokens, largest_useful

log = logging.getLogger(__name__)


def known_batches(
    config: RunConfig,
    text: TrainingText,
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    strategy: tf.distribute.Strategy,
    found: int | None = None,
) -> tuple[RunConfig, int | None]:
    """Replaces `auto` of `batches.batch_tokens` by a number: that which was `found` when the run began, or else the
    largest that fits. The model is not changed.

    Returns:
        The settings, and what was found, if anything is to be found.

    Raises:
        InputError: not even one sentence fits, or several machines train.
    """
    if config.batches.batch_tokens != "auto":
        return config, None
    if found is None:
        batches = build_batches(_with_batch_tokens(config, PROCESSOR_TOKENS), text, strategy)
        step = build_train_step(config, model, optimizer, batches)
        found = find_batch_tokens(step, batches, limit=largest_useful(batches))
    else:
        log.info("batches.batch_tokens auto: %s, as found when the run began", f"{found:,}")
    return _with_batch_tokens(config, found), found


def _with_batch_tokens(config: RunConfig, tokens: int) -> RunConfig:
    return config.model_copy(update={"batches": config.batches.model_copy(update={"batch_tokens": tokens})})
