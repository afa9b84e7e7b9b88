"""The batches of training as tensors: padded and packed ones hold the same pairs; epochs go on from any batch."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from qkv.text.corpora.mixture import Mixture
from qkv.text.tokens.encoding import EncodedPairs, EncodedSentences
from qkv.training.batches import TrainingBatches
from tests.support.text import sentences_of

PAIRS = 150
SETTINGS = {"batch_tokens": 100, "length_multiple": 4, "seed": 7}


def segmentation(seed=0, linked=False):
    source, target = np.random.default_rng(seed).integers(1, [[20], [28]], (2, PAIRS))
    links = None
    if linked:
        links = EncodedSentences.from_rows(
            [[s // 2, t // 3, s - 1, t - 1] for s, t in zip(source, target, strict=True)]
        )
    return EncodedPairs(sentences_of(source), sentences_of(target, seed=1), links)


def make(packed=True, segmentations=None, **more):
    segmentations = segmentations or [segmentation()]
    return TrainingBatches(segmentations, tf.distribute.get_strategy(), **SETTINGS | more, packed=packed)


def pairs_of(batches, epoch=0):
    """All pairs of an epoch as lists of ids, and the links of each, by a loop over tokens."""
    pairs = []
    for batch in batches.epoch(epoch):
        batch = batch.map(np.array)
        if batch.source_segments is None:
            batch = batch._replace(source_segments=batch.source > 0, target_segments=batch.target_output > 0)
        for row in range(len(batch.source)):
            for number in range(1, batch.source_segments[row].max() + 1):
                sources = np.flatnonzero(batch.source_segments[row] == number)
                targets = np.flatnonzero(batch.target_segments[row] == number)
                links = [] if batch.links is None else np.argwhere(batch.links[row][np.ix_(targets, sources)]).tolist()
                ids = (batch.source[row, sources], batch.target_input[row, targets], batch.target_output[row, targets])
                pairs.append((*(side.tolist() for side in ids), links))
    return sorted(pairs)


@pytest.mark.parametrize("linked", [False, True])
def test_packed_batches_have_the_pairs_of_padded_ones_and_their_links(linked):
    segmentations = [segmentation(linked=linked)]
    padded = pairs_of(make(packed=False, segmentations=segmentations))
    packed = pairs_of(make(segmentations=segmentations))
    assert packed == padded and len(padded) == PAIRS
    assert any(links for *_, links in packed) == linked


@pytest.mark.parametrize("linked", [False, True])
def test_all_packed_batches_have_the_shape_of_the_signature(linked):
    batches = make(segmentations=[segmentation(linked=linked)])
    signature = batches.signature
    rows, source, target = batches.rows.shape
    assert rows * max(source, target) <= 100 and target > source
    assert (signature.links is not None) == linked
    for batch in batches.epoch(0):
        for array, spec in zip(batch.arrays, signature.arrays, strict=True):
            assert spec.is_compatible_with(array) and None not in spec.shape


def test_links_join_tokens_of_one_pair_only():
    for batch in make(segmentations=[segmentation(linked=True)]).epoch(0):
        rows, target, source = np.nonzero(np.array(batch.links))
        segments = np.array(batch.target_segments)[rows, target], np.array(batch.source_segments)[rows, source]
        np.testing.assert_array_equal(*segments)
        assert segments[0].all()


@pytest.mark.parametrize("packed", [False, True])
def test_an_epoch_goes_on_from_any_batch(packed):
    batches = make(packed)
    whole = [batch.map(np.array) for batch in batches.epoch(1)]
    assert batches.plan(1).count == len(whole) > 4
    for one, other in zip(whole[3:], make(packed).epoch(1, 3), strict=True):
        np.testing.assert_equal(one.arrays, tuple(map(np.array, other.arrays)))


@pytest.mark.parametrize("packed", [False, True])
def test_the_padding_share_is_that_of_the_arrays(packed):
    batches = make(packed)
    sides = [np.array(ids) for batch in batches.epoch(0) for ids in (batch.source, batch.target_output)]
    padding = sum((ids == 0).sum() for ids in sides) / sum(ids.size for ids in sides)
    assert batches.plan(0).padding_share == pytest.approx(padding)


@pytest.mark.parametrize("batch_tokens", [100, 700, 1500, 100_000])
def test_batches_are_nearly_full_though_an_epoch_is_no_multiple_of_their_size(batch_tokens):
    batches = make(batch_tokens=batch_tokens)
    rows, *lengths = batches.rows.shape
    assert rows * max(lengths) <= batch_tokens
    for epoch in range(3):
        plan = batches.plan(epoch)
        assert plan.padding_share < 0.15  # 150 pairs fill some 20 rows
        used = sum(len(batch) for batch in plan.batches())
        assert plan.count - math.ceil(used / (batch_tokens // max(lengths))) in (0, 1)  # as of batches that are full


def test_segmentations_of_other_lengths_have_the_same_shape():
    batches = make(segmentations=[segmentation(), segmentation(seed=5)])
    shapes = [{batch.source.shape for batch in batches.epoch(epoch)} for epoch in range(3)]
    assert shapes[0] == shapes[1] == shapes[2] and len(shapes[0]) == 1
    assert pairs_of(batches, 0) == pairs_of(batches, 2) != pairs_of(batches, 1)


def test_packed_epochs_have_the_shares_of_a_mixture():
    mixture = Mixture([[(0, 50)], [(50, PAIRS)]], [0.5, 0.5], seed=1)
    batches = make(mixture=mixture)
    numbers = np.concatenate([batch[batch >= 0] for batch in batches.plan(0).batches()])
    assert sorted(numbers) == sorted(mixture.rows(0))
    assert len(pairs_of(batches)) == mixture.pairs == PAIRS


@pytest.mark.parametrize("replicas", [2, 3])
@pytest.mark.parametrize("batch_tokens", [40, 100, 250])
def test_replicas_get_as_many_rows_each_and_all_pairs_together(replicas, batch_tokens):
    batches = make(batch_tokens=batch_tokens)
    shared = TrainingBatches(
        batches.segmentations,
        SimpleNamespace(num_replicas_in_sync=replicas),
        **SETTINGS | {"batch_tokens": batch_tokens},
        packed=True,
    )
    sources, shapes = [], set()
    # A run that goes on with another number of devices has the same batches.
    for batch, of_one_device in zip(shared.plan(0).batches(), batches.plan(0).batches(), strict=True):
        np.testing.assert_array_equal(batch, of_one_device)
        shares = [shared.make(batches.pairs(0), batch, replica) for replica in range(replicas)]
        shapes |= {array.shape for share in shares for array in (share.source, share.target_output)}
        numbers = [int(share.source_segments.max(1).sum()) for share in shares]
        assert sum(numbers) == (batch >= 0).sum()
        sources += [share.source[share.source > 0] for share in shares]
    rows, source, target = shared.rows.shape
    assert shapes == {(rows, source), (rows, target)}
    assert rows == -(-shared.rows.rows // replicas)
    assert shared.rows.rows == 1 or shared.rows.rows * max(source, target) <= batch_tokens
    whole = [batch.source.numpy()[batch.source.numpy() > 0] for batch in batches.epoch(0)]
    np.testing.assert_array_equal(np.sort(np.concatenate(sources)), np.sort(np.concatenate(whole)))
