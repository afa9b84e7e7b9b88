"""One update of a model by gradient descent: forward, loss, backward, clip, apply.

The loss is summed over the target tokens of all replicas and divided by their number, so that every token counts the
same wherever it is computed. A graph calls `TrainStep._update` on each replica, and that calls `TrainStep._gradients`.
"""

from collections.abc import Iterator
from itertools import pairwise
from operator import itemgetter
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from ..text.batches import Batch
from ..text.tokenizer import PAD
from .accumulator import Accumulator
from .total_loss import TotalLoss

# All lengths are free, so that no new length makes TensorFlow trace the graph again.
BATCH_SIGNATURE = Batch(*(tf.TensorSpec([None, None], tf.int32),) * 3)


class TrainStepMetrics(NamedTuple):
    """Float32 scalars over all replicas.

    - loss: the cross-entropy, summed over target tokens.
    - tokens: the number of target tokens.
    - gradient_norm: the norm of the mean gradient, before it is clipped.
    """

    loss: Any
    tokens: Any
    gradient_norm: Any


class TrainStep:
    """The graph of an update: called with a `Batch`, it updates the model and returns `TrainStepMetrics`.

    Args:
        model: any `TranslationModel`.
        optimizer: built for the model's variables, in the strategy's scope.
        loss: the loss of the model.
        strategy: the strategy that holds the replicas.
        signature: a `Batch` of `tf.TensorSpec`; with many replicas or with links, `TrainingBatches.signature`.
        clip_norm: the maximum norm of the gradient over all variables; 0 for no limit.
        accumulating: whether `accumulate` will be called.
        slices: number of slices of the batch that a device computes in parallel. Cores with a slice each wait for one
            another once per update instead of at every product.
    """

    def __init__(
        self,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        loss: TotalLoss,
        strategy: tf.distribute.Strategy,
        signature: Batch = BATCH_SIGNATURE,
        *,
        clip_norm: float = 0.0,
        accumulating: bool = False,
        slices: int = 1,
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.loss = loss
        self.strategy = strategy
        self.clip_norm = clip_norm
        self.slices = slices
        self.replicas = strategy.num_replicas_in_sync
        sums = [*(variable.shape for variable in model.trainable_variables), (), ()]
        self._accumulator = Accumulator(sums, strategy) if accumulating else None
        self._update_graph = self._graph(self._update, signature)
        self._accumulate_graph = self._graph(self._accumulate, signature)

    def __call__(self, batch: Batch) -> TrainStepMetrics:
        """Updates the model; with many replicas the batch's tensors are values per replica."""
        metrics = self._update_graph(*_tensors(batch))
        if self.replicas == 1:
            return metrics
        return TrainStepMetrics(*(self.strategy.experimental_local_results(value)[0] for value in metrics))

    def accumulate(self, batch: Batch) -> None:
        """Adds a batch to the next update: gradients and tokens count as if all its batches were one."""
        self._accumulate_graph(*_tensors(batch))

    def _graph(self, function, signature):
        def on_replica(*tensors):
            return function(Batch(*tensors))

        def graph(*tensors):
            return on_replica(*tensors) if self.replicas == 1 else self.strategy.run(on_replica, args=tensors)

        return tf.function(graph, input_signature=_tensors(signature), autograph=False)

    def _update(self, batch: Batch) -> TrainStepMetrics:
        """Averages the gradient over accumulated batches and replicas, clips it and applies it on each replica."""
        sums = self._gradients(batch)
        if self._accumulator is not None:
            sums = self._accumulator.take(sums)
        *gradients, loss, tokens = self._sum_over_replicas(sums)
        gradients = [gradient / tokens for gradient in gradients]
        norm = tf.linalg.global_norm(gradients)
        if self.clip_norm:
            gradients, _ = tf.clip_by_global_norm(gradients, self.clip_norm, use_norm=norm)
        self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables, strict=True))
        return TrainStepMetrics(loss, tokens, norm)

    def _gradients(self, batch: Batch) -> list[Any]:
        """Runs forward, loss and backward: returns each variable's gradient, the loss and the tokens, summed over a
        replica's batch."""
        variables = self.model.trainable_variables
        sums = []
        for batch_slice in _slices(batch, self.slices):
            with tf.GradientTape() as tape:
                loss, total_loss = self.loss(batch_slice)
            # None if the loss does not depend on a variable, such as the normalisation before queries that no score
            # uses.
            gradients = [
                tf.zeros(variable.shape) if gradient is None else tf.convert_to_tensor(gradient)
                for gradient, variable in zip(tape.gradient(total_loss, variables), variables, strict=True)
            ]
            tokens = tf.reduce_sum(tf.cast(batch_slice.target_output != PAD, tf.float32))
            sums.append([*gradients, loss, tokens])
        return [tf.add_n(values) for values in zip(*sums, strict=True)]

    def _accumulate(self, batch: Batch) -> None:
        assert self._accumulator is not None
        self._accumulator.add(self._gradients(batch))

    def _sum_over_replicas(self, values):
        """One reduction for all values: each costs a round over the network."""
        context = tf.distribute.get_replica_context()
        return context.all_reduce(tf.distribute.ReduceOp.SUM, values) if self.replicas > 1 else values


def _tensors(batch: Batch) -> tuple[Any, ...]:
    return tuple(x for x in batch if x is not None)


def _slices(batch: Batch, number: int) -> Iterator[Batch]:
    """Cuts a batch into slices of about as many sentences each."""
    rows = tf.shape(batch.source)[0]
    bounds = [rows * i // number for i in range(number + 1)]
    for start, end in pairwise(bounds):
        yield batch.map(itemgetter(slice(start, end)))
