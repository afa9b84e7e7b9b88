"""Gold links of words as scores of their tokens."""

import numpy as np

from qkv.evaluation.experiments import score_gold
from qkv.text.corpora.word_links import GoldAlignment


def test_every_token_of_linked_words_is_linked_and_near_tokens_come_next(make_record):
    record = make_record(0, (0, 0, 1, 2, 3, None), (0, 1, 1, 2, None))
    gold = GoldAlignment(frozenset({(0, 1)}), frozenset({(0, 1), (2, 1), (1, 0)}))
    scores = score_gold(record, gold, (4, 3))
    assert scores.shape == (5, 5)
    linked = [[0, 0, 0.5, 0, 0], [1, 1, 0, 0.5, 0], [1, 1, 0, 0.5, 0], [0] * 5, [0] * 5]
    np.testing.assert_allclose(scores, linked, atol=1e-6)
    assert not scores[3:].any()  # rows without links
    assert np.argsort(-scores[0]).tolist()[0] == 2 and scores[0, 1] == scores[0, 3] > scores[0, 0] == scores[0, 4] > 0


def test_words_that_share_a_token_share_their_links_and_cut_words_have_none(make_record):
    record = make_record(0, (1, 2, 5, None), (0, 2, None))
    links = frozenset({(0, 1), (4, 0), (6, 0)})
    scores = score_gold(record, GoldAlignment(links, links), (8, 4))
    np.testing.assert_allclose(scores, [[0, 0, 1], [1, 0, 0], [0, 0, 0]], atol=1e-6)
