"""The batches of training, padded and prepared before the updates that need them."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Self

import numpy as np
import tensorflow as tf

from ..errors import InputError
from ..runtime.parallel import read_ahead
from ..text.batch import Batch, make_batch, make_packed_batch
from ..text.batch_plan import WINDOW_PAIRS, BatchPlan, EpochPlan, plan_batches, round_up
from ..text.corpora.mixture import Mixture
from ..text.packing import SAMPLE_PAIRS, choose_row_lengths, plan_packed_batches
from ..text.tokens.encoding import EncodedPairs

PREFETCHED = 4  # batches that are made in advance
ROWS_MARGIN = 0.001  # epochs differ in the number of rows that their pairs fill


@dataclass(frozen=True)
class PaddedRows:
    """Rows of one pair each. The rows of a batch are padded to its longest sentences.

    Args:
        batch_tokens, length_multiple: see `text.batch_plan.plan_batches`.
        longest: the length of the longest sentence with EOS, rounded up.
    """

    batch_tokens: int
    length_multiple: int
    longest: int

    shape = (None, None, None)  # rows, source length and target length are free

    @property
    def longest_row(self) -> tuple[int, int]:
        """The largest source length and target length of a row."""
        return self.longest, self.longest

    def plan(self, source_lengths: np.ndarray, target_lengths: np.ndarray, seeds: Sequence[int]) -> BatchPlan:
        """Plans the batches of pairs with these lengths; see `text.batch_plan.plan_batches`."""
        sizes = {"batch_tokens": self.batch_tokens, "length_multiple": self.length_multiple}
        return plan_batches(source_lengths, target_lengths, seeds=seeds, **sizes)

    def make(self, pairs: EncodedPairs, batch: np.ndarray, replica: int, replicas: int) -> Batch:
        """Makes a replica's share of a batch of the plan; see `text.batch.make_batch`."""
        return make_batch(pairs, batch, self.length_multiple, replica, replicas)


