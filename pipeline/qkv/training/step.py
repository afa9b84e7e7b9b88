"""One update of a model by gradient descent: forward, loss, backward, clip, apply.

The loss is summed over the target tokens of all replicas and divided by their number, so that every token counts the
same wherever it is computed. In float16 the loss is scaled up, and an update that overflows is left out.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from ..errors import InputError
from ..runtime.graphs import forget_gradients
from ..text.batch import Batch
from ..text.tokens.special_tokens import PAD
from .loss import TotalLoss
from .slices import SlicedSums

# All lengths are free, so that no new length makes TensorFlow trace the graph again.
BATCH_SIGNATURE = Batch(*(tf.TensorSpec([None, None], tf.int32),) * 3)


class TrainStepMetrics(NamedTuple):
    """Float32 scalars over all replicas.

    - loss: the cross-entropy, summed over target tokens.
    - tokens: the number of target tokens.
    - gradient_norm: the norm of the mean gradient, before it is clipped; 0 where the update was left out because the
      gradient was too large for float16.
    """

    loss: Any
    tokens: Any
    gradient_norm: Any


@dataclass(eq=False)
class TrainStep:
    """The graph of an update: called with a `Batch`, it updates the model and returns `TrainStepMetrics`.

    Args:
        loss: the loss of the model.
        optimizer: built for the model's variables, in the strategy's scope.
        strategy: the strategy that holds the replicas.
        signature: a `Batch` of `tf.TensorSpec`; with many replicas or with links, `TrainingBatches.signature`.
        clip_norm: the maximum norm of the gradient over all variables; 0 for no limit.
        slices: number of slices of the batch that a device computes in parallel. Cores with a slice each wait for one
            another once per update instead of at every product.
        xla: whether XLA compiles the update, for each shape of a batch; for a single device.

    Attributes:
        compiled: the shapes that XLA has compiled.
        loss_scale: the `LossScale` in float16, else None.
        sums_of: runs forward, loss and backward, as part of a graph: each variable's gradient, the loss and the number
            of tokens, summed over a replica's batch.

    Raises:
        InputError: a model in float16, or a compiled update, is to be trained on several devices.
    """

    loss: TotalLoss
    optimizer: keras.optimizers.Optimizer
    strategy: tf.distribute.Strategy
    signature: Batch = BATCH_SIGNATURE
    _: KW_ONLY
    clip_norm: float = 0.0
    slices: int = 1
    xla: bool = False
    compiled: set[tuple] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        self.model = self.loss.model
        self.replicas = self.strategy.num_replicas_in_sync
        is_half = self.model.dtype_policy.compute_dtype == "float16"
        if self.replicas > 1 and is_half:  # the optimizer cannot be asked within a condition there
            raise InputError(
                "training.precision: mixed_float16 on several devices cannot leave out an update; expected float32 or, "
                "from compute capability 8.0 on, mixed_bfloat16, or --run.devices 1"
            )
        if self.replicas > 1 and self.xla:
            raise InputError("training.xla: compiles for one device; expected --run.devices 1, or training.xla false")
        self.loss_scale = LossScale(self.strategy) if is_half else None
        self._traced: list[tf.Graph] = []
        self.sums_of = SlicedSums(self.model, self._sums_of_slice, self.slices)
        self._update_graph = self.graph(
            lambda *tensors: self.apply(self.sums_of(Batch(*tensors))), self.signature.arrays, self.xla
        )

    def __call__(self, batch: Batch) -> TrainStepMetrics:
        """Updates the model; with many replicas the batch's tensors are values per replica."""
        self.note_shape(batch, "update")
        return self.metrics_of(self._update_graph(*batch.arrays))

    def _sums_of_slice(self, batch: Batch) -> list[Any]:
        variables = self.model.trainable_variables
        with tf.GradientTape() as tape:
            loss, total_loss = self.loss(batch)
            if self.loss_scale is not None:
                total_loss = total_loss * self.loss_scale.scale
        # None if the loss does not depend on a variable, such as the normalisation before queries that no score uses.
        gradients = [
            tf.zeros(variable.shape) if gradient is None else tf.convert_to_tensor(gradient)
            for gradient, variable in zip(tape.gradient(total_loss, variables), variables, strict=True)
        ]
        tokens = tf.reduce_sum(tf.cast(batch.target_output != PAD, tf.float32))
        return [*gradients, loss, tokens]

    def apply(self, sums: list[Any]) -> TrainStepMetrics:
        """Averages the gradient over replicas, clips it and applies it on each, given the sums of `sums_of` over all
        that a replica has of the update; part of a graph."""
        if self.replicas > 1:  # one reduction for all: each costs a round over the network
            sums = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, sums)
        *gradients, loss, tokens = sums
        if self.loss_scale is not None:
            gradients = [gradient / self.loss_scale.scale for gradient in gradients]
        gradients = [gradient / tokens for gradient in gradients]
        norm = tf.linalg.global_norm(gradients)
        if self.clip_norm:
            gradients, _ = tf.clip_by_global_norm(gradients, self.clip_norm, use_norm=norm)
        if self.loss_scale is None:
            # Nothing is changed before all gradients are there: memory may run out on the way.
            with tf.control_dependencies([norm] if self.replicas == 1 else []):
                self._apply(gradients)
        else:
            norm = self._apply_if_finite(self.loss_scale, gradients, norm)
        return TrainStepMetrics(loss, tokens, norm)

    def _apply(self, gradients) -> None:
        self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables, strict=True))

    def _apply_if_finite(self, loss_scale: "LossScale", gradients, norm):
        """Makes the update, or leaves it out, and returns the norm that is reported."""
        finite = tf.math.is_finite(norm)
        reported = tf.where(tf.logical_or(finite, loss_scale.scale <= LEAST), norm, 0.0)
        # An update that is left out counts, so that the learning rate goes on.
        loss_scale.update(finite, lambda: self._apply(gradients), lambda: self.optimizer.iterations.assign_add(1))
        return reported

    def metrics_of(self, metrics: TrainStepMetrics) -> TrainStepMetrics:
        """Returns the metrics that a graph of an update has returned, which are equal on all replicas."""
        if self.replicas == 1:
            return metrics
        return TrainStepMetrics(*(self.strategy.experimental_local_results(value)[0] for value in metrics))

    def note_shape(self, batch: Batch, purpose: str) -> None:
        """Notes the shape of a batch that XLA compiles a graph for."""
        if self.xla:
            self.compiled.add((purpose, *batch.source.shape, *batch.target_output.shape))

    def graph(self, function: Callable, signature: Sequence[tf.TensorSpec], xla: bool = False) -> Callable:
        """Makes the graph of a function that is called on each replica with its tensors."""

        def graph(*tensors):
            self._traced.append(tf.compat.v1.get_default_graph())
            return function(*tensors) if self.replicas == 1 else self.strategy.run(function, args=tensors)

        return tf.function(graph, input_signature=signature, autograph=False, jit_compile=xla or None)

    def forget_gradients(self) -> None:
        """Forgets what TensorFlow keeps of the step's graphs for the life of the process, once training has ended."""
        while self._traced:
            forget_gradients(self._traced.pop())


