"""Updates of one batch or of several. A batch that does not fit into memory is computed in parts."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import tensorflow as tf

from ..errors import InputError
from ..text.batch import Batch
from . import seeds
from .progress import Progress
from .step import TrainStep, TrainStepMetrics

log = logging.getLogger(__name__)


@dataclass(eq=False)
class Accumulation:
    """Updates of several batches, or of the parts of a batch, as if they were one batch.

    The gradients, losses and numbers of tokens of all batches and parts are summed before the weights change. The
    *positions* of a batch are its number of sentences times the sum of the lengths of both sides, padding included.

    Args:
        step: makes an update of one batch, and sums gradients.
    """

    step: TrainStep

    def make(self, batches: Sequence[Batch], progress: Progress) -> TrainStepMetrics:
        """Makes one update from one or more batches.

        If a batch does not fit into memory, it is computed in parts, and so are later batches of its size or larger.

        Args:
            batches: the batches of the update.
            progress: the progress of the run; its `split_positions` and `split_updates` are updated.

        Returns:
            The metrics of the update, over all batches together.

        Raises:
            InputError: a batch does not fit into memory although each part has one sentence; or a batch does not fit
                and several machines train.
        """
        while True:
            parts = [_plan_parts(batch, progress.split_positions)[0] for batch in batches]
            try:
                metrics = self._make(batches, parts)
            except tf.errors.ResourceExhaustedError:
                self._split(batches, progress)
                continue
            if max(parts) > 1:
                progress.split_updates += 1
            return metrics

    def make_several(self, batches: Sequence[Batch], progress: Progress) -> TrainStepMetrics:
        """Makes an update of each batch, all in one call of the step.

        Args:
            batches: the batches, of one shape; see `TrainStep.make_several`. A single one if `split_positions` is set.
            progress: the progress of the run before these updates.

        Returns:
            The metrics of each update, in arrays; of a single batch that was computed in parts, as scalars.

        Raises:
            InputError: see `make`; or memory has run out after some of the updates.
        """
        if progress.split_positions is not None:
            return self.make(batches, progress)
        try:
            return self.step.make_several(batches)
        except tf.errors.ResourceExhaustedError:
            if len(batches) == 1:
                self._split(batches, progress)
                return self.make(batches, progress)
            raise InputError(
                f"update {progress.update + 1}: memory has run out, although batches of this shape have fitted before; "
                "free the memory that other programs use, and resume the run"
            ) from None

    def _make(self, batches: Sequence[Batch], parts: Sequence[int]) -> TrainStepMetrics:
        """Makes one update from batches. `parts` has the number of parts that each batch is computed in.

        Raises:
            ResourceExhaustedError: a part does not fit into memory.
        """
        if list(parts) == [1]:
            return self.step(batches[0])
        for batch, count in zip(batches, parts, strict=True):
            if count == 1:
                self.step.call_compiled(self._add, batch.arrays)
            else:
                for number in range(count):
                    self._add_part(tf.constant(number), tf.constant(count), *batch.arrays)
        return self.step.metrics_of(self._finish())

    def _split(self, batches: Sequence[Batch], progress: Progress) -> None:
        """Prepares another attempt at an update that did not fit into memory, with smaller parts.

        Lowers `Progress.split_positions`, which holds for later updates too. Sets the sums to zero, and the random
        number generators to the start of the update.

        Raises:
            InputError: the batches cannot be split further. Or several machines train: the other machines already wait
                for the sums of this machine.
        """
        number = progress.update + 1
        positions = max(_plan_parts(batch, progress.split_positions)[1] for batch in batches)
        smaller = max(_plan_parts(batch, positions)[1] for batch in batches)
        if smaller == positions or self.step.strategy.cluster_resolver is not None:
            shapes = ", ".join(str(tuple(x.shape)) for x in batches[-1].arrays if hasattr(x, "shape"))
            raise InputError(
                f"update {number}: a batch of shapes {shapes} does not fit into memory; lower batches.batch_tokens and "
                "raise batches.accumulated, or lower data.max_source_tokens and data.max_target_tokens"
            ) from None
        if progress.split_positions is None:
            log.warning(
                "update %d: a batch of %s positions does not fit into memory; from now on such batches are computed in "
                "parts, with the same sums. Lower batches.batch_tokens and raise batches.accumulated to spare attempts",
                number,
                f"{positions:,}",
            )
        progress.split_positions = positions
        for total in self._sums:
            total.assign(tf.zeros_like(total))
        # Where the failed attempt stopped is chance, but a resumed run must draw the same random numbers.
        seeds.set_to_update(self.step.model, number, self.step.strategy)

    @cached_property
    def _sums(self) -> list[tf.Variable]:
        """The variables that sum each gradient, the loss and the number of tokens. Each replica has its own sums."""
        with self.step.strategy.scope():
            return [
                tf.Variable(
                    tf.zeros(shape),
                    trainable=False,
                    synchronization=tf.VariableSynchronization.ON_READ,
                    aggregation=tf.VariableAggregation.SUM,
                )
                for shape in (*(variable.shape for variable in self.step.model.trainable_variables), (), ())
            ]

    def _add_to_sums(self, values: Sequence[tf.Tensor]) -> None:
        for total, value in zip(self._sums, values, strict=True):
            total.assign_add(value)

    @cached_property
    def _add(self) -> Callable[..., None]:
        """The graph that adds the gradients, the loss and the number of tokens of a batch to `_sums`."""
        _ = self._sums  # variables must be made before the graph is traced

        def add(*tensors):
            self.step.update(self.step.signature.replace_arrays(tensors), accumulate=self._add_to_sums)

        return self.step.graph(add, self.step.signature.arrays, self.step.xla)

    @cached_property
    def _add_part(self) -> Callable[..., None]:
        """The graph that adds the gradients, the loss and the number of tokens of one part of a batch to `_sums`.

        It takes the index of the part, from 0; the number of parts; and the tensors of the whole batch.
        """
        _ = self._sums

        def add_part(number, parts, *tensors):
            batch = self.step.signature.replace_arrays(tensors)
            rows = tf.shape(batch.source)[0]
            part = batch.rows(rows * number // parts, rows * (number + 1) // parts)
            self.step.update(part, accumulate=self._add_to_sums)

        number = tf.TensorSpec((), tf.int32)
        return self.step.graph(add_part, (number, number, *self.step.signature.arrays))

    @cached_property
    def _finish(self) -> Callable[[], TrainStepMetrics]:
        """The graph that updates the weights by `_sums`, and sets `_sums` to zero."""
        _ = self._sums

        def finish():
            totals = [tf.identity(total) for total in self._sums]
            with tf.control_dependencies(totals):
                for total in self._sums:
                    total.assign(tf.zeros_like(total))
            return self.step.update(None, totals=totals)

        return self.step.graph(finish, ())

    def logs(self) -> dict[str, float]:
        """Returns the counters of the training for its logs.

        - skipped_updates: the number of updates that were left out because a gradient overflowed; in float16 only.
        """
        return {} if self.step.loss_scale is None else {"skipped_updates": self.step.loss_scale.skipped}


def _plan_parts(batch: Batch, limit: int | None) -> tuple[int, int]:
    """Plans the parts of a batch.

    Args:
        batch: the batch. If it is divided among several replicas, the largest share of a replica counts.
        limit: every part should have fewer positions than this; None not to split the batch.

    Returns:
        The number of parts, a power of two, and the number of positions of the largest part. It is `limit` or more if
        parts of one sentence are too large.
    """
    sources, targets = (getattr(ids, "values", [ids]) for ids in (batch.source, batch.target_input))
    rows = max(len(ids) for ids in sources)
    width = max(source.shape[1] + target.shape[1] for source, target in zip(sources, targets, strict=True))
    parts = 1
    while limit is not None and parts < rows and -(-rows // parts) * width >= limit:
        parts *= 2
    return parts, -(-rows // parts) * width
