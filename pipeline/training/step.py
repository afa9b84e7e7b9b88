"""One update, on one replica or many: the loss is summed over all of their tokens, then divided by their number."""

from itertools import pairwise
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from ..text.batches import Batch, GuidedBatch
from ..text.tokenizer import PAD
from .guided_attention import GuidedAttention
from .loss import fused_cross_entropy
from .r_drop import fused_divergence

# Of a batch on one device. All lengths are free, so that none of them retraces.
BATCH_SIGNATURE = Batch(*(tf.TensorSpec([None, None], tf.int32),) * 3)


class TrainStepMetrics(NamedTuple):
    """Of all replicas together: the sum of the loss over target tokens, their number, the norm of the mean gradient."""

    loss: Any
    tokens: Any
    gradient_norm: Any


class TrainStep:
    """The graph of an update.

    Called with a batch's tensors, per replica where there are several, it updates the model and returns
    `TrainStepMetrics`.
    `accumulate` takes further batches of the same update beforehand: their gradients and tokens count as if all were
    one batch.

    Args:
        model: anything with the surface of `pipeline.model.interface`.
        optimizer: built for the model's variables, made in the strategy's scope.
        strategy: says which replicas there are.
        signature: of the batches; `TrainingBatches` knows it where there are many replicas.
        label_smoothing: see `pipeline.training.loss`.
        clip_norm: longest gradient over all variables; 0 for no limit.
        r_drop: weight of the divergence between two passes over the batch (Liang et al. 2021, equation 4, halved, so
            that it is in the scale of a single cross-entropy); 0 for one pass.
        guidance: where attention is drawn to links; batches are then `GuidedBatch`es.
        accumulating: whether `accumulate` will be called.
        parts: in how many a device's batch is computed, side by side. Cores that have a part each wait for one another
            once an update, and not at every product.
    """

    def __init__(
        self,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        strategy: tf.distribute.Strategy,
        signature: Batch | GuidedBatch = BATCH_SIGNATURE,
        *,
        label_smoothing: float = 0.0,
        clip_norm: float = 0.0,
        r_drop: float = 0.0,
        guidance: GuidedAttention | None = None,
        accumulating: bool = False,
        parts: int = 1,
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.strategy = strategy
        self.label_smoothing = label_smoothing
        self.clip_norm = clip_norm
        self.r_drop = r_drop
        self.guidance = guidance
        self.parts = parts
        self.replicas = strategy.num_replicas_in_sync
        self._sums = self._make_sums() if accumulating else None
        self._finish = self._graph(self._replica_update, signature)
        self._add = self._graph(self._replica_accumulate, signature)

    def __call__(self, *batch: Any) -> TrainStepMetrics:
        logs = self._finish(*batch)
        if self.replicas == 1:
            return logs
        return TrainStepMetrics(*(self.strategy.experimental_local_results(value)[0] for value in logs))

    def accumulate(self, *batch: Any) -> None:
        """Adds a batch to the update that the next call makes."""
        self._add(*batch)

    def _graph(self, function, signature):
        def graph(*batch):
            return function(*batch) if self.replicas == 1 else self.strategy.run(function, args=batch)

        return tf.function(graph, input_signature=tuple(signature), autograph=False)

    def _make_sums(self):
        """What batches of an update add up in, each replica for itself: gradients, loss and tokens."""
        shapes = [*(variable.shape for variable in self.model.trainable_variables), (), ()]
        with self.strategy.scope():
            return [
                tf.Variable(
                    tf.zeros(shape),
                    trainable=False,
                    synchronization=tf.VariableSynchronization.ON_READ,
                    aggregation=tf.VariableAggregation.SUM,
                )
                for shape in shapes
            ]

    def _replica_accumulate(self, *batch):
        assert self._sums is not None
        for own, value in zip(self._sums, self._of_batch(*batch), strict=True):
            own.assign_add(value)

    def _replica_update(self, *batch):
        sums = self._of_batch(*batch)
        if self._sums is not None:
            sums = [own + value for own, value in zip(self._sums, sums, strict=True)]
            with tf.control_dependencies(sums):
                for own in self._sums:
                    own.assign(tf.zeros_like(own))
        *gradients, loss, tokens = sums
        tokens = self._total(tokens)
        gradients = self._total([gradient / tokens for gradient in gradients])
        norm = tf.linalg.global_norm(gradients)
        if self.clip_norm:
            gradients, _ = tf.clip_by_global_norm(gradients, self.clip_norm, use_norm=norm)
        # The optimizer sums over replicas once more; each has the whole already.
        gradients = [gradient / self.replicas for gradient in gradients]
        self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables, strict=True))
        return TrainStepMetrics(self._total(loss), tokens, norm)

    def _of_batch(self, *batch):
        """Sums over the target tokens of a replica's batch: each variable's gradient, the loss, the tokens."""
        rows = tf.shape(batch[0])[0]
        bounds = [rows * part // self.parts for part in range(self.parts + 1)]
        sums = [self._of_part(*(x[start:end] for x in batch)) for start, end in pairwise(bounds)]
        return [tf.add_n(values) for values in zip(*sums, strict=True)]

    def _of_part(self, source, target_input, target_output, links=None):
        variables = self.model.trainable_variables
        with tf.GradientTape() as tape:
            loss, total_loss = self._losses(source, target_input, target_output, links)
        # What has no bearing on the loss, such as a norm before queries that nothing looks at, has gradient zero.
        gradients = [
            tf.zeros(variable.shape) if gradient is None else tf.convert_to_tensor(gradient)
            for gradient, variable in zip(tape.gradient(total_loss, variables), variables, strict=True)
        ]
        return [*gradients, loss, tf.reduce_sum(tf.cast(target_output != PAD, tf.float32))]

    def _losses(self, source, target_input, target_output, links):
        """The cross-entropy, and with it all else that is learnt."""
        model = self.model
        if self.r_drop:  # the batch twice, other units dropped in each
            source, target_input, target_output, links = (
                None if x is None else tf.concat([x, x], 0) for x in (source, target_input, target_output, links)
            )
        memory = model.encode(source, training=True)
        output = model.decode(target_input, memory, training=True)
        loss = self._cross_entropy(output.states, target_output)
        total_loss = loss
        if model.source_loss:  # the states of source tokens predict those after them
            total_loss += model.source_loss * self._cross_entropy(memory.states[:, :-1], source[:, 1:])
        if self.guidance is not None:
            total_loss += self.guidance.loss(output.cross, links, source, target_output)
        if not self.r_drop:
            return loss, total_loss
        first, second = tf.split(tf.reshape(output.states, (-1, output.states.shape[-1])), 2)
        weights = tf.cast(tf.reshape(tf.split(target_output, 2)[0], (-1,)) != PAD, tf.float32)
        total_loss += self.r_drop * fused_divergence(first, second, model.output_embedding.table, weights)
        return loss / 2, total_loss / 2

    def _cross_entropy(self, states, ids):
        targets = tf.reshape(ids, (-1,))
        states = tf.reshape(states, (-1, states.shape[-1]))
        weights = tf.cast(targets != PAD, tf.float32)
        return fused_cross_entropy(states, self.model.output_embedding.table, targets, weights, self.label_smoothing)

    def _total(self, value):
        """The sum over replicas."""
        context = tf.distribute.get_replica_context()
        return context.all_reduce(tf.distribute.ReduceOp.SUM, value) if self.replicas > 1 else value
