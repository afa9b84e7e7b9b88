"""One update of gradient descent: forward pass, loss, backward pass, reduction over replicas, clipping, application.

The loss is summed over the target tokens of all replicas and divided by their number, so that every token counts the
same on whichever replica it is computed. `TrainStep.update` shows the whole update.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from ..errors import InputError
from ..runtime import compiled_programs
from ..runtime.devices import visible_gpus
from ..runtime.graphs import forget_gradients
from ..text.batch import Batch
from ..text.tokens.special_tokens import PAD
from .loss import TotalLoss
from .loss_scale import LossScale
from .optimizers import mean_and_clip
from .slices import Slices

# All lengths are free, so that no new length makes TensorFlow trace the graph again.
BATCH_SIGNATURE = Batch(*(tf.TensorSpec([None, None], tf.int32),) * 3)


class TrainStepMetrics(NamedTuple):
    """The metrics of an update: float32 scalars over all replicas; or of several updates, float32 `(updates,)`.

    - loss: the cross-entropy, summed over target tokens.
    - tokens: the number of target tokens.
    - gradient_norm: the norm of the mean gradient before clipping; 0 if the update was left out because a gradient
      overflowed in float16.
    """

    loss: Any
    tokens: Any
    gradient_norm: Any


@dataclass(eq=False)
class TrainStep:
    """The graph of an update: called with a `Batch`, it updates the model and returns `TrainStepMetrics`.

    Args:
        loss: the loss of the model.
        optimizer: an optimizer that was built for the model's variables in the strategy's scope.
        strategy: the strategy that holds the replicas.
        signature: a `Batch` of `tf.TensorSpec`. With several replicas or with links, pass
            `TrainingBatches.signature`.
        clip_norm: the maximum norm of the gradient over all variables; 0 for no limit.
        slices: number of slices of the batch that a device computes in parallel. Cores with a slice each wait for one
            another once per update instead of at every product.
        xla: if True, XLA compiles the update. For a single device only, and for batches of one shape: XLA compiles each
            shape again.

    Attributes:
        model: the model.
        replicas: the number of replicas.
        takes_several: True if `make_several` can be called.
        loss_scale: the `LossScale` in float16; None in other precisions.

    Raises:
        InputError: the model is in float16 and there are several devices, or `xla` is True and there are several
            devices.
    """

    loss: TotalLoss
    optimizer: keras.optimizers.Optimizer
    strategy: tf.distribute.Strategy
    signature: Batch = BATCH_SIGNATURE
    _: KW_ONLY
    clip_norm: float = 0.0
    slices: int = 1
    xla: bool = False
    _called: set[Callable] = field(default_factory=set, init=False)  # the graphs that XLA has compiled

    def __post_init__(self) -> None:
        self.model = self.loss.model
        self.replicas = self.strategy.num_replicas_in_sync
        is_half = self.model.dtype_policy.compute_dtype == "float16"
        if self.replicas > 1 and is_half:  # an optimizer cannot be applied within a condition there
            raise InputError(
                "training.precision: mixed_float16 on several devices cannot leave out an update; expected float32 or, "
                "from compute capability 8.0 on, mixed_bfloat16, or --run.devices 1"
            )
        if self.replicas > 1 and self.xla:
            raise InputError("training.xla: compiles for one device; expected --run.devices 1, or training.xla false")
        self.loss_scale = LossScale(self.strategy) if is_half else None
        self.takes_several = self.replicas == 1 and all(s.shape.is_fully_defined() for s in self.signature.arrays)
        self._slices = Slices(self.model, self.slices)
        # Without XLA, a GPU waits for each small operation on a weight or a gradient.
        self._joins = bool(visible_gpus()) and not self.xla
        self._traced: list[tf.Graph] = []
        self._update_graph = self.graph(
            lambda *tensors: self.update(self.signature.replace_arrays(tensors)), self.signature.arrays, self.xla
        )

    def __call__(self, batch: Batch) -> TrainStepMetrics:
        """Updates the model by a batch. With several replicas, the batch has values per replica."""
        return self.metrics_of(self.call_compiled(self._update_graph, batch.arrays))

    def make_several(self, batches: Sequence[Batch]) -> TrainStepMetrics:
        """Makes an update of each batch in a single call, so that Python is entered once for all of them.

        The updates and their metrics are those of calls with one batch each.

        Args:
            batches: batches of one shape, which the signature defines fully; for a single device.

        Returns:
            The metrics, float32 `(len(batches),)` each.
        """
        stacked = [np.stack(arrays) for arrays in zip(*(batch.arrays for batch in batches), strict=True)]
        return TrainStepMetrics(*self.call_compiled(self._several_graph, stacked))

    def update(
        self, batch: Batch | None, *, accumulate: Callable[[list[Any]], Any] | None = None, totals: Sequence[Any] = ()
    ) -> Any:
        """Makes one update of gradient descent. Every replica runs it as part of a graph.

        An update of several batches takes one call with `accumulate` for each batch, and a last one with `totals`.
        The *sums* of a batch are a list: the gradient of each trainable variable, the loss and the number of target
        tokens, all summed over target tokens. In float16 the gradients are multiplied by the loss scale.

        Args:
            batch: the replica's batch; None for the last call of an update of several batches.
            accumulate: takes the sums of the batch. The call ends there: it changes no weight.
            totals: the sums over all batches of the update, if `batch` is None.

        Returns:
            The `TrainStepMetrics` of the update; the result of `accumulate` if it is given.
        """
        variables = self.model.trainable_variables

        def compute_sums(rows: Batch) -> list[Any]:
            with tf.GradientTape() as tape, self._slices.cast_weights() if self._joins else nullcontext():
                loss, total_loss = self.loss(rows)  # forward pass and loss
                if self.loss_scale is not None:
                    total_loss = total_loss * self.loss_scale.scale
            gradients = tape.gradient(total_loss, variables)  # backward pass
            return [*_fill_gradients(gradients, variables), loss, _count_tokens(rows)]

        sums = list(totals) if batch is None else self._slices.sum(compute_sums, batch)
        if accumulate is not None:
            return accumulate(sums)
        if self.replicas > 1:  # one reduction of all sums: each reduction costs a round over the network
            sums = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, sums)
        *gradients, loss, tokens = sums
        if self.loss_scale is not None:
            gradients = [gradient / self.loss_scale.scale for gradient in gradients]
        gradients, norm = mean_and_clip(gradients, tokens, self.clip_norm, joined=self._joins)
        if self.loss_scale is not None:
            norm = self.loss_scale.apply_if_finite(self.optimizer, gradients, variables, norm)
        else:
            # No weight changes before all gradients are computed: memory may run out on the way.
            with tf.control_dependencies([norm] if self.replicas == 1 else []):
                self.optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return TrainStepMetrics(loss, tokens, norm)

    def metrics_of(self, metrics: TrainStepMetrics) -> TrainStepMetrics:
        """Returns the metrics as scalars.

        With several replicas, a graph returns metrics per replica. They are equal, so the first replica's are returned.
        """
        if self.replicas == 1:
            return metrics
        return TrainStepMetrics(*(self.strategy.experimental_local_results(value)[0] for value in metrics))

    def call_compiled(self, graph: Callable, tensors: Sequence[Any]) -> Any:
        """Calls a graph that XLA compiles at its first call if `xla` is True. The program is kept for later runs.

        Raises:
            InputError: XLA cannot compile the graph or cannot load the program that an earlier run has kept.
        """
        if not self.xla or graph in self._called:
            return graph(*tensors)
        with compiled_programs.keeping_programs():
            result = graph(*tensors)
        self._called.add(graph)
        return result

    @cached_property
    def _several_graph(self) -> Callable[..., Any]:
        """The graph of `make_several`. It takes the arrays of a batch with another axis before them, the updates."""
        shapes = [tf.TensorSpec([None, *spec.shape], spec.dtype) for spec in self.signature.arrays]

        def make_updates(*stacked):
            number = tf.shape(stacked[0])[0]

            def make_update(index, *written):
                metrics = self._update_graph(*(arrays[index] for arrays in stacked))
                return index + 1, *(array.write(index, value) for array, value in zip(written, metrics, strict=True))

            arrays = [tf.TensorArray(tf.float32, number, element_shape=()) for _ in TrainStepMetrics._fields]
            _, *arrays = tf.while_loop(
                lambda index, *_: index < number, make_update, (0, *arrays), parallel_iterations=1
            )
            return [array.stack() for array in arrays]

        return self.graph(make_updates, shapes)

    def graph(self, function: Callable, signature: Sequence[tf.TensorSpec], xla: bool = False) -> Callable:
        """Makes the graph of a function. When the graph is called, every replica runs the function.

        Args:
            function: takes tensors, and returns tensors or None.
            signature: the type and shape of each tensor.
            xla: if True, XLA compiles the graph.

        Returns:
            A `tf.function`. With several replicas it takes and returns values per replica.
        """

        def graph(*tensors):
            self._traced.append(tf.compat.v1.get_default_graph())
            return function(*tensors) if self.replicas == 1 else self.strategy.run(function, args=tensors)

        return tf.function(graph, input_signature=signature, autograph=False, jit_compile=xla or None)

    def forget_gradients(self) -> None:
        """Frees the memory that TensorFlow keeps for the step's graphs until the process ends.

        Call it once training has ended. The graphs cannot be differentiated afterwards.
        """
        while self._traced:
            forget_gradients(self._traced.pop())


def _fill_gradients(gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
    """Returns the gradients as dense tensors: sparse gradients are converted, and None becomes zeros.

    A gradient is None if the loss does not depend on its variable.
    """
    return [
        tf.zeros(variable.shape) if gradient is None else tf.convert_to_tensor(gradient)
        for gradient, variable in zip(gradients, variables, strict=True)
    ]


def _count_tokens(batch: Batch) -> tf.Tensor:
    """Returns the number of target tokens of a batch, padding excluded, as a float32 scalar."""
    return tf.reduce_sum(tf.cast(batch.target_output != PAD, tf.float32))
