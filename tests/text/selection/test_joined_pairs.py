"""Pairs that are drawn to be joined, against the lengths of every segmentation."""

import numpy as np

from qkv.text.selection import draw_joined_pairs
from qkv.text.tokens.encoding import EncodedPairs
from tests.support.text import sentences_of

LONGEST = (14, 11)


def segmentation(seed):
    source, target = np.random.default_rng(seed).integers(1, 10, (2, 200))
    return EncodedPairs(sentences_of(source), sentences_of(target, seed=1))


def test_pairs_that_fit_in_every_segmentation_are_joined_and_no_others():
    segmentations, kept = [segmentation(0), segmentation(1)], np.arange(0, 200, 2)
    everything = draw_joined_pairs(kept, segmentations, share=1.0, longest=(99, 99), seed=5)
    drawn = draw_joined_pairs(kept, segmentations, share=1.0, longest=LONGEST, seed=5)
    fitting = [
        (first, second)
        for first, second in everything.tolist()
        if all(
            len(side[first]) + len(side[second]) <= most
            for pairs in segmentations
            for side, most in zip(pairs.sides, LONGEST, strict=True)
        )
    ]
    assert drawn.tolist() == [list(pair) for pair in fitting]
    assert len(everything) == 100 and 10 < len(fitting) < 90 and not set(drawn.ravel()) - set(kept)


def test_drawing_keeps_no_lengths_of_a_large_text_in_memory():
    pairs = segmentation(0)
    assert len(draw_joined_pairs(np.arange(200), [pairs], share=0.0, longest=LONGEST, seed=5)) == 0
    assert draw_joined_pairs(np.arange(200), [pairs], share=0.1, longest=LONGEST, seed=5).shape[1] == 2
    assert not any("lengths" in vars(side) for side in pairs.sides)
