"""Sampling from a unigram model against the probabilities of all segmentations of a word."""

from collections import Counter

import numpy as np
import pytest

from qkv.text.tokenizer import UNK
from qkv.text.unigram_sampling import UnigramSampling

PIECES = ["<pad>", "<unk>", "<s>", "</s>", "a", "b", "ab", "ba", "aba"]
SCORES = np.array([0, 0, 0, 0, -2.0, -2.5, -3.0, -3.5, -4.0])
UNKNOWN = -14.0


def segmentations(word, scores):
    if not word:
        return {(): 0.0}
    found = {}
    for length in range(1, len(word) + 1):
        piece = word[:length]
        if piece in PIECES or length == 1:
            token = PIECES.index(piece) if piece in PIECES else UNK
            score = scores[token] if token != UNK else UNKNOWN
            found |= {(token, *rest): score + more for rest, more in segmentations(word[length:], scores).items()}
    return found


@pytest.mark.parametrize("alpha", [0.1, 1.0, 2.0])
def test_words_are_segmented_by_their_probability(alpha):
    words = ["abab", "a?ba", "b"]
    number = 20_000
    index = np.tile([0, 1, 2], number)
    drawn = UnigramSampling(PIECES, SCORES.tolist(), alpha).draw(words, index, np.random.default_rng(1))
    for which, word in enumerate(words):
        scores = segmentations(word, SCORES)
        weights = np.exp(alpha * np.array(list(scores.values())))
        expected = dict(zip(scores, weights / weights.sum(), strict=True))
        found = Counter(tuple(ids.tolist()) for ids in drawn[which::3])
        assert set(found) <= set(expected) and sum(found.values()) == number
        for ids, probability in expected.items():
            deviation = np.sqrt(number * probability * (1 - probability))
            assert abs(found[ids] - number * probability) <= 4.5 * deviation


def test_a_large_power_draws_the_likeliest_segmentation(tokenizers):
    tokenizer = tokenizers["unigram"]
    words = ["▁the", "▁cat", "▁dort"]
    sampler = UnigramSampling(tokenizer.pieces(range(tokenizer.vocabulary_size)), tokenizer.scores, 1000.0)
    drawn = sampler.draw(words, np.array([2, 0, 1, 2]), np.random.default_rng(1))
    assert [ids.tolist() for ids in drawn] == tokenizer.encode(["dort", "the", "cat", "dort"])
