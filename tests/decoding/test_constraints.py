"""What the constraints on the next token allow, against definitions in plain Python."""

import numpy as np
import pytest
import tensorflow as tf

from qkv.decoding.constraints import ban_early_end, ban_repeated_ngrams, ban_special_tokens, force_end, force_tokens
from qkv.text.tokens.special_tokens import BOS, EOS, PAD

ROWS, LENGTH, VOCABULARY = 4, 7, 8
generator = np.random.default_rng(3)
SCORES = generator.normal(size=(ROWS, VOCABULARY)).astype("float32")


def allowed(scores):
    """Which tokens of each row are allowed; the scores of those are as they were."""
    allowed_scores = np.array(scores)
    np.testing.assert_array_equal(allowed_scores[np.isfinite(allowed_scores)], SCORES[np.isfinite(allowed_scores)])
    return [set(np.flatnonzero(np.isfinite(row)).tolist()) for row in allowed_scores]


def repeats(tokens, n):
    """The tokens that would make the last n of a sequence equal to n that it has already."""
    seen = {tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)}
    return {token for token in range(VOCABULARY) if n and tuple([*tokens, token][-n:]) in seen}


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("step", range(LENGTH))
def test_no_token_is_allowed_that_would_repeat_an_ngram(n, step):
    ids = np.zeros((ROWS, LENGTH), "int32")
    ids[:, :step] = generator.choice([4, 5, 6], (ROWS, step), p=[0.6, 0.3, 0.1])  # so that n-grams come again
    graph = tf.function(lambda scores, ids, step: ban_repeated_ngrams(scores, ids, step, n), autograph=False)
    expected = [set(range(VOCABULARY)) - repeats(row[:step].tolist(), n) for row in ids]
    assert allowed(graph(SCORES, ids, tf.constant(step))) == expected


def test_pad_and_bos_are_banned():
    assert allowed(ban_special_tokens(SCORES)) == [set(range(VOCABULARY)) - {PAD, BOS}] * ROWS


@pytest.mark.parametrize("step", range(4))
def test_eos_is_banned_until_there_are_enough_tokens(step):
    early = {EOS} if step < 2 else set()
    assert allowed(ban_early_end(SCORES, step, 2)) == [set(range(VOCABULARY)) - early] * ROWS
    assert allowed(ban_early_end(SCORES, step, 0)) == [set(range(VOCABULARY))] * ROWS


def test_eos_alone_is_allowed_and_certain_in_rows_that_may_have_one_more_token():
    forced = np.array(force_end(SCORES, np.array([True, False, True, False])))
    np.testing.assert_array_equal(forced[1::2], SCORES[1::2])
    assert (forced[::2, EOS] == 0).all()
    assert np.isinf(np.delete(forced[::2], EOS, axis=1)).all()


def test_a_given_token_alone_is_allowed_also_where_it_was_banned():
    banned = np.where(np.arange(VOCABULARY) == 5, -np.inf, SCORES).astype("float32")
    forced = force_tokens(banned, SCORES, np.array([5, PAD, 6, PAD]))
    every = set(range(VOCABULARY))
    assert allowed(forced) == [{5}, every - {5}, {6}, every - {5}]
