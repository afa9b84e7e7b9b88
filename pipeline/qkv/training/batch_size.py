"""The size of batches: a number of the settings, or the largest that fits into memory, found by trying."""

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
from ..text.batch_plan import round_up
from ..text.tokens.special_tokens import EOS
from . import seeds
from .batches import TrainingBatches
from .progress import Progress
from .step import TrainStep

log = logging.getLogger(__name__)

PROCESSOR_TOKENS = 4096  # on a processor, larger batches are no faster
MOST_TOKENS = 65_536
LEAST_BATCHES = 64  # of an epoch: fewer updates hardly learn
PRECISION = 16  # the numbers that are tried are this part of themselves apart
KEPT_FREE = 0.1  # share of what fits, for the optimizer and for what memory loses between arrays


def resolve_batch_tokens(
    setting: int | Literal["auto"], progress: Progress, build: Callable[[int], tuple[TrainingBatches, TrainStep]]
) -> int:
    """Returns the size of batches: a number as it is; for `auto` the number that was found when the run began, or else
    the largest that fits, which `progress` then keeps. `build` makes batches of so many tokens, and the step that
    updates the model by them.

    Raises:
        InputError: as `find_batch_tokens`.
    """
    if setting != "auto":
        return setting
    if progress.batch_tokens is None:
        batches, step = build(PROCESSOR_TOKENS)
        progress.batch_tokens = find_batch_tokens(step, batches, limit=largest_useful(batches))
    else:
        log.info("batches.batch_tokens auto: %s, as found when the run began", f"{progress.batch_tokens:,}")
    return progress.batch_tokens


def largest_useful(batches: TrainingBatches) -> int:
    """Returns the number of tokens of a batch above which there would be too few updates."""
    target = batches.segmentations[0].target
    return max(min(MOST_TOKENS, (int(target.lengths.sum()) + len(target)) // LEAST_BATCHES), 1)


def find_batch_tokens(step: TrainStep, batches: TrainingBatches, limit: int) -> int:
    """Returns the largest number of tokens of a batch, up to `limit`, with which gradients fit into memory, less a
    reserve. The model is not changed; on a processor nothing is tried.

    Raises:
        InputError: not even the longest sentence fits, or several machines train, which might find several numbers.
    """
    if step.strategy.cluster_resolver is not None:
        raise InputError("batches.batch_tokens: expected a number for a training on several machines, found auto")
    if not visible_gpus():
        log.info("batches.batch_tokens auto: %s, since there is no GPU", f"{PROCESSOR_TOKENS:,}")
        return PROCESSOR_TOKENS
    pairs = [side.lengths.max() for pairs in batches.segmentations for side in pairs.sides]
    longest = int(round_up(max(pairs) + 1, batches.length_multiple))
    least = longest * step.replicas
    with seeds.preserve_generators(step.model):
        found = largest_fitting(_make_probe(step, longest), least, max(limit, least))
    if not found:
        raise InputError(
            f"batches.batch_tokens auto: not even a sentence of {longest} tokens fits into the GPU's memory; lower "
            "data.max_source_tokens and data.max_target_tokens, or make the model smaller"
        )
    tokens = max(int(found * (1 - KEPT_FREE)), 1) if found < limit else found
    log.info("batches.batch_tokens auto: %s; kept in the run, so that it goes on with the same batches", f"{tokens:,}")
    return tokens


def _make_probe(step: TrainStep, length: int) -> Callable[[int], bool]:
    """Returns whether the gradients of a made-up batch of the longest sentences, which need the most memory, fit."""

    def norm_of(*tensors):
        return step.update(Batch(*tensors), accumulate=tf.linalg.global_norm)

    graph = step.graph(norm_of, step.signature.arrays)

    def fits(tokens: int) -> bool:
        rows = max(tokens // (length * step.replicas), 1)
        ids = np.full((rows, length), EOS, np.int32)
        links = np.zeros((rows, length, length), bool)
        try:
            norm = graph(*(ids, ids, ids, links)[: len(step.signature.arrays)])
            keras.ops.convert_to_numpy(step.strategy.experimental_local_results(norm)[0])
        except tf.errors.ResourceExhaustedError:
            return False
        return True

    return fits


def largest_fitting(fits: Callable[[int], bool], least: int, most: int) -> int:
    """Returns about the largest number that fits, by bisection; 0 if not even `least` does.

    Args:
        fits: whether a number does; if it does, so do all smaller ones.
        least: the smallest number that is of use.
        most: the largest; at least `least`.
    """
    steps = math.ceil(math.log(most / least, 1 + 1 / PRECISION))
    numbers = [0, *(round(least * (most / least) ** (step / max(steps, 1))) for step in range(steps)), most]
    return numbers[bisect_left(numbers, True, 1, key=lambda number: not fits(number)) - 1]
