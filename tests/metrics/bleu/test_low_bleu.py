"""A BLEU near zero is explained where the model has learnt something, and only there."""

import re

import pytest

from qkv.metrics.bleu import count_words, explain_low_bleu

CHINESE = ["我们今天去北京。", "猫坐在垫子上，狗不在。"]


def test_words_are_counted_as_bleu_splits_them():
    assert count_words(CHINESE, "13a") == 1
    assert count_words(CHINESE, "zh") == sum(map(len, CHINESE)) / 2
    assert count_words(["a b, c", "d"], "13a") == 2.5
    assert count_words(["a b, c"], "13a") == 4


@pytest.mark.parametrize(
    ("bleu", "accuracy", "words", "said"),
    [
        (0.0, 0.83, 1.0, "BLEU is 0.00, although 83 % of the tokens .* 13a finds 1.0 words .* --bleu_tokenizer char"),
        (0.3, 0.55, 9.0, "BLEU is 0.30, although 55 % of the tokens .* has learnt words, but .* Train longer"),
        (0.49, 0.4, 2.9, "BLEU is 0.49, although 40 % of the tokens are predicted correctly.* finds 2.9 words"),
        (0.49, 0.4, 3.0, "has learnt words"),
        (0.5, 0.83, 1.0, None),
        (0.0, 0.39, 1.0, None),
        (0.6, 0.83, 1.0, None),
        (0.0, 0.2, 1.0, None),
        (0.0, 1.0, 0.0, None),  # all references are empty
    ],
)
def test_the_explanation_is_that_of_the_case(bleu, accuracy, words, said):
    found = explain_low_bleu(bleu, accuracy, words, "13a")
    if said is None:
        assert found is None
    else:
        assert found and "\n" not in found
        assert re.search(said, found)