# The loss is a sum over some thousand tokens, not a mean, and so starts as high as another would at 2^22.
START = 2.0**10
LEAST, MOST = 2.0**-20, 2.0**24
"""A gradient that overflows at the least scale overflows at any: training has diverged."""
GOOD_UPDATES = 2000
"""In a row, after which the scale is doubled (Micikevicius et al. 2018, section 3.2)."""


class LossScale:
    """The scale of a loss: halved where a gradient is not finite, doubled after many updates whose gradients are."""

    def __init__(self, strategy: tf.distribute.Strategy) -> None:
        def count(initial):
            return tf.Variable(initial, trainable=False, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)

        with strategy.scope():
            self.scale = count(START)
            self._good = count(0)  # updates in a row
            self._skipped = count(0)

    def update(self, finite: Any, apply: Callable[[], None], skip: Callable[[], None]) -> None:
        """Makes the update by `apply` where the gradient is finite, a bool scalar; where not, does what is due without
        it by `skip`; and adapts the scale. Part of a graph."""

        def keep():
            apply()
            is_due = self._good + 1 >= GOOD_UPDATES
            self.scale.assign(tf.where(is_due, tf.minimum(2 * self.scale, MOST), self.scale))
            self._good.assign(tf.where(is_due, 0, self._good + 1))
            return tf.constant(0)

        def leave_out():
            skip()
            self.scale.assign(tf.maximum(self.scale / 2, LEAST))
            self._good.assign(0)
            self._skipped.assign_add(1)
            return tf.constant(0)

        tf.cond(finite, keep, leave_out)

    @property
    def skipped(self) -> int:
        """The number of updates that were left out, since the run began."""
        return int(self._skipped)

    def state(self) -> dict[str, float]:
        """Returns what a checkpoint keeps."""
        return {"scale": float(self.scale), "good": int(self._good), "skipped": int(self._skipped)}

    def restore(self, state: Mapping[str, float]) -> None:
        """Takes the state of a checkpoint; an empty one belongs to a run that began in another precision."""
        self.scale.assign(state.get("scale", START))
        self._good.assign(int(state.get("good", 0)))
        self._skipped.assign(int(state.get("skipped", 0)))
