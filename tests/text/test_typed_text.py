"""Typed text made to look like the training text."""

import functools
import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.text import europarl_words, moses
from pipeline.text.look import measure_look
from pipeline.text.typed_text import LookWarning, Normalizer, find_difference

DEMO = Path(__file__).parents[2] / "data" / "demo"


def lines_of(name):
    return (DEMO / name).read_text(encoding="utf-8").splitlines()


@functools.cache
def demo_look(language):
    return measure_look(lines_of(f"train.{language}"), tokenized=True)


def normalizer(look, language="en", lowercase=True, divides=True):
    divide = functools.partial(moses.tokenize, language=language, escaped=look.escaped) if divides else None
    return Normalizer(look, lowercase, divide)


@pytest.mark.parametrize("language", ["en", "fr"])
def test_every_line_of_the_runs_own_sets_stays_as_it_is(language):
    normalize = normalizer(demo_look(language), language)
    for name in ("test", "validation"):
        for line in lines_of(f"{name}.{language}"):
            assert normalize(line) == line
            assert find_difference(line, demo_look(language)) is None


@pytest.mark.parametrize("language", ["en", "fr"])
def test_plain_text_becomes_the_line_that_it_was(language):
    """All but what plain text does not tell: whether French divides `aujourd'hui`, and whether a name is one."""
    normalize = normalizer(demo_look(language), language)
    found = [(line, normalize(moses.detokenize(line, language))) for line in lines_of(f"test.{language}")]
    assert all(line == other for line, other in found if "aujourd'hui" not in line)
    assert sum(line == other for line, other in found) > 450


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("The cat eats the apple.", "the cat eats the apple ."),
        ("Jane sees Emma’s boat!", "Jane sees Emma 's boat !"),
        ("I am thirsty", "I am thirsty"),
        ("“The cat”", '" the cat "'),
        ("the Cat", "the Cat"),
        ("THE cat", "the cat"),
        ("Unknown words, too", "unknown words , too"),
        ("", ""),
        ("   ", "   "),
        ("?!", "? !"),
    ],
)
def test_only_the_first_word_is_lower_cased_where_names_have_capitals(typed, expected):
    assert normalizer(demo_look("en"))(typed) == expected


def test_everything_is_lower_cased_where_the_text_has_no_capitals():
    look = measure_look(["a man , his hat and a woman &apos;s dog ."], tokenized=True)
    assert normalizer(look)("A Man, his Hat and a Woman's dog.") == "a man , his hat and a woman &apos;s dog ."


def test_nothing_is_lower_cased_where_sentences_begin_with_capitals():
    look = measure_look(["The dog .", "Where is it ?"], tokenized=True)
    assert normalizer(look)("The Dog.") == "The Dog ."


def test_what_is_not_asked_for_is_not_done():
    look = demo_look("en")
    assert normalizer(look, lowercase=False)("The cat.") == "The cat ."
    assert normalizer(look, divides=False)("The cat.") == "the cat."


@given(st.text(alphabet="aBé'.,!? &-“", max_size=30))
def test_a_normalised_line_stays_as_it_is(line):
    look = measure_look(["a b ' . , ! ? & - \" é", "aB bé"], tokenized=True)
    normalize = Normalizer(look, True, functools.partial(europarl_words.tokenize, language="en"))
    once = normalize(line)
    assert normalize(once) == once


@pytest.mark.parametrize(
    ("training", "tokenized", "line", "reason"),
    [
        (["the cat ."], True, "the cat.", "marks are attached"),
        (["The cat."], False, "The cat .", "marks are separated"),
        (["the cat ."], True, "the Cat .", "capital letters"),
        (["the cat sees Jane ."], True, "The cat .", "begins with a capital"),
        (["The cat."], False, "the cat.", "begins without a capital"),
        (["the cat sees Jane ."], True, "Jane , the cat", None),
        (["mr. cat"], True, "mr. cat", None),
        (["The cat."], False, "42.", None),
        (["the cat ."], True, "", None),
    ],
)
def test_a_line_of_another_look_is_told_why(training, tokenized, line, reason):
    found = find_difference(line, measure_look(training, tokenized))
    assert found is None if reason is None else reason in found


def test_a_warning_is_given_once_and_not_for_a_few_odd_lines(caplog):
    warning = LookWarning(measure_look(["the cat ."], tokenized=True))
    warning.check(["the cat .", "the cat.", "", "the dog ."])
    assert not caplog.messages
    with caplog.at_level(logging.WARNING):
        warning.check(["the cat.", "dogs, too"])
        warning.check(["The cat."])
    assert [message.split(":")[0] for message in caplog.messages] == ["warning"]
    assert "marks are attached to words; expected sentences such as: the cat ." in caplog.text


def test_a_run_whose_text_was_not_measured_warns_of_nothing(caplog):
    LookWarning(None).check(["The cat."])
    assert not caplog.messages
