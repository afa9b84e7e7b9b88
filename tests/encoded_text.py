"""Encoded sentences of given lengths, and lengths for Hypothesis to draw."""

import numpy as np
from hypothesis import strategies as st

from qkv.text.encoded import EncodedSentences

LENGTHS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=40)


def sentences_of(lengths, seed=0):
    ids = np.random.default_rng(seed).integers(4, 50, sum(lengths)).astype("int32")
    return EncodedSentences(ids, np.concatenate([[0], np.cumsum(lengths)]))
