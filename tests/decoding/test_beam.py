"""Beam search, held against brute force on a tiny vocabulary, greedy search, and full passes of every model."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from qkv.decoding.beam import BeamSettings, beam_search
from qkv.decoding.search import TOP_K_CHUNK, log_sum_exp, top_k_of_many
from qkv.model.interface import rows_for_each
from qkv.text.tokens.special_tokens import BOS, EOS, PAD
from tests.support.searches import (
    LETTERS,
    MOST_LETTERS,
    V,
    brute_force,
    chains,
    greedily,
    log_probabilities,
    next_of_chain,
    normalized,
    words,
)
from tests.support.tiny_models import SOURCE, model_of


def in_graph(function, *arguments):
    """A function of tensors as a graph that knows nothing of the batch's size, nor of a source's length."""
    signature = [
        tf.TensorSpec([None, None] if argument.ndim == 2 else [None, *argument.shape[1:]], argument.dtype)
        for argument in arguments
    ]
    return tf.function(function, input_signature=signature, autograph=False)


HOWS = {"eagerly": lambda function, *arguments: function, "in a graph": in_graph}


@functools.cache
def searcher(settings, length, how, coverage):
    """The search as a function of chains and longest lengths; a graph is traced once for all batches."""

    def run(chain, most):
        histories = ops.zeros((ops.shape(chain)[0], length), "int32")
        state = (histories, ops.zeros((), "int32"))
        return beam_search(next_of_chain, chain, state, most, length, settings, coverage=coverage)

    return HOWS[how](run, chains(1), np.ones(1, "int32"))


def search(chain, settings, max_lengths=None, length=MOST_LETTERS, how="in a graph", coverage=None):
    most = np.array(max_lengths or [length] * len(chain), "int32")
    hypotheses = searcher(settings, length, how, coverage)(chain, most)
    return type(hypotheses)(*map(np.asarray, hypotheses))


@pytest.mark.parametrize(("alpha", "how"), [(0.0, "in a graph"), (2.0, "in a graph"), (0.6, "eagerly")])
def test_a_beam_as_wide_as_the_space_finds_the_best_of_all_hypotheses(alpha, how):
    settings = BeamSettings(size=150, best=5, length_penalty=alpha)
    chain = chains(3)
    hypotheses = search(chain, settings, how=how)
    for sentence in range(3):
        expected = brute_force(chain[sentence], settings)[:5]
        np.testing.assert_allclose(hypotheses.scores[sentence], [score for score, _ in expected], rtol=1e-5)
        assert [words(row) for row in hypotheses.ids[sentence]] == [tokens for _, tokens in expected]
        for ids, scores in zip(hypotheses.ids[sentence], hypotheses.log_probabilities[sentence], strict=True):
            tokens = words(ids)
            np.testing.assert_allclose(scores[: len(tokens)], log_probabilities(chain[sentence], tokens), rtol=1e-4)
            assert not scores[len(tokens) :].any()


@pytest.mark.parametrize("how", HOWS)
def test_a_beam_of_one_is_greedy_search(how):
    chain = chains(20, seed=1)
    most = [*range(1, 9)] * 2 + [8] * 4
    hypotheses = search(chain, BeamSettings(size=1), most, length=8, how=how)

    def greedy_step(tokens, state):
        logits, state = next_of_chain(tokens, tf.constant(chain), state)
        return logits, state

    state = (ops.zeros((20, 8), "int32"), ops.zeros((), "int32"))
    expected_ids, expected_log_probabilities = greedily(greedy_step, state, np.array(most, "int32"), 8)
    np.testing.assert_array_equal(hypotheses.ids[:, 0], expected_ids)
    np.testing.assert_allclose(hypotheses.log_probabilities[:, 0], expected_log_probabilities, rtol=1e-5)
    assert 0 < np.sum(np.any(expected_ids == EOS, axis=1)) < 20  # some are cut short


def test_wider_beams_find_no_lower_scores():
    chain = chains(50, seed=2)
    searches = [search(chain, BeamSettings(size, min(size, 5), 0.0)) for size in (1, 3, 150)]
    ended = np.all([np.any(hypotheses.ids[:, 0] == EOS, axis=-1) for hypotheses in searches], axis=0)
    narrow, middle, wide = (hypotheses.scores[ended, 0] for hypotheses in searches)
    assert np.sum(ended) > 20
    assert np.mean(middle >= narrow - 1e-6) > 0.9 and np.all(wide >= np.maximum(narrow, middle) - 1e-6)
    assert np.any(wide > narrow + 0.1)


def test_hypotheses_do_not_depend_on_other_sentences_of_the_batch_and_their_order():
    chain, settings, most = chains(9, seed=3), BeamSettings(size=3, best=3), [2, 7, 3, 8, 4, 5, 8, 6, 1]
    whole = search(chain, settings, most, length=8)
    order = np.random.default_rng(0).permutation(9)
    shuffled = search(chain[order], settings, [most[i] for i in order], length=8)
    for place, i in enumerate(order):
        alone = search(chain[[i]], settings, [most[i]], length=8)
        for together, other, single in zip(whole, shuffled, alone, strict=True):
            np.testing.assert_allclose(together[i], other[place], rtol=1e-6)
            np.testing.assert_allclose(together[i], single[0], rtol=1e-6)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("lengths", [[3, 0, 4, 0], [0, 0]])
def test_a_sentence_that_may_have_no_token_has_the_empty_hypothesis_alone(lengths, how):
    settings, chain = BeamSettings(size=3, best=2), chains(len(lengths))
    hypotheses = search(chain, settings, lengths, how=how)
    for sentence, length in enumerate(lengths):
        if length:
            alone = search(chain[sentence : sentence + 1], settings, [length], how=how)
            for values, values_alone in zip(hypotheses, alone, strict=True):
                np.testing.assert_array_equal(values[sentence], values_alone[0])
        else:
            assert hypotheses.scores[sentence, 0] == 0 and hypotheses.scores[sentence, 1] < -1e8
            assert not hypotheses.ids[sentence].any() and not hypotheses.log_probabilities[sentence].any()


def test_a_finished_sentence_leaves_the_batch():
    batch = []

    def step(tokens, chain, state):
        batch.append(len(tokens))
        return next_of_chain(tokens, chain, state)

    chain = chains(3)
    chain[:, :, EOS] = -30.0
    chain[0, BOS, EOS] = 30.0
    state = (np.zeros((3, 8), "int32"), ops.zeros((), "int32"))
    beam_search(step, chain, state, np.array([8, 3, 5], "int32"), 8, BeamSettings(size=2))
    assert batch == [3, 4, 4, 2, 2]  # one hypothesis of each sentence at first, then two


def test_ties_go_to_the_lower_id():
    chain = np.full((1, V, V), -3.0, "float32")
    chain[:, :, EOS] = -6.0
    hypotheses = search(chain, BeamSettings(size=3, best=3), length=2)
    assert [words(row) for row in hypotheses.ids[0]] == [[LETTERS[0], letter] for letter in LETTERS[:3]]


def test_hypotheses_without_eos_only_fill_up_missing_places_and_stand_last():
    chain = np.full((1, V, V), -30.0, "float32")
    chain[0, :, LETTERS] = -0.01
    chain[0, BOS, EOS] = 0.0  # the only end within the beam
    hypotheses = search(chain, BeamSettings(size=4, best=4, length_penalty=0.0), length=3)
    first, *rest = (words(row) for row in hypotheses.ids[0])
    assert first == [EOS] and len(rest) == 3
    assert all(EOS not in row and len(row) == 3 for row in rest)


def beam_of_hugging_face(chain, size, alpha, longest, renormalize, full=False):
    """Finished hypotheses of one sentence by the rules of `generate`, as loops over lists."""
    live, finished = [(0.0, [])], []
    for n in range(1, longest + 1):
        candidates = []
        for score, tokens in live:
            scores = chain[[BOS, *tokens][-1]].astype("float64")
            scores[[PAD, BOS]] = -np.inf
            if renormalize:
                scores -= np.log(np.exp(scores).sum())
            if n == longest:
                scores = np.where(np.arange(V) == EOS, 0.0, -np.inf)
            candidates += [(score + scores[token], [*tokens, token]) for token in range(V)]
        best = sorted(candidates, key=lambda pair: -pair[0])[: 2 * size]
        finished += [(score / n**alpha, tokens) for score, tokens in best[:size] if tokens[-1] == EOS]
        finished = sorted((pair for pair in finished if pair[0] > -np.inf), key=lambda pair: -pair[0])[:size]
        live = [pair for pair in best if pair[1][-1] != EOS][:size]
        if len(finished) == size and (full or finished[-1][0] >= live[0][0] / n**alpha):
            break
    return finished


@pytest.mark.parametrize(("alpha", "renormalize"), [(1.0, True), (0.6, False)])
def test_a_search_by_the_rules_of_hugging_face(alpha, renormalize):
    logits = np.random.default_rng(11).normal(size=(40, V, V))
    logits[:, :, PAD] += 1  # PAD has its part of the probability
    logits[:, :, EOS] += np.linspace(-3, 1, 40)[:, None]
    chain = normalized(logits)
    settings = BeamSettings(3, 3, alpha, divisor="power", end="worst", force_eos=True, renormalize=renormalize)
    hypotheses = search(chain, settings, length=6)
    by_end = {True: 0, False: 0}
    for sentence in range(40):
        expected = beam_of_hugging_face(chain[sentence], 3, alpha, 6, renormalize)
        # Sentences of the same pairs of tokens tie.
        np.testing.assert_allclose(hypotheses.scores[sentence], [score for score, _ in expected], rtol=1e-4)
        assert all(words(row).index(EOS) == len(words(row)) - 1 for row in hypotheses.ids[sentence])
        by_end[expected != beam_of_hugging_face(chain[sentence], 3, alpha, 6, renormalize, full=True)] += 1
    assert by_end[False] and by_end[True]


def test_a_forced_end_keeps_the_models_own_log_probability_of_it():
    chain = chains(2)
    chain[:, :, EOS] = -20
    chain = normalized(chain)
    hypotheses = search(chain, BeamSettings(2, 1, force_eos=True), max_lengths=[2, 4])
    for sentence, most in enumerate([2, 4]):
        tokens = words(hypotheses.ids[sentence, 0])
        assert len(tokens) == most and tokens.index(EOS) == most - 1
        assert hypotheses.log_probabilities[sentence, 0, most - 1] == pytest.approx(
            log_probabilities(chain[sentence], tokens)[-1]
        )
        expected = sum(log_probabilities(chain[sentence], tokens[:-1])) / ((5 + most) / 6)
        assert hypotheses.scores[sentence, 0] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("least", [1, 3])
def test_no_hypothesis_ends_before_its_least_length(least):
    settings = BeamSettings(size=150, best=3, min_length=least)
    chain = chains(4, seed=4)
    hypotheses = search(chain, settings)
    for sentence in range(4):
        expected = brute_force(chain[sentence], settings, allowed=lambda tokens: len(tokens) > least)[:3]
        assert [words(row) for row in hypotheses.ids[sentence]] == [tokens for _, tokens in expected]


@pytest.mark.parametrize("n", [1, 3])
def test_no_run_of_n_tokens_stands_twice(n):
    def allowed(tokens):
        runs = [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]
        return len(set(runs)) == len(runs)

    settings = BeamSettings(size=400, best=20, no_repeat_ngram=n)
    chain = chains(4, seed=5)
    chain[:, LETTERS, LETTERS] += 3  # they like to repeat themselves
    chain = normalized(chain)
    hypotheses = search(chain, settings, length=5)
    for sentence in range(4):
        expected = brute_force(chain[sentence], settings, 5, allowed)[:20]
        # Sentences of the same pairs of tokens tie.
        np.testing.assert_allclose(
            hypotheses.scores[sentence, : len(expected)], [score for score, _ in expected], rtol=1e-5
        )
        assert all(allowed(words(row)) for row in hypotheses.ids[sentence, : len(expected)])


def test_a_coverage_penalty_prefers_what_looked_at_every_source_token():
    """Letter i looks at source token i; without the penalty the shortest wins."""
    chain = np.full((1, V, V), -30.0, "float32")
    chain[0, :, LETTERS] = -1.0
    chain[0, :, EOS] = -0.5
    n_source = 3

    def coverage(_, state):
        history, _ = state
        looked = ops.one_hot(ops.where(history > EOS, history - EOS - 1, -1), n_source)
        return ops.sum(looked, axis=1)

    plain = search(chain, BeamSettings(size=60, length_penalty=0.0), length=5)
    covering = search(
        chain, BeamSettings(size=60, length_penalty=0.0, coverage_penalty=1.0), length=5, coverage=coverage
    )
    assert words(plain.ids[0, 0]) == [EOS]
    assert set(words(covering.ids[0, 0])) == {EOS, EOS + 1, EOS + 2, EOS + 3}


def test_scores_are_divided_by_a_power_of_the_length():
    assert float(BeamSettings().length_divisor(7)) == pytest.approx(2)  # (5 + 7) / 6
    assert float(BeamSettings(length_penalty=2.0).length_divisor(7)) == pytest.approx(4)
    assert float(BeamSettings(length_penalty=0.0).length_divisor(7)) == 1


def test_the_coverage_term_equals_the_formula_and_rewards_no_attention_beyond_1():
    settings = BeamSettings(coverage_penalty=0.5)
    attention = np.array([[0.5, 1.0, 3.0], [0.25, 0.5, 1.5], [1.0, 2.0, 9.0]], "float32")
    expected = [0.5 * np.log(0.5), 0.5 * (np.log(0.25) + np.log(0.5)), 0.0]
    np.testing.assert_allclose(settings.coverage_term(attention), expected, rtol=1e-6)


@pytest.mark.minutes
@pytest.mark.parametrize("name", ["transformer of other sizes", "recurrent", "decoder-only post"])
def test_with_a_cache_every_architecture_finds_what_full_passes_find(name):
    model, size = model_of(name), 3
    settings = BeamSettings(size=size, best=size)
    most = np.full(len(SOURCE), 5, "int32")
    memory = model.encode(SOURCE)._replace(self_attention=())

    def cached(tokens, memory, cache):
        output = model.decode(tokens, memory, cache=cache)
        return output.logits[:, -1], output.cache

    def full(tokens, memory, state):
        history, step = state
        rows = ops.shape(tokens)[0]
        history = ops.slice_update(history, (0, step), tokens)
        output = model.decode(history[:, : int(step) + 1], rows_for_each(memory, rows))
        return output.logits[:, -1], (history, step + 1)

    hypotheses = beam_search(cached, memory, model.start_cache(memory), most, 5, settings)
    empty = (ops.zeros((len(SOURCE), 5), "int32"), ops.zeros((), "int32"))
    expected = beam_search(full, memory, empty, most, 5, settings)
    np.testing.assert_allclose(hypotheses.scores, expected.scores, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(hypotheses.ids, expected.ids)


@pytest.mark.parametrize("many", [7, TOP_K_CHUNK, TOP_K_CHUNK + 1, 5 * TOP_K_CHUNK, 20 * TOP_K_CHUNK + 3])
@pytest.mark.parametrize("values", [2, 5, 10**6], ids=["hardly any but ties", "many ties", "no ties"])
def test_top_k_of_many_equals_top_k(many, values):
    x = np.random.default_rng(many).integers(0, values, size=(6, many)).astype("float32")
    x[0, : many // 2] = -np.inf
    largest, expected = top_k_of_many(x[:, None], 4), ops.top_k(x, 4)
    np.testing.assert_array_equal(largest[0], expected[0])
    np.testing.assert_array_equal(largest[1], expected[1])


@pytest.mark.parametrize("columns", [5, TOP_K_CHUNK, 2 * TOP_K_CHUNK + 3])
@pytest.mark.parametrize("values", [3, 10**6], ids=["many ties", "no ties"])
def test_top_k_of_rows_with_offsets_and_banned_columns_equals_top_k_of_their_sums(columns, values):
    random, rows, banned = np.random.default_rng(columns), 4, [0, 2]
    x = random.integers(0, values, size=(6, rows, columns)).astype("float32")
    x[:, :, banned] = values  # the largest of all, as in all the first chunks together
    offsets = random.integers(0, 5, size=(6, rows)).astype("float32")
    offsets[1, 2:] = -np.inf
    sums = x + offsets[..., None]
    sums[:, :, banned] = -np.inf
    largest, expected = top_k_of_many(x, 6, offsets, banned), ops.top_k(sums.reshape(6, -1), 6)
    np.testing.assert_array_equal(largest[0], expected[0])
    np.testing.assert_array_equal(largest[1], expected[1])


def test_top_k_of_fewer_numbers_ends_in_minus_infinity():
    numbers, indices = top_k_of_many(np.array([[[3, 5], [4, 1]]], "float32"), 6)
    np.testing.assert_array_equal(numbers, [[5, 4, 3, 1, -np.inf, -np.inf]])
    assert indices[0, :4].numpy().tolist() == [1, 2, 0, 3] and np.max(indices) <= 3


@pytest.mark.parametrize("scale", [1, 200])
def test_the_log_of_the_sum_of_exponentials_equals_the_formula(scale):
    x = (np.random.default_rng(0).normal(size=(5, 1000)) * scale).astype("float32")
    x[2, 10:] = -np.inf
    np.testing.assert_allclose(log_sum_exp(x)[:, 0], np.logaddexp.reduce(x.astype("float64"), axis=1), rtol=1e-6)


def test_of_equal_numbers_in_two_chunks_the_first_wins_wherever_the_larger_maximum_is():
    x = np.full((1, 3 * TOP_K_CHUNK), -np.inf, "float32")
    x[0, [4, 7, TOP_K_CHUNK, TOP_K_CHUNK + 1]] = [8, 3, 9, 3]
    np.testing.assert_array_equal(top_k_of_many(x[:, None], 3)[1], [[TOP_K_CHUNK, 4, 7]])
