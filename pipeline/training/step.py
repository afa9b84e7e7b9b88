"""One update, on one replica or many: the loss is summed over all of their tokens, then divided by their number."""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from pipeline.text.batches import Batch, GuidedBatch
from pipeline.text.tokenizer import PAD
from pipeline.training.guided_attention import Guidance
from pipeline.training.objective import fused_cross_entropy

# Of a batch on one device. All lengths are free, so that none of them retraces.
BATCH_SIGNATURE = Batch(*(tf.TensorSpec([None, None], tf.int32),) * 3)


class StepLogs(NamedTuple):
    """Of all replicas together: the sum of the loss over target tokens, their number, the norm of the mean gradient."""

    loss: Any
    tokens: Any
    gradient_norm: Any


def make_update(
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    strategy: tf.distribute.Strategy,
    signature: Batch | GuidedBatch = BATCH_SIGNATURE,
    *,
    label_smoothing: float = 0.0,
    clip_norm: float = 0.0,
    guidance: Guidance | None = None,
) -> Callable[..., StepLogs]:
    """Makes the graph of an update.

    Args:
        model: anything with the surface of `pipeline.model.surface`.
        optimizer: built for the model's variables, made in the strategy's scope.
        strategy: says which replicas there are.
        signature: of the batches; `TrainingBatches` knows it where there are many replicas.
        label_smoothing: see `pipeline.training.objective`.
        clip_norm: longest gradient over all variables; 0 for no limit.
        guidance: where attention is drawn to links; batches are then `GuidedBatch`es.

    Returns:
        A function of a batch's tensors, per replica where there are many, that returns `StepLogs`.
    """
    variables = model.trainable_variables
    replicas = strategy.num_replicas_in_sync

    def total(value):
        context = tf.distribute.get_replica_context()
        return context.all_reduce(tf.distribute.ReduceOp.SUM, value) if replicas > 1 else value

    def cross_entropy_of(states, ids):
        targets = tf.reshape(ids, (-1,))
        states = tf.reshape(states, (-1, states.shape[-1]))
        table = model.output_embedding.table
        return fused_cross_entropy(states, table, targets, tf.cast(targets != PAD, tf.float32), label_smoothing)

    def replica_update(source, target_input, target_output, links=None):
        with tf.GradientTape() as tape:
            memory = model.encode(source, training=True)
            output = model.decode(target_input, memory, training=True)
            loss = cross_entropy_of(output.states, target_output)
            total_loss = loss
            if model.source_loss:  # the states of source tokens predict those after them
                total_loss += model.source_loss * cross_entropy_of(memory.states[:, :-1], source[:, 1:])
            if guidance is not None:
                total_loss += guidance.loss(output.cross, links)
        tokens = total(tf.reduce_sum(tf.cast(target_output != PAD, tf.float32)))
        # What has no bearing on the loss, such as a norm before queries that nothing looks at, has gradient zero.
        gradients = [
            tf.zeros(variable.shape) if gradient is None else tf.convert_to_tensor(gradient) / tokens
            for gradient, variable in zip(tape.gradient(total_loss, variables), variables, strict=True)
        ]
        gradients = total(gradients)
        norm = tf.linalg.global_norm(gradients)
        if clip_norm:
            gradients, _ = tf.clip_by_global_norm(gradients, clip_norm, use_norm=norm)
        # The optimizer sums over replicas once more; each has the whole already.
        optimizer.apply_gradients(
            [(gradient / replicas, variable) for gradient, variable in zip(gradients, variables, strict=True)]
        )
        return StepLogs(total(loss), tokens, norm)

    if replicas == 1:
        return tf.function(replica_update, input_signature=tuple(signature), autograph=False)

    @tf.function(input_signature=tuple(signature), autograph=False)
    def update(*batch):
        logs = strategy.run(replica_update, args=batch)
        return StepLogs(*(strategy.experimental_local_results(value)[0] for value in logs))

    return update
