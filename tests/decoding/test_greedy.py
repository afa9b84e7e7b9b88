"""Greedy search, held against stubs that spell words and against full passes of a random Transformer."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from qkv.text.tokens.special_tokens import BOS, EOS, PAD, UNK
from tests.support.searches import greedily, search_by_full_passes
from tests.support.tiny_models import SOURCE, shared_transformer

LETTERS = "acdgort"
FIRST = EOS + 1  # the id of the first letter
V = FIRST + len(LETTERS)
HOWS = {
    "eagerly": lambda function: function,
    "in a graph": functools.partial(tf.function, autograph=False),
    "compiled": functools.partial(tf.function, autograph=False, jit_compile=True),
}


def ids_of(word):
    return [FIRST + LETTERS.index(letter) for letter in word]


def text_of(row):
    """Letters as themselves, EOS as a full stop, PAD as `_`."""
    return "".join({PAD: "_", UNK: "?", BOS: "<", EOS: "."}.get(int(t)) or LETTERS[int(t) - FIRST] for t in row)


def speller(*words):
    """A model that wants to spell word i in row i and then to end; where a word has ended it babbles on with `t`.

    Its state is the number of steps taken.
    """
    length = max(map(len, words)) + 20
    logits = np.random.default_rng(0).normal(size=(len(words), length, V)).astype("float32")
    logits[:, :, ids_of("t")] += 9
    for row, word in enumerate(words):
        for step, token in enumerate([*ids_of(word), EOS]):
            logits[row, step, token] += 50
    return lambda tokens, step: (tf.gather(logits, step, axis=1), step + 1), logits


def spell(*words, max_lengths=None, length=8, how="eagerly"):
    next_token_logits, _ = speller(*words)
    most = np.array(max_lengths or [length] * len(words), "int32")
    return HOWS[how](lambda most: greedily(next_token_logits, tf.zeros((), "int32"), most, length))(most)


@pytest.mark.parametrize("how", HOWS)
def test_every_row_ends_at_its_own_eos_and_is_padded_from_there(how):
    ids, _ = spell("cat", "dog", "a", "", how=how)
    assert [text_of(row) for row in ids] == ["cat.____", "dog.____", "a.______", "._______"]
    assert ids.dtype == "int32"


@pytest.mark.parametrize("how", HOWS)
def test_rows_stop_at_their_own_longest_length(how):
    ids, _ = spell("cat", "cat", "cat", "dog", "dog", max_lengths=[2, 3, 4, 8, 0], how=how)
    assert [text_of(row) for row in ids] == ["ca______", "cat_____", "cat.____", "dog.____", "________"]


def test_the_search_stops_when_all_rows_have_ended():
    steps = []

    def next_token_logits(tokens, state):
        steps.append(len(steps))
        return keras.ops.one_hot([EOS if len(steps) > 2 else FIRST] * 3, V), state

    greedily(next_token_logits, (), np.full(3, 8, "int32"), 8)
    assert len(steps) == 3


@pytest.mark.parametrize("how", HOWS)
def test_the_first_token_is_bos_and_then_every_choice_is_handed_back(how):
    word = [BOS, *ids_of("dogcart"), EOS]
    wanted = np.zeros((V, V), "float32")
    wanted[word[:-1], word[1:]] = 9  # only after the letter before does it want a letter

    def search(most):
        return greedily(lambda tokens, state: (tf.gather(wanted, tokens[:, 0]), state), (), most, 9)

    assert [text_of(row) for row in HOWS[how](search)(np.array([9, 4], "int32"))[0]] == ["dogcart._", "dogc_____"]


@pytest.mark.parametrize("never", [PAD, BOS])
def test_pad_and_bos_are_never_chosen(never):
    logits = np.zeros((1, V), "float32")
    logits[0, [never, FIRST + 2, EOS]] = [9, 2, 1]
    ids, _ = greedily(lambda tokens, state: (logits, state), (), np.array([3], "int32"), 4)
    np.testing.assert_array_equal(ids, [[FIRST + 2] * 3 + [PAD]])


@pytest.mark.parametrize("how", HOWS)
def test_ties_go_to_the_lower_id(how):
    logits = np.zeros((2, V), "float32")
    logits[0, [FIRST + 3, FIRST + 1]] = 5
    logits[1, [EOS, FIRST]] = 5
    ids = HOWS[how](lambda most: greedily(lambda t, s: (logits, s), (), most, 3)[0])(np.full(2, 2, "int32"))
    np.testing.assert_array_equal(ids, [[FIRST + 1, FIRST + 1, PAD], [EOS, PAD, PAD]])


@pytest.mark.parametrize("how", HOWS)
def test_log_probabilities_are_those_of_the_whole_vocabulary_and_zero_for_padding(how):
    logits = speller("cat", "a")[1].astype("float64")
    _, log_probabilities = spell("cat", "a", max_lengths=[3, 6], how=how)
    expected = np.zeros((2, 8))
    for row, tokens in enumerate([ids_of("cat"), [*ids_of("a"), EOS]]):
        for step, token in enumerate(tokens):
            expected[row, step] = logits[row, step, token] - np.log(np.exp(logits[row, step]).sum())
    np.testing.assert_allclose(log_probabilities, expected, atol=1e-5)
    assert log_probabilities.dtype == "float32"


def test_half_precision_logits_give_single_precision_log_probabilities():
    logits = tf.constant([[0.0] * (V - 1) + [3.0]], "bfloat16")
    _, log_probabilities = greedily(lambda tokens, state: (logits, state), (), np.array([1], "int32"), 2)
    expected = 3 - np.log(np.exp(3) + V - 1)
    np.testing.assert_allclose(log_probabilities, [[expected, 0]], rtol=1e-6)


def with_any_batch(function):
    """In a graph, which must not know the size of the batch, or it would know that of what grows."""
    return tf.function(function, input_signature=[tf.TensorSpec([None, None], tf.int32)], autograph=False)


@pytest.mark.parametrize(
    ("how", "settings"),
    [(lambda function: function, {"norm": "post", "positions": "learned"}), (with_any_batch, {})],
    ids=["eagerly post", "in a graph pre"],
)
def test_search_with_a_cache_finds_what_full_passes_find(how, settings):
    model, length, most = shared_transformer(**settings), 11, np.array([11, 5, 9], "int32")

    def step(tokens, state):
        memory, cache = state
        output = model.decode(tokens, memory, cache=cache)
        return output.logits[:, -1], (memory, output.cache)

    def search(source):
        memory = model.encode(source)._replace(self_attention=())
        return greedily(step, (memory, model.start_cache(memory)), most, length)

    ids, log_probabilities = how(search)(SOURCE)
    for row, source in enumerate(SOURCE):
        tokens, expected = search_by_full_passes(model, source[source != PAD], most[row])
        assert list(ids[row, : len(tokens)].numpy()) == tokens
        assert not ids[row, len(tokens) :].numpy().any()
        np.testing.assert_allclose(log_probabilities[row, : len(tokens)], expected, atol=1e-4)
