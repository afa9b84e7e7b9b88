"""Filters find what they are for, each pair once, and leave alone what they cannot judge."""

import numpy as np

from qkv.config.choices.text import CORPUS_FILTERS
from qkv.text.corpora.filters import TextFilters, mark_near_duplicates

NAMES = [None, *CORPUS_FILTERS]


def found(filters, *pairs):
    return [NAMES[number] for number in TextFilters(**filters).find(*zip(*pairs, strict=True))]


def test_without_settings_nothing_is_found():
    assert found({}, ("same 1", "same 1"), ("", "x" * 100)) == [None, None]


def test_a_side_with_too_few_letters_of_its_script_is_found():
    filters = {"source_script": "Latin", "target_script": "Cyrillic"}
    pairs = [("Hello , Мир !", "Привет"), ("привет", "привет"), ("hello", "hello"), ("12 !", "12"), ("", "да")]
    assert found(filters, *pairs) == [None, "script", "script", None, None]
    pairs = [("日本語のテキスト", ""), ("ｶﾀｶﾅ", ""), ("한국어", "")]
    assert found({"source_script": "Japanese"}, *pairs) == [None, None, "script"]


def test_words_are_of_their_own_script_alone():
    words = {"Latin": "Żółć", "Greek": "λέξη", "Hebrew": "מילה", "Devanagari": "शब्द", "Hangul": "단어", "Han": "词语"}
    for script in words:
        reasons = found({"source_script": script}, *((word, "") for word in words.values()))
        assert [name for name, reason in zip(words, reasons, strict=True) if reason is None] == [script]


def test_the_same_text_on_both_sides_is_found_white_space_and_capitals_apart():
    assert found({"identical": True}, ("A  b", " a B"), ("a b", "a  bc")) == ["identical", None]


def test_digits_are_compared_whatever_their_order_and_script():
    pairs = [("on 12.5. at 3", "3 h , 5/12"), ("in 1990", "in 1980"), ("no", "1"), ("٣", "3"), ("11", "1")]
    assert found({"digits": True}, *pairs) == [None, "digits", "digits", None, "digits"]


def test_a_pair_is_counted_under_the_first_filter_that_applies():
    everything = {"source_script": "Latin", "identical": True, "digits": True}
    assert found(everything, ("да 1", "да 1"), ("a" * 25, "A" * 25 + "1")) == ["script", "digits"]


def test_near_duplicates_differ_in_capitals_digits_marks_and_spaces_alone():
    filters = TextFilters(near_duplicates=True)
    sources = ["Call 12 now!", "call 99, now", "call 1 now", "call now", "", "..."]
    targets = ["Ruf an.", "ruf an", "ruf AN 7", "ruf ihn", "x", "x"]
    digests = filters.digest(sources, targets)
    assert TextFilters().digest(sources, targets).tolist() == []
    number = NAMES.index("near_duplicate")
    for kept, expected in (
        ([1, 1, 1, 1, 1, 1], [0, number, number, 0, 0, number]),
        ([0, 1, 1, 1, 1, 1], [0, 0, number, 0, 0, number]),  # what is left out anyway has no duplicates
    ):
        reasons = filters.find(sources, targets)
        mark_near_duplicates(reasons, digests, np.array(kept, bool))
        assert reasons.tolist() == expected


def test_what_another_filter_has_found_is_no_near_duplicate_and_has_none():
    reasons = np.array([1, 0, 0], np.uint8)
    mark_near_duplicates(reasons, np.array([7, 7, 7], np.uint64), np.ones(3, bool))
    assert reasons.tolist() == [1, 0, NAMES.index("near_duplicate")]
