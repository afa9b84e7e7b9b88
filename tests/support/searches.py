"""Searches over tiny models, and the chains of letters over which a beam is held against brute force."""

import functools
import itertools

import numpy as np
import tensorflow as tf
from keras import ops

from qkv.config.decoding import DecodingSettings
from qkv.decoding.greedy import greedy_search
from qkv.model.interface import rows_for_each
from qkv.text.tokens.special_tokens import BOS, EOS, PAD
from tests.support.oracles import log_softmax
from tests.support.tiny_models import SOURCE

MOST_TOKENS = 8


def found_by(search, model, source=SOURCE, most=MOST_TOKENS):
    def run(source, most):
        return search(model, model.encode(source, training=False)._replace(self_attention=()), most, MOST_TOKENS)

    signature = (tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None], tf.int32))
    found = tf.function(run, input_signature=signature, autograph=False)(source, np.full(len(source), most, "int32"))
    return type(found)(*(x.numpy() for x in found))


def greedily(next_token_logits, state, max_lengths, length):
    """Runs `greedy_search` for the likeliest tokens."""
    return greedy_search(
        next_token_logits, state, max_lengths, length, lambda scores, *_: ops.cast(ops.argmax(scores, -1), "int32")
    )


def words(row):
    return [int(token) for token in row if token != PAD]


def forced_scores(model, ids):
    """Log-probabilities of all tokens `(B, n, L)` from one pass over whole targets."""
    rows = ids.reshape(-1, MOST_TOKENS)
    targets = np.concatenate([np.full((len(rows), 1), BOS), rows[:, :-1]], 1).astype("int32")
    logits = np.asarray(model(np.repeat(SOURCE, ids.shape[1], 0), targets, training=False))
    return np.take_along_axis(log_softmax(logits), rows[..., None], -1).reshape(ids.shape)


SEARCHES = {
    "greedy": DecodingSettings(beam_size=1),
    "beam": DecodingSettings(beam_size=4, n_best=3),
    "beam with penalties": DecodingSettings(
        beam_size=4, n_best=3, length_penalty=0.6, coverage_penalty=0.4, min_length=3, no_repeat_ngram=2
    ),
    "sampling": DecodingSettings(search="sampling", n_best=3, temperature=0.8, top_k=9, top_p=0.9),
}
V = EOS + 4
LETTERS = [token for token in range(V) if token not in (PAD, BOS, EOS)]
MOST_LETTERS = 4


def chains(batch, seed=0):
    """Log-probabilities of the next token given the last one, for each sentence: `(batch, V, V)`, PAD and BOS never."""
    logits = np.random.default_rng(seed).normal(size=(batch, V, V)) * 2
    logits[:, :, [PAD, BOS]] = -1e9
    return normalized(logits)


def normalized(logits):
    return log_softmax(logits).astype("float32")


def next_of_chain(tokens, chain, state):
    """A model that knows only the last token; its state is all tokens read so far, to see what becomes of it."""
    rows = rows_for_each(chain, ops.shape(tokens)[0])
    logits = ops.take_along_axis(rows, ops.expand_dims(tokens, -1), axis=1)[:, 0]
    history, step = state
    return logits, (ops.slice_update(history, (0, step), tokens), step + 1)


def log_probabilities(chain, tokens):
    return [float(chain[last, token]) for last, token in zip([BOS, *tokens], tokens, strict=False)]


def brute_force(chain, settings, length=MOST_LETTERS, allowed=lambda tokens: True):
    """All hypotheses that end within a length, best first."""
    found = []
    for n in range(length):
        for letters in itertools.product(LETTERS, repeat=n):
            tokens = [*letters, EOS]
            if not allowed(tokens):
                continue
            score = sum(log_probabilities(chain, tokens)) / ((5 + len(tokens)) / 6) ** settings.length_penalty
            found.append((score, tokens))
    return sorted(found, key=lambda pair: -pair[0])


@functools.cache
def full_pass(model):
    """A full pass as a graph: `tests/model/test_architectures.py` compares it with the pass itself."""
    ids = tf.TensorSpec([None, None], tf.int32)
    return tf.function(lambda source, target: model(source, target), input_signature=(ids, ids), autograph=False)


def search_by_full_passes(model, source, max_length):
    """Greedy search by its definition, for one sentence: every token comes from a full pass over all before it."""
    tokens, log_probabilities = [BOS], []
    while len(tokens) <= max_length and tokens[-1] != EOS:
        # Padding follows, because Keras warns of softmax over a single key.
        row = (np.array([[*ids, PAD]], "int32") for ids in (source, tokens))
        logits = np.asarray(full_pass(model)(*row), "float64")[0, -2]
        best = max((token for token in range(len(logits)) if token not in (PAD, BOS)), key=lambda token: logits[token])
        tokens.append(best)
        log_probabilities.append(log_softmax(logits)[best])
    return tokens[1:], log_probabilities
