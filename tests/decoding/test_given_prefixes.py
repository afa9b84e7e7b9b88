"""Targets that begin with given tokens: brute force, every search and architecture, mixed lengths in one batch."""

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from qkv.config.decoding import DecodingSettings
from qkv.decoding.beam import BeamSettings, beam_search
from qkv.decoding.build import build_search
from qkv.decoding.translator import Translator
from qkv.text.batch import pad
from qkv.text.tokens.special_tokens import BOS, EOS, PAD
from tests.support.searches import (
    LETTERS,
    SEARCHES,
    V,
    brute_force,
    chains,
    forced_scores,
    log_probabilities,
    next_of_chain,
    normalized,
    words,
)
from tests.support.searches import MOST_LETTERS as LONGEST
from tests.support.searches import MOST_TOKENS as L
from tests.support.text import SENTENCES
from tests.support.tiny_models import SOURCE, model_of


def beginning_with(prefix):
    return lambda tokens: tokens[: len(prefix)] == prefix


def test_a_wide_beam_finds_the_best_of_all_targets_that_begin_so():
    a, b, c = LETTERS[:3]
    prefixes = [[], [a], [c, b], [b, b, a], [a, a]]
    settings, chain = BeamSettings(size=150, best=3, length_penalty=0.6, no_repeat_ngram=0), chains(len(prefixes))
    state = (ops.zeros((len(prefixes), LONGEST), "int32"), ops.zeros((), "int32"))
    most = np.full(len(prefixes), LONGEST, "int32")
    hypotheses = beam_search(next_of_chain, chain, state, most, LONGEST, settings, prefix=pad(prefixes, LONGEST))
    for sentence, prefix in enumerate(prefixes):
        expected = brute_force(chain[sentence], settings, allowed=beginning_with(prefix))[:3]
        assert len(expected) == 3 or len(prefix) == 3
        ended = [words(row) for row in np.asarray(hypotheses.ids[sentence]) if EOS in row][: len(expected)]
        assert ended == [tokens for _, tokens in expected]
        scores = [score for score, _ in expected]
        np.testing.assert_allclose(np.asarray(hypotheses.scores[sentence])[: len(scores)], scores, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("transformer", "sampling"),
        ("luong", "greedy"),
        pytest.param("recurrent", "beam", marks=pytest.mark.minutes),
        pytest.param("decoder-only", "beam with penalties", marks=pytest.mark.minutes),
    ],
)
def test_every_search_goes_on_from_the_prefix_with_the_log_probabilities_of_the_model(name, how):
    model = model_of(name)
    prefixes = [[7, 7, 7, 7], [], [5, 9]][: len(SOURCE)]  # what repeats is given, not searched

    search = build_search(SEARCHES[how], seed=1)
    signature = (
        tf.TensorSpec([None, None], tf.int32),
        tf.TensorSpec([None], tf.int32),
        tf.TensorSpec([None, L], tf.int32),
    )

    @tf.function(input_signature=signature, autograph=False)
    def search_from(source, most, prefix):
        return search(model, model.encode(source, training=False)._replace(self_attention=()), most, L, prefix)

    def run(rows):
        hypotheses = search_from(SOURCE[rows], np.full(len(rows), L, "int32"), pad([prefixes[row] for row in rows], L))
        return type(hypotheses)(*(x.numpy() for x in hypotheses))

    hypotheses = run([*range(len(SOURCE))])
    expected = forced_scores(model, hypotheses.ids)
    for row, prefix in enumerate(prefixes):
        for ids, scores, forced in zip(
            hypotheses.ids[row], hypotheses.log_probabilities[row], expected[row], strict=True
        ):
            tokens = words(ids)
            assert beginning_with(prefix)(tokens) and not {PAD, BOS} & set(tokens)
            np.testing.assert_allclose(scores[: len(tokens)], forced[: len(tokens)], atol=2e-4)
        if how != "sampling":  # draws depend on the batch
            alone = run([row])
            np.testing.assert_array_equal(alone.ids[0], hypotheses.ids[row])
            np.testing.assert_allclose(alone.scores[0], hypotheses.scores[row], atol=1e-5)


def test_a_translation_that_begins_like_the_one_that_is_found_is_the_same(transformer, tokenizer):
    search = build_search(DecodingSettings(beam_size=1), seed=1)
    translator = Translator(transformer, tokenizer, search=search, max_positions=24, batch_sentences=3)
    sources = tokenizer.encode([*SENTENCES[:4], ""])
    free = [best for best, *_ in translator.translate_ids(sources)]
    prefixes = [free_translation.ids[: 2 * row] for row, free_translation in enumerate(free[:4])]
    for free_translation, prefix, (translation, *_) in zip(
        free, prefixes, translator.translate_ids(sources[:4], prefixes), strict=False
    ):
        assert (translation.ids, translation.text, translation.prefix_tokens) == (
            free_translation.ids,
            free_translation.text,
            len(prefix),
        )
        np.testing.assert_allclose(translation.log_probabilities, free_translation.log_probabilities, atol=1e-6)
    ((empty, *_),) = translator.translate_ids([[]], [[9, 8]])
    assert empty.ids[:2] == [9, 8] and len(empty.ids) > 2


def test_a_long_prefix_leaves_room_to_go_on(transformer, tokenizer):
    translator = Translator(transformer, tokenizer, max_positions=24, max_target_ratio=0.0, max_target_extra=3)
    short, long = ([9] * length for length in (4, 23))
    ((short_translation, *_), (long_translation, *_)) = translator.translate_ids([[5], [5]], [short, long])
    assert short_translation.ids[:4] == short and 5 <= len(short_translation.ids) <= 7
    assert long_translation.ids[:23] == long and len(long_translation.ids) == 24


def test_a_given_token_keeps_the_models_own_log_probability_of_it_also_with_renormalized_scores():
    chain = normalized(np.random.default_rng(5).normal(size=(1, V, V)))  # PAD and BOS have a part of the probability
    state = (ops.zeros((1, LONGEST), "int32"), ops.zeros((), "int32"))
    given = [LETTERS[1], LETTERS[0], LETTERS[1]]
    settings = BeamSettings(size=2, length_penalty=0.0, renormalize=True, force_eos=True)
    most = np.array([len(given) + 1], "int32")
    hypotheses = beam_search(next_of_chain, chain, state, most, LONGEST, settings, prefix=pad([given], LONGEST))
    assert words(hypotheses.ids[0, 0]) == [*given, EOS]  # EOS, which is forced too, has probability 1
    expected = sum(log_probabilities(chain[0], given))
    np.testing.assert_allclose(hypotheses.scores[0, 0], expected, rtol=1e-5)
