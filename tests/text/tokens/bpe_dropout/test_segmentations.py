"""Segmentations that are drawn spell their text, and are settled by their seed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.text.tokens.bpe_dropout import BPEDropout, sample_segmentation
from qkv.text.tokens.encoding import encode_sentences
from tests.support.text import SENTENCES


@pytest.fixture
def sample(tokenizer):
    sampler = BPEDropout.of(tokenizer, 0.5)

    def draw(sentences, seed, longest=1000):
        usual = encode_sentences(sentences, tokenizer)
        drawn, _ = sample_segmentation(sentences, usual, sampler, seed, longest)
        return [[row.tolist() for row in rows] for rows in (drawn, usual)]

    return tokenizer, draw


def test_drawn_sentences_spell_the_same_text_in_more_pieces_settled_by_the_seed(sample):
    tokenizer, draw = sample
    sampled, usual = draw(SENTENCES, seed=1)
    assert tokenizer.decode(sampled) == SENTENCES
    assert sum(map(len, sampled)) > sum(map(len, usual))
    draw(SENTENCES, seed=3)
    assert draw(SENTENCES, seed=1)[0] == sampled != draw(SENTENCES, seed=2)[0]


def test_a_word_is_not_always_drawn_alike(sample):
    tokenizer, draw = sample
    (row,), _ = draw(["the cats " * 20], seed=1)
    words = " ".join(tokenizer.pieces(row)).split("▁")[1:]
    assert len(set(words)) > 2


def test_a_sampled_sentence_that_would_be_too_long_keeps_its_usual_pieces(sample):
    _, draw = sample
    sampled, usual = draw(SENTENCES, seed=1)
    longest = int(np.median([len(row) for row in sampled]))
    assert longest < max(map(len, sampled))
    expected = [one if len(one) <= longest else other for one, other in zip(sampled, usual, strict=True)]
    assert draw(SENTENCES, seed=1, longest=longest)[0] == expected


@given(sentences=st.lists(st.text("aehtß☃▁? ", max_size=12), min_size=1, max_size=4))
def test_without_dropout_any_text_has_the_tokens_of_sentencepiece(tokenizer, sentences):
    usual = encode_sentences(sentences, tokenizer)
    sampler = BPEDropout.of(tokenizer, 0.0)
    drawn, _ = sample_segmentation(sentences, usual, sampler, seed=1, longest=1000)
    assert [row.tolist() for row in drawn] == [row.tolist() for row in usual]
