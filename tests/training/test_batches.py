"""The batches of training as tensors; for XLA in few shapes, with the same tokens."""

import numpy as np
import pytest
import tensorflow as tf

from qkv.text.batch_plan import coarse_lengths
from qkv.text.tokens.encoding import EncodedPairs
from qkv.text.tokens.special_tokens import PAD
from qkv.training.batches import TrainingBatches
from tests.support.text import sentences_of

LENGTHS = coarse_lengths(24)


def batches_of(lengths, length_multiple=1):
    source, target = np.random.default_rng(0).integers(1, 23, (2, 150))
    pairs = EncodedPairs(sentences_of(source), sentences_of(target, seed=1))
    settings = {"batch_tokens": 100, "length_multiple": length_multiple, "seed": 7}
    return TrainingBatches([pairs], tf.distribute.get_strategy(), **settings, lengths=lengths)


def rows_of(batches):
    """All pairs of an epoch, without padding, and the shapes of its batches."""
    pairs, shapes = [], set()
    for batch in batches.epoch(0):
        shapes |= {tuple(array.shape) for array in batch.ids}
        for source, target in zip(batch.source.numpy(), batch.target_output.numpy(), strict=True):
            pairs.append((source[source != PAD].tolist(), target[target != PAD].tolist()))
    return sorted(pairs), shapes


@pytest.mark.parametrize("length_multiple", [1, 8])
def test_batches_of_few_shapes_have_the_same_pairs_and_else_nothing(length_multiple):
    free, _ = rows_of(batches_of(None))
    padded, shapes = rows_of(batches_of(LENGTHS, length_multiple))
    assert [pair for pair in padded if pair != ([], [])] == free and len(free) == 150
    assert shapes <= {(100 // length, length) for length in LENGTHS}


def test_an_epoch_of_few_shapes_goes_on_from_any_batch():
    batches = batches_of(LENGTHS)
    whole = [batch.source.numpy() for batch in batches.epoch(0)]
    assert batches.plan(0).count == len(whole)
    for one, other in zip(whole[3:], batches.epoch(0, 3), strict=True):
        np.testing.assert_array_equal(one, other.source)
