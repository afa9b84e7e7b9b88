import functools

import numpy as np
import pytest
import tensorflow as tf

from qkv.text.tokenizer import BOS, EOS, PAD
from tests.support.tiny_models import shared_transformer


@pytest.fixture(scope="session")
def transformer(tokenizer):
    """A random model for the tokenizer's ids, for sentences of up to 24 tokens."""
    return shared_transformer(vocabulary_size=tokenizer.vocabulary_size, max_positions=24)


@functools.cache
def _full_pass(model):
    """A full pass as a graph: `tests/model/test_architectures.py` compares it with the pass itself."""
    ids = tf.TensorSpec([None, None], tf.int32)
    return tf.function(lambda source, target: model(source, target), input_signature=(ids, ids), autograph=False)


def _search_by_full_passes(model, source, max_length):
    tokens, log_probabilities = [BOS], []
    while len(tokens) <= max_length and tokens[-1] != EOS:
        # Padding follows, because Keras warns of softmax over a single key.
        row = (np.array([[*ids, PAD]], "int32") for ids in (source, tokens))
        logits = np.asarray(_full_pass(model)(*row), "float64")[0, -2]
        best = max((token for token in range(len(logits)) if token not in (PAD, BOS)), key=lambda token: logits[token])
        tokens.append(best)
        log_probabilities.append(logits[best] - logits.max() - np.log(np.exp(logits - logits.max()).sum()))
    return tokens[1:], log_probabilities


@pytest.fixture
def search_by_full_passes():
    """Greedy search by its definition, for one sentence: every token comes from a full pass over all before it."""
    return _search_by_full_passes
