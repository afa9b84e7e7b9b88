"""Makes the updates of a training, one after the other; a batch that does not fit into memory is computed in parts."""

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from ..errors import InputError
from ..text.batch import Batch
from .progress import Progress
from .seeds import DRAWS
from .step import Accumulator, TrainStep, TrainStepMetrics

log = logging.getLogger(__name__)


class Updates:
    """Makes updates. Gradients of the parts of a batch are summed, so they make the update of the whole batch.

    Args:
        model: whose layers draw random numbers.
        step: makes an update of one batch.
    """

    def __init__(self, model: keras.Model, step: TrainStep) -> None:
        self.model = model
        self.step = step

    def make(self, batches: Sequence[Batch], progress: Progress) -> TrainStepMetrics:
        """Makes an update of some batches.

        Raises:
            InputError: not even one sentence fits into memory.
        """
        parts = _Parts(batches, progress.split_positions)
        while True:
            try:
                if not parts.any:
                    return self._make_whole(batches)
                metrics = self._in_parts.make(parts)
                progress.split_updates += 1
                return metrics
            except tf.errors.ResourceExhaustedError:
                parts = self._split(batches, parts, progress)

    def _make_whole(self, batches: Sequence[Batch]) -> TrainStepMetrics:
        *others, last = batches
        for batch in others:
            self.step.accumulate(batch)
        return self.step(last)

    @cached_property
    def _in_parts(self) -> "_StepInParts":
        return _StepInParts(self.step)

    def _split(self, batches: Sequence[Batch], parts: "_Parts", progress: Progress) -> "_Parts":
        """Returns smaller parts, which later updates will have, too.

        Raises:
            InputError: there are none, or several machines train: the others wait already.
        """
        number = progress.update + 1
        positions = parts.most_positions
        if positions is None or self.step.strategy.cluster_resolver is not None:
            raise too_large(number, batches[-1]) from None
        smaller = _Parts(batches, positions)
        if smaller.most_positions == positions:  # of a single sentence
            raise too_large(number, batches[-1]) from None
        if progress.split_positions is None:
            log.warning(
                "update %d: a batch of %s positions does not fit into memory; from now on such batches are computed in "
                "parts, with the same sums. Lower batches.batch_tokens and raise batches.accumulated to do the same "
                "without a failed attempt",
                number,
                f"{positions:,}",
            )
        progress.split_positions = positions
        self._in_parts.clear()
        self._set_random_numbers(number)
        return smaller

    def _set_random_numbers(self, number: int) -> None:
        """Sets generators to where this update would be if each took `DRAWS`: how far a failed attempt has come is
        chance, and a resumed run must draw the same."""
        for variable in self.model.variables:
            if "seed_generator" in variable.path:
                seed = int(keras.ops.convert_to_numpy(variable)[0])
                variable.assign(np.array([seed, number * DRAWS % 2**32], np.uint32))

    def restore(self, progress: Progress) -> None:
        """Takes over what earlier updates left."""
        if self._loss_scale is not None:
            self._loss_scale.restore(progress.loss_scale)

    def save_to(self, progress: Progress) -> None:
        """Stores in `progress` what later updates need."""
        if self._loss_scale is not None:
            progress.loss_scale = self._loss_scale.state()

    def logs(self) -> dict[str, float]:
        """Returns the number of updates that were left out, in float16, and of graphs that XLA has compiled."""
        skipped = {} if self._loss_scale is None else {"skipped_updates": self._loss_scale.skipped}
        return skipped | ({"compilations": len(self.step.compiled)} if getattr(self.step, "xla", False) else {})

    @property
    def _loss_scale(self):
        return getattr(self.step, "loss_scale", None)


class _Part(NamedTuple):
    """A part of a batch: the number of the part, from 0, and of all parts."""

    batch: Batch
    number: int
    parts: int


class _Parts:
    """The cutting of batches so that no part has as many positions as a limit, if sentences can be cut apart so.

    Attributes:
        any: whether any batch is cut.
        most_positions: of a part; None if the batches do not tell their shapes.
    """

    def __init__(self, batches: Sequence[Any], limit: int | None) -> None:
        self._cut = [(batch, *_cut(batch, limit)) for batch in batches] if _have_shapes(batches) else []
        self.any = any(parts > 1 for _, parts, _ in self._cut)
        self.most_positions = max((positions for *_, positions in self._cut), default=None)

    def __iter__(self) -> Iterator[_Part]:
        return (_Part(batch, number, parts) for batch, parts, _ in self._cut for number in range(parts))


def _have_shapes(batches: Sequence[Any]) -> bool:
    return all(isinstance(batch, Batch) for batch in batches)


def _cut(batch: Batch, limit: int | None) -> tuple[int, int]:
    """Returns the number of parts, a power of two, and the positions of the largest."""
    rows, width = _shape(batch)
    parts = 1
    while limit is not None and parts < rows and -(-rows // parts) * width >= limit:
        parts *= 2
    return parts, -(-rows // parts) * width


def _shape(batch: Batch) -> tuple[int, int]:
    """Returns the number of sentences of the largest share of a device, and the positions of each."""
    source, target = (getattr(ids, "values", [ids]) for ids in batch.ids[:2])  # those of each device, or one
    return max(len(ids) for ids in source), max(
        ids.shape[1] + other.shape[1] for ids, other in zip(source, target, strict=True)
    )


class _StepInParts:
    """The graphs of an update in parts, traced when they are first needed."""

    def __init__(self, step: TrainStep) -> None:
        self._step = step
        self._sums: Accumulator = step.accumulator or step.make_accumulator()
        number = tf.TensorSpec((), tf.int32)
        self._add: Callable = step.graph(self._add_part, (number, number, *step.signature.arrays))
        self._finish: Callable = step.graph(self._apply, ())

    def make(self, parts: _Parts) -> TrainStepMetrics:
        """Makes an update of all parts."""
        for batch, number, count in parts:
            self._add(tf.constant(number), tf.constant(count), *batch.arrays)
        return self._step.metrics_of(self._finish())

    def clear(self) -> None:
        """Forgets the parts of an update that was not made."""
        self._sums.clear()

    def _add_part(self, number, parts, *tensors) -> None:
        batch = Batch(*tensors)
        rows = tf.shape(batch.source)[0]
        self._sums.add(self._step.sums_of(batch.rows(rows * number // parts, rows * (number + 1) // parts)))

    def _apply(self) -> TrainStepMetrics:
        return self._step.apply(self._sums.take([tf.zeros_like(total) for total in self._sums.sums]))


def too_large(update: int, batch: Batch) -> InputError:
    """Returns the error of a batch that does not fit into memory."""
    shapes = ", ".join(str(tuple(x.shape)) for x in batch if x is not None and hasattr(x, "shape"))
    return InputError(
        f"update {update}: a batch of shapes {shapes} does not fit into memory; lower batches.batch_tokens and "
        "raise batches.accumulated, or lower data.max_source_tokens and data.max_target_tokens"
    )