@dataclass(frozen=True)
class PackedRows:
    """Rows of several pairs each. All batches have the same shape.

    Args:
        rows: the number of rows in a batch, over all replicas. It does not depend on `replicas`, so that a run goes on
            with the same batches on other devices.
        longest_row: the source length and the target length of every row.
        replicas: the number of replicas.
    """

    rows: int
    longest_row: tuple[int, int]
    replicas: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """The number of rows in a replica's share of a batch, their source length and their target length."""
        return -(-self.rows // self.replicas), *self.longest_row

    @classmethod
    def choose(
        cls, segmentations: Sequence[EncodedPairs], mixture: Mixture | None, batch_tokens: int, replicas: int
    ) -> Self:
        """Chooses the shape of batches from the lengths of the pairs; see `text.packing.choose_row_lengths`.

        Batches have only as many rows as it takes to divide an epoch into the same number of nearly full batches.

        Args:
            segmentations, mixture: see `TrainingBatches`.
            batch_tokens: the maximum number of positions of either side of a batch. A batch has at least one row.
            replicas: the number of replicas.
        """
        source, target = segmentations[0].sides
        windows = 1 if mixture is None else -(-mixture.pairs // WINDOW_PAIRS)
        pairs = np.arange(len(source)) if mixture is None else mixture.rows(0, 0, windows)
        sample = pairs[:: max(-(-len(pairs) // SAMPLE_PAIRS), 1)]
        longest = [
            max(int(side.lengths.max(initial=0)) for side in sides)
            for sides in zip(*(p.sides for p in segmentations), strict=True)
        ]
        lengths, sampled_rows = choose_row_lengths(
            source.lengths_of(sample), target.lengths_of(sample), longest=(longest[0], longest[1]), most=batch_tokens
        )
        most = max(batch_tokens // max(lengths), 1)
        needed = (1 + ROWS_MARGIN) * sampled_rows * len(pairs) * windows / max(len(sample), 1)
        count = max(math.ceil(needed / most), 1)
        return cls(max(math.ceil(needed / count), 1), lengths, replicas)

    def plan(self, source_lengths: np.ndarray, target_lengths: np.ndarray, seeds: Sequence[int]) -> BatchPlan:
        """Plans the batches of pairs with these lengths; see `text.packing.plan_packed_batches`."""
        shape = self.rows, *self.longest_row
        return plan_packed_batches(source_lengths, target_lengths, seeds=seeds, shape=shape)

    def make(self, pairs: EncodedPairs, batch: np.ndarray, replica: int, replicas: int) -> Batch:
        """Makes a replica's share of a batch of the plan; see `text.batch.make_packed_batch`."""
        return make_packed_batch(pairs, batch, self.shape, replica, replicas)


@dataclass(eq=False)
class TrainingBatches:
    """The batches of every epoch, divided among the replicas.

    Args:
        segmentations: the encoded training pairs in one or more segmentations into subwords. The epochs use them in
            turn.
        strategy: the strategy that holds the replicas.
        batch_tokens: the maximum number of positions of either side of a batch, padding included.
        length_multiple: padded lengths are multiples of this; it is ignored if the batches are packed.
        seed, mixture: see `text.batch_plan.EpochPlan`.
        accumulated: number of batches of an update. The last update of an epoch may have fewer.
        packed: if True, rows have several pairs each, and all batches have the same shape.

    Attributes:
        rows: plans and makes the batches: `PackedRows` or `PaddedRows`.
    """

    segmentations: Sequence[EncodedPairs]
    strategy: tf.distribute.Strategy
    _: KW_ONLY
    batch_tokens: int
    length_multiple: int
    seed: int
    accumulated: int = 1
    mixture: Mixture | None = None
    packed: bool = False

    def __post_init__(self) -> None:
        self.rows: PaddedRows | PackedRows
        if self.packed:
            replicas = self.strategy.num_replicas_in_sync
            self.rows = PackedRows.choose(self.segmentations, self.mixture, self.batch_tokens, replicas)
        else:
            longest = max(int(side.lengths.max(initial=0)) for pairs in self.segmentations for side in pairs.sides)
            longest = int(round_up(longest + 1, self.length_multiple))
            self.rows = PaddedRows(self.batch_tokens, self.length_multiple, longest)
        self._planned: tuple[int, EpochPlan] | None = None

    def updates(self, epoch: int) -> int:
        """Returns the number of updates of an epoch."""
        return -(-self.plan(epoch).count // self.accumulated)

    def plan(self, epoch: int) -> EpochPlan:
        """Returns the plan of an epoch, which lists the sentences of each batch.

        The last plan is cached: it is needed several times, and takes seconds for a large corpus.
        """
        if self._planned is None or self._planned[0] != epoch:
            plan = EpochPlan(self.pairs(epoch), self.rows.plan, seed=self.seed, epoch=epoch, mixture=self.mixture)
            self._planned = epoch, plan
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
        pairs = self.pairs(epoch)
        if self.strategy.num_replicas_in_sync > 1:
            dataset = self._dataset(pairs, lambda: plan.batches(first_batch))
            return map(self.share_signature.replace_arrays, dataset)
        # A dataset of TensorFlow would take half a millisecond for each batch.
        return read_ahead((_to_tensors(self.make(pairs, batch)) for batch in plan.batches(first_batch)), PREFETCHED)

    @property
    def signature(self) -> Batch:
        """A `Batch` with the `tf.TensorSpec` of each tensor, of one replica or all.

        The lengths of padded batches are free: a new length retraces no graph. Packed batches have one shape.
        """
        if self.strategy.num_replicas_in_sync == 1:
            return self.share_signature
        return self.share_signature.replace_arrays(self._dataset(self.segmentations[0], lambda: iter(())).element_spec)

    @property
    def share_signature(self) -> Batch:
        """A `Batch` with the `tf.TensorSpec` of each tensor of one replica's share."""
        rows, source, target = self.rows.shape
        source_ids, target_ids = (tf.TensorSpec((rows, length), tf.int32) for length in (source, target))
        links = tf.TensorSpec((rows, target, source), tf.bool) if self.segmentations[0].links is not None else None
        segments = (source_ids, target_ids) if self.packed else ()
        return Batch(source_ids, target_ids, target_ids, links, *segments)

    def make(self, pairs: EncodedPairs, batch: np.ndarray, replica: int = 0) -> Batch:
        """Makes one replica's share of a batch.

        Args:
            pairs: the encoded pairs.
            batch: the whole batch of the plan, over all replicas.
            replica: the index of the replica, from 0.

        Returns:
            The share as NumPy arrays, with padding.
        """
        return self.rows.make(pairs, batch, replica, self.strategy.num_replicas_in_sync)

    def pairs(self, epoch: int) -> EncodedPairs:
        """Returns the encoded pairs in the segmentation that an epoch uses."""
        return self.segmentations[epoch % len(self.segmentations)]

    def _dataset(
        self, pairs: EncodedPairs, batches: Callable[[], Iterator[np.ndarray]]
    ) -> tf.distribute.DistributedDataset:
        """Returns a dataset of batches, divided among several replicas.

        Args:
            pairs: the encoded pairs.
            batches: returns an iterator over the batches of a plan.
        """
        replicas = self.strategy.num_replicas_in_sync
        signature = self.share_signature.arrays  # datasets take no None

        def dataset(context: tf.distribute.InputContext) -> tf.data.Dataset:
            # Each machine makes the shares of its replicas.
            pipeline = context.input_pipeline_id
            local = replicas // context.num_input_pipelines

            def shares() -> Iterator[tuple[np.ndarray, ...]]:
                for batch in batches():
                    for replica in range(pipeline * local, (pipeline + 1) * local):
                        yield self.make(pairs, batch, replica).arrays

            options = tf.data.Options()
            # Autotuning is off: there is nothing to tune, and the end of an epoch would wait for its thread, which
            # sleeps for up to a minute.
            options.autotune.enabled = False
            return (
                tf.data.Dataset.from_generator(shares, output_signature=signature)
                .prefetch(PREFETCHED)
                .with_options(options)
            )

        return self.strategy.distribute_datasets_from_function(dataset)


def _to_tensors(batch: Batch) -> Batch:
    """Returns a batch of arrays as tensors in the memory of the processor."""
    with tf.device("CPU:0"):
        return batch.map(tf.constant)
