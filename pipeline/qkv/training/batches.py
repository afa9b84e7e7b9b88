"""The batches of training, padded and prepared before the updates that need them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np
import tensorflow as tf

from ..errors import InputError
from ..text.batch import Batch, make_batch, pad_batch
from ..text.batch_plan import EpochPlan
from ..text.corpora.mixture import Mixture
from ..text.tokens.encoding import EncodedPairs

PREFETCHED = 4  # batches that are made in advance: a batch takes a few milliseconds, an update a hundred times as long


@dataclass(eq=False)
class TrainingBatches:
    """The batches of every epoch, divided among the replicas.

    Args:
        segmentations: the encoded training pairs in one or more segmentations into subwords. The epochs use them in
            turn.
        strategy: the strategy that holds the replicas.
        batch_tokens, length_multiple, seed: see `text.batch_plan.EpochPlan`.
        accumulated: number of batches of an update. The last update of an epoch may have fewer.
        mixture: see `text.batch_plan.EpochPlan`.
        lengths: the lengths to which both sides of a batch are padded, so that there are few shapes; see
            `text.batch_plan.plan_batches`. None pads to multiples of `length_multiple`.
    """

    segmentations: Sequence[EncodedPairs]
    strategy: tf.distribute.Strategy
    _: KW_ONLY
    batch_tokens: int
    length_multiple: int
    seed: int
    accumulated: int = 1
    mixture: Mixture | None = None
    lengths: Sequence[int] | None = None

    def __post_init__(self) -> None:
        if self.lengths is not None:
            self.length_multiple = 1  # or a side may outgrow its length
        self._planned: tuple[int, EpochPlan] | None = None

    def updates(self, epoch: int) -> int:
        """Returns the number of updates of an epoch."""
        return -(-self.plan(epoch).count // self.accumulated)

    def plan(self, epoch: int) -> EpochPlan:
        """Returns the plan of an epoch, which lists the sentences of each batch.

        The last plan is cached: it is needed several times, and takes seconds for a large corpus.
        """
        if self._planned is None or self._planned[0] != epoch:
            names = ("batch_tokens", "length_multiple", "seed", "mixture", "lengths")
            settings = {name: getattr(self, name) for name in names}
            self._planned = epoch, EpochPlan(self.pairs(epoch), epoch=epoch, **settings)
        return self._planned[1]

    def epoch(self, epoch: int, first_batch: int = 0) -> Iterator[Batch]:
        """Returns an iterator over the batches of an epoch.

        A batch has tensors; with several replicas, it has values per replica.

        Args:
            epoch: the number of the epoch, from 0.
            first_batch: the number of batches at the start of the epoch to leave out.

        Raises:
            InputError: the epoch does not have more than `first_batch` batches, so the checkpoint belongs to another
                text.
        """
        plan = self.plan(epoch)
        if first_batch and first_batch >= plan.count:
            raise InputError(
                f"the checkpoint was made after {first_batch:,} batches of an epoch, which has {plan.count:,}; it is "
                "of another run: restore a checkpoint of this run"
            )
        dataset = self._dataset(self.pairs(epoch), lambda: plan.batches(first_batch))
        return (Batch(*tensors) for tensors in dataset)

    @property
    def signature(self) -> Batch:
        """A `Batch` with the `tf.TensorSpec` of each tensor. All lengths are free: a new length retraces no graph."""
        return Batch(*self._dataset(self.segmentations[0], lambda: iter(())).element_spec)

    def make(self, pairs: EncodedPairs, rows: np.ndarray, replica: int = 0) -> Batch:
        """Makes one replica's share of a batch.

        Args:
            pairs: the encoded pairs.
            rows: the indices in `pairs` of all pairs of the batch, over all replicas.
            replica: the index of the replica, from 0.

        Returns:
            The share as NumPy arrays, with padding.
        """
        replicas = self.strategy.num_replicas_in_sync
        batch = make_batch(pairs, rows, self.length_multiple, replica, replicas)
        return batch if self.lengths is None else pad_batch(batch, self.lengths, self.batch_tokens, replicas)

    def pairs(self, epoch: int) -> EncodedPairs:
        """Returns the encoded pairs in the segmentation that an epoch uses."""
        return self.segmentations[epoch % len(self.segmentations)]

    def _dataset(
        self, pairs: EncodedPairs, batches: Callable[[], Iterator[np.ndarray]]
    ) -> tf.data.Dataset | tf.distribute.DistributedDataset:
        """Returns a dataset of batches. With several replicas it is a distributed dataset.

        Args:
            pairs: the encoded pairs.
            batches: returns an iterator over the batches: the indices in `pairs` of the pairs of each batch.
        """
        replicas = self.strategy.num_replicas_in_sync
        signature: tuple[tf.TensorSpec, ...] = (tf.TensorSpec((None, None), tf.int32),) * 3
        if pairs.links is not None:  # a tuple of three otherwise: datasets take no None
            signature = (*signature, tf.TensorSpec((None, None, None), tf.bool))

        def dataset(context: tf.distribute.InputContext | None = None) -> tf.data.Dataset:
            # Each machine makes the shares of its replicas.
            pipeline = context.input_pipeline_id if context else 0
            pipelines = context.num_input_pipelines if context else 1
            local = replicas // pipelines

            def shares() -> Iterator[tuple[np.ndarray, ...]]:
                for rows in batches():
                    for replica in range(pipeline * local, (pipeline + 1) * local):
                        yield self.make(pairs, rows, replica).arrays

            options = tf.data.Options()
            # Autotuning is off: there is nothing to tune, and the end of an epoch would wait for its thread, which
            # sleeps for up to a minute.
            options.autotune.enabled = False
            return (
                tf.data.Dataset.from_generator(shares, output_signature=signature)
                .prefetch(PREFETCHED)
                .with_options(options)
            )

        return dataset() if replicas == 1 else self.strategy.distribute_datasets_from_function(dataset)
