"""Words found by the marks of other tokenizers, and tokens that are spelled otherwise than was said."""

import pytest

from qkv.config.choices.text import WORD_MARKS
from qkv.text.tokens.words import other_marks, spell_words, words_by_marks

SPECIAL = ("<s>", "</s>")
CASES = {
    "sentencepiece": (["▁the", "▁", "cat", "s", "▁.", "</s>"], [0, 1, 1, 1, 2, None], ["the", "cats", "."]),
    "byte_level": (["<s>", "the", "Ġc", "afÃ", "©", "Ġ.", "</s>"], [None, 0, 1, 1, 1, 2, None], ["the", "café", "."]),
    "wordpiece": (["the", "ca", "##t", "##s", ".", "</s>"], [0, 1, 1, 1, 2, None], ["the", "cats", "."]),
    "end_of_word": (["the</w>", "ca", "ts</w>", ".</w>"], [0, 1, 1, 2], ["the", "cats", "."]),
    "joiner": (["the", "ca@@", "t@@", "s", ".", "</s>"], [0, 1, 1, 1, 2, None], ["the", "cats", "."]),
    "none": (["▁我", "喜欢", "猫", "</s>"], [0, 1, 2, None], ["我", "喜欢", "猫"]),
}


@pytest.mark.parametrize("marks", sorted(WORD_MARKS))
def test_tokens_are_grouped_and_spelled(marks):
    tokens, words, spelled = CASES[marks]
    assert words_by_marks(tokens, marks, SPECIAL) == words
    assert spell_words(tokens, words, marks) == spelled


def test_a_word_begins_after_a_special_token_within_a_sentence():
    assert words_by_marks(["▁a", "</s>", "b", "c"], "sentencepiece", SPECIAL) == [0, None, 1, 1]


def test_a_token_that_is_nothing_but_a_mark_is_spelled_as_it_is():
    assert spell_words(["▁a", "▁"], [0, 1], "sentencepiece") == ["a", "▁"]


def test_added_tokens_of_byte_level_text_are_plain_text():
    assert spell_words(["Ġ猫"], [0], "byte_level") == ["Ġ猫"]


def test_a_word_without_a_token_is_empty():
    assert spell_words(["▁a", "▁b"], [0, 2], "sentencepiece") == ["a", "", "b"]


@pytest.mark.parametrize("marks", sorted(WORD_MARKS))
def test_marks_that_fit_are_let_through(marks):
    assert other_marks([CASES[marks][0]], marks) is None


@pytest.mark.parametrize(
    ("given", "tokens_of", "found"),
    [
        ("byte_level", "sentencepiece", "no token has 'Ġ', some have '▁': expected sentencepiece"),
        ("wordpiece", "byte_level", "no token has '##', some have 'Ġ': expected byte_level"),
        ("joiner", "end_of_word", "no token has '@@', some have '</w>': expected end_of_word"),
        ("sentencepiece", "wordpiece", "no token has '▁'"),
    ],
)
def test_marks_that_do_not_fit_are_found(given, tokens_of, found):
    assert other_marks([["a"], CASES[tokens_of][0]], given) == found


def test_sentences_of_one_token_need_no_mark():
    assert other_marks([["yes"], ["no"]], "sentencepiece") is None
    assert other_marks([["the", "cat"]], "wordpiece") is None
