"""BPE-dropout against SentencePiece's own encoding, and against every way in which pairs can be left out."""

from collections import Counter

import numpy as np
import pytest

from qkv.text.lines.line import words_of
from qkv.text.tokens import bpe_dropout
from qkv.text.tokens.bpe_dropout import BPEDropout
from qkv.text.tokens.special_tokens import UNK
from tests.support.text import SENTENCES

PIECES = ["<pad>", "<unk>", "<s>", "</s>", "ab", "bc", "abc", "aba", "a", "b", "c"]
SCORES = [0.0, 0, 0, 0, 0, -1, -2, -3, -4, -5, -6]
DROPOUT = 0.3


def segmentations(ids, pairs, probability):
    """Every segmentation with its probability: SentencePiece's queue, with both outcomes for every pair taken.

    A pair is a place of its left symbol; it is left out once and for all, or merged.
    """
    known = {piece: token for token, piece in enumerate(PIECES)}
    offered = [
        (-SCORES[known[merged]], place)
        for place in pairs
        if (merged := PIECES[ids[place]] + PIECES[ids[place + 1]]) in known
    ]
    if not offered:
        return Counter({tuple(ids): probability})
    _, place = min(offered)
    found = segmentations(ids, [one for one in pairs if one != place], probability * DROPOUT)
    merged = [*ids[:place], known[PIECES[ids[place]] + PIECES[ids[place + 1]]], *ids[place + 2 :]]
    # Pairs on either side of the merged symbol are new ones.
    left = {one for one in pairs if one < place} | {place - 1, place} | {one - 1 for one in pairs if one > place}
    left = sorted(one for one in left if 0 <= one < len(merged) - 1)
    return found + segmentations(merged, left, probability * (1 - DROPOUT))


@pytest.mark.parametrize("word", ["abc", "ababc", "abcab"])
def test_words_are_segmented_as_often_as_all_ways_of_leaving_out_pairs_say(word):
    ids = [PIECES.index(character) for character in word]
    expected = segmentations(ids, list(range(len(ids) - 1)), 1.0)
    assert sum(expected.values()) == pytest.approx(1) and len(expected) > 3
    number = 20_000
    drawn = BPEDropout(PIECES, SCORES, DROPOUT).draw([word], np.zeros(number, int), np.random.default_rng(1))
    found = Counter(map(tuple, drawn))
    assert set(found) <= set(expected)
    for ids, probability in expected.items():
        deviation = np.sqrt(number * probability * (1 - probability))
        assert abs(found[ids] - number * probability) < 4.5 * deviation


@pytest.mark.parametrize("cells", [1, 64, bpe_dropout.CELLS])
def test_without_dropout_words_are_those_of_sentencepiece_however_many_are_merged_at_a_time(
    tokenizer, monkeypatch, cells
):
    monkeypatch.setattr(bpe_dropout, "CELLS", cells)
    words = ["▁" + word for sentence in SENTENCES for word in words_of(sentence)]
    sampler = BPEDropout(tokenizer.pieces(range(80)), tokenizer.scores, 0.0)
    order = np.random.default_rng(1).permutation(len(words))
    drawn = sampler.draw(words, order, np.random.default_rng(1))
    assert [ids.tolist() for ids in drawn] == tokenizer.encode([words[row][1:] for row in order])


def test_with_all_pairs_left_out_words_are_characters(tokenizer):
    sampler = BPEDropout(tokenizer.pieces(range(80)), tokenizer.scores, 1.0)
    (ids,) = sampler.draw(["▁the☃"], np.zeros(1, int), np.random.default_rng(1))
    assert tokenizer.pieces(ids[:-1]) == ["▁", "t", "h", "e"] and ids[-1] == UNK
