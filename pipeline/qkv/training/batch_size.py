"""The size of batches: the number of the setting, or the largest that fits into memory, found by trials."""

import logging
import math
from bisect import bisect_left
from collections.abc import Callable
from typing import Literal

import keras
import numpy as np
import tensorflow as tf

from ..errors import InputError
from ..runtime.devices import visible_gpus
from ..text.batch import Batch
from ..text.tokens.special_tokens import EOS
from . import seeds
from .batches import TrainingBatches
from .progress import Progress
from .step import TrainStep

log = logging.getLogger(__name__)

PROCESSOR_TOKENS = 4096  # on a processor, larger batches are no faster
MOST_BATCH_TOKENS = 65_536
LEAST_BATCHES = 64  # of an epoch: a model hardly learns from fewer updates
PRECISION = 16  # neighbouring numbers that are tried differ by a factor of 1 + 1 / PRECISION
RESERVED_SHARE = 0.1  # of the size that fits, for the optimizer and for the gaps between arrays in memory


def resolve_batch_tokens(setting: int | Literal["auto"], progress: Progress) -> int | None:
    """Returns the size of batches in tokens, from the setting or from the progress of the run.

    Args:
        setting: `batches.batch_tokens` of the config. A number is returned unchanged.
        progress: the progress of the run. For `auto`, its `batch_tokens` is returned, which was found when the run
            began.

    Returns:
        The number of tokens; None for `auto` in a new run. Then find it by `find_batch_tokens`, and store it in
        `progress.batch_tokens`.
    """
    if setting != "auto":
        return setting
    if progress.batch_tokens is not None:
        log.info("batches.batch_tokens auto: %s, as found when the run began", f"{progress.batch_tokens:,}")
    return progress.batch_tokens


def largest_useful(batches: TrainingBatches) -> int:
    """Returns the largest size of batches in tokens, 1 to `MOST_BATCH_TOKENS`, with which an epoch still has about
    `LEAST_BATCHES` batches.

    The tokens of the target side are counted, EOS included.
    """
    target = batches.segmentations[0].target
    return max(min(MOST_BATCH_TOKENS, (int(target.lengths.sum()) + len(target)) // LEAST_BATCHES), 1)


def find_batch_tokens(step: TrainStep, batches: TrainingBatches, limit: int) -> int:
    """Finds the largest size of batches in tokens with which the gradients of an update fit into the GPU's memory.

    It computes the gradients of batches of several sizes. The model does not change. On a processor nothing is tried:
    the size is `PROCESSOR_TOKENS`.

    Args:
        step: computes the gradients.
        batches: the batches of the training text, for the length of its longest sentence. Their size does not matter.
        limit: the largest number of tokens that is tried. It is raised if a single sentence is longer.

    Returns:
        The number of tokens. If `limit` fits, it is `limit`; else it is the largest number that fits, less a reserve of
        `RESERVED_SHARE`.

    Raises:
        InputError: not even a batch of the longest sentence fits; or several machines train, each of which might find
            a different number.
    """
    if step.strategy.cluster_resolver is not None:
        raise InputError("batches.batch_tokens: expected a number for a training on several machines, found auto")
    if not visible_gpus():
        log.info("batches.batch_tokens auto: %s, since there is no GPU", f"{PROCESSOR_TOKENS:,}")
        return PROCESSOR_TOKENS
    lengths = batches.rows.longest_row
    least = max(lengths) * step.replicas
    with seeds.preserve_generators(step.model):
        fitting = largest_fitting(_make_trial(step, batches), least, max(limit, least))
    if not fitting:
        raise InputError(
            f"batches.batch_tokens auto: not even a row of {max(lengths)} tokens fits into the GPU's memory; lower "
            "data.max_source_tokens and data.max_target_tokens, or make the model smaller"
        )
    tokens = max(int(fitting * (1 - RESERVED_SHARE)), 1) if fitting < limit else fitting
    log.info("batches.batch_tokens auto: %s; kept in the run, so that it goes on with the same batches", f"{tokens:,}")
    return tokens


def _make_trial(step: TrainStep, batches: TrainingBatches) -> Callable[[int], bool]:
    """Returns a function that takes a number of tokens, and returns whether the gradients of a batch of that size fit.

    All rows of the batch have the largest lengths, which need the most memory. With several replicas, each computes the
    same share.
    """
    source_length, target_length = batches.rows.longest_row
    signature = batches.share_signature.map(lambda spec: tf.TensorSpec((None, *spec.shape[1:]), spec.dtype))

    def gradient_norm(*tensors):
        return step.update(signature.replace_arrays(tensors), accumulate=tf.linalg.global_norm)

    graph = step.graph(gradient_norm, signature.arrays)

    def fits(tokens: int) -> bool:
        rows = max(tokens // (max(source_length, target_length) * step.replicas), 1)
        source, target = (np.full((rows, length), EOS, np.int32) for length in (source_length, target_length))
        links = np.zeros((rows, target_length, source_length), bool)
        # Each token is a pair of its own, so that no position of a packed row is too large for the model.
        segments = (np.cumsum(ids > 0, axis=1, dtype=np.int32) for ids in (source, target))
        batch = Batch(source, target, target, links, *segments)
        arrays = (array for array, spec in zip(batch, signature, strict=True) if spec is not None)
        try:
            norm = graph(*arrays)
            keras.ops.convert_to_numpy(step.strategy.experimental_local_results(norm)[0])
        except tf.errors.ResourceExhaustedError:
            return False
        return True

    return fits


def largest_fitting(fits: Callable[[int], bool], least: int, most: int) -> int:
    """Finds about the largest number for which a condition holds, by bisection.

    Args:
        fits: the condition. It takes a number. If it is True for a number, it is True for all smaller numbers.
        least: the smallest number that is tried.
        most: the largest number that is tried; at least `least`.

    Returns:
        A number from `least` to `most` that fits. The largest number that fits is about 1 + 1 / `PRECISION` times as
        large at most. 0 if `least` does not fit.
    """
    steps = math.ceil(math.log(most / least, 1 + 1 / PRECISION))
    numbers = [0, *(round(least * (most / least) ** (step / max(steps, 1))) for step in range(steps)), most]
    return numbers[bisect_left(numbers, True, 1, key=lambda number: not fits(number)) - 1]
