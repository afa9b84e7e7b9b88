"""Typed text made to look like the training text."""

import functools
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.manythings.tokenize_text import tokenize
from qkv.errors import InputError
from qkv.text.lines import moses
from qkv.text.lines.style import find_difference
from qkv.text.lines.typed_line import MOST_CUT_LINES, MOST_REPORTED, Normalizer, TypedText
from tests.support import ROOT
from tests.support.text import SENTENCES, measure_look

DEMO = ROOT / "data" / "demo"


def lines_of(name):
    return (DEMO / name).read_text(encoding="utf-8").splitlines()


@functools.cache
def demo_look(language):
    return measure_look(lines_of(f"train.{language}"), tokenized=True)


def normalizer(style, language="en", lowercase=True, divides=True):
    divide = functools.partial(moses.tokenize, language=language, escaped=style.escaped) if divides else None
    return Normalizer(style, lowercase, divide)


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
        ("Jane 's cat, the dog 's too.", "Jane 's cat , the dog 's too ."),
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
    style = measure_look(["a man , his hat and a woman &apos;s dog ."], tokenized=True)
    assert normalizer(style)("A Man, his Hat and a Woman's dog.") == "a man , his hat and a woman &apos;s dog ."


def test_nothing_is_lower_cased_where_sentences_begin_with_capitals():
    style = measure_look(["The dog .", "Where is it ?"], tokenized=True)
    assert normalizer(style)("The Dog.") == "The Dog ."


def test_what_is_not_asked_for_is_not_done():
    style = demo_look("en")
    assert normalizer(style, lowercase=False)("The cat.") == "The cat ."
    assert normalizer(style, divides=False)("The cat.") == "the cat."


def test_tags_are_not_normalised_and_lines_are_cleaned_before():
    normalize = Normalizer(demo_look("en"), True, None, lambda line: line.replace("\xad", ""), ("<De>",))
    assert normalize("<D\xade> The cat") == "<De> the cat"
    assert normalize("<Fr> The cat") == "<fr> The cat"


@given(st.text(alphabet="aBé'.,!? &-“", max_size=30))
def test_a_normalised_line_stays_as_it_is(line):
    style = measure_look(["a b ' . , ! ? & - \" é", "aB bé"], tokenized=True)
    normalize = Normalizer(style, True, functools.partial(tokenize, language="en"))
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
        (["today , I am late ."], False, "today , I am thirsty .", None),  # the example does the same
        (["a cat", "today , I am late ."], False, "today , I am thirsty .", "marks are separated from words by spaces"),
    ],
)
def test_a_line_of_another_look_is_told_why(training, tokenized, line, reason):
    found = find_difference(line, measure_look(training, tokenized))
    assert found is None if reason is None else reason in found


@pytest.fixture
def typed(tokenizer):
    """Makes a reader of text like that of the tokenizer."""

    def make(style=None, normalize=None, longest=20):
        return TypedText(tokenizer, style, normalize, longest, "my.en")

    return make


def test_a_warning_is_given_once_and_not_for_a_few_odd_lines(typed, caplog):
    reader = typed(measure_look(["the cat ."], tokenized=True), longest=1000)
    reader.read(["the cat .", "the cat.", "", "the dog ."])
    assert not [message for message in caplog.messages if "look like" in message]
    with caplog.at_level(logging.WARNING):
        reader.read(["the cat.", "dogs, too", "\u200b"])
        reader.read(["The cat."])
    assert sum("does not look like" in message for message in caplog.messages) == 1
    assert "marks are attached to words; expected sentences such as: the cat ." in caplog.text


def test_text_that_looks_right_and_is_known_warns_of_nothing(typed, caplog):
    reader = typed(longest=1000)
    texts, ids = reader.read([*SENTENCES, "", "\t"])
    assert texts == [*SENTENCES, "", "\t"] and ids[-2:] == [[], []]
    assert not caplog.messages


def test_lines_are_composed_before_they_are_normalised(typed):
    seen = []
    texts, ids = typed(normalize=lambda line: seen.append(line) or line.lower()).read(["E\u0301TE\u0301\r\n"])
    assert seen == ["ÉTÉ"] and texts == ["été"] and ids == typed().read(["été"])[1]


def test_each_unknown_character_is_named_once_with_its_line(typed, caplog):
    reader = typed()
    reader.read(["a", "a Ж a \u0301Ж漢"], [7, 8])
    reader.read(["Ж", "Ж д"], [9, 10])
    assert [message.split(": the model does not know ") for message in caplog.messages] == [
        ["warning: my.en:8", "'Ж', U+0301, '漢', which its training text does not have; it reads each as unknown"],
        ["warning: my.en:10", "'д', which its training text does not have; it reads each as unknown"],
    ]


def test_of_many_unknown_characters_the_first_are_named_and_no_more_warnings_come(typed, caplog):
    reader = typed()
    reader.read(["".join(map(chr, range(0x4E00, 0x4E00 + MOST_REPORTED + 5)))])
    reader.read(["漢"])
    (message,) = caplog.messages
    assert message.count("', '") == MOST_REPORTED - 1 and " and 5 more, which" in message


def test_each_line_that_is_cut_is_named(typed, caplog):
    _, ids = typed(longest=3).read(["a", "a chat chat chat chat", "a"])
    assert len(ids[1]) > 3
    (message,) = caplog.messages
    assert message == (
        f"warning: my.en:2: {len(ids[1])} tokens; the model reads the first 3 and leaves out the rest: divide the line"
    )


def test_after_some_lines_that_are_cut_no_more_are_named(typed, caplog):
    typed(longest=1).read(["chat chat"] * (MOST_CUT_LINES + 5))
    assert len(caplog.messages) == MOST_CUT_LINES
    assert caplog.messages[-1].endswith("; further such lines are not named")


def test_a_single_text_in_the_place_of_a_list_is_refused_rather_than_read_by_letters(typed):
    with pytest.raises(InputError, match="expected a list of sentences, found the text 'the cat"):
        typed().read("the cat .")


INVISIBLE = "the c\xadat \u200bsees\xa0the d\ufeffog\r?\xad"


def test_invisible_characters_are_told_in_one_warning_with_their_number_and_what_is_read(typed, caplog):
    reader = typed()
    texts, ids = reader.read(["the cat", INVISIBLE, "\u200b", "the \u200d cat"], [4, 5, 6, 7])
    assert texts[1] == INVISIBLE and ids[1:] == typed().read(["the cat sees the dog ?", "", "the cat"])[1]
    reader.read([INVISIBLE])
    assert caplog.messages == [
        "warning: my.en:5: invisible characters that the training text does not have, left out: U+00AD (2), U+200B "
        "(1), U+200D (1), U+FEFF (1); read as a space: U+000D (1), U+00A0 (1)"
    ]
    reader.read(["the cat", "the\ufe0f cat"])
    assert caplog.messages[1:] == [
        "warning: my.en:2: invisible characters that the training text does not have, left out: U+FE0F (1)"
    ]


def test_lines_are_compared_with_the_training_text_as_they_are_read(typed, caplog):
    reader = typed(measure_look(["the cat ."], tokenized=True), longest=1000)
    reader.read(["the dog ?\u200b"])
    assert [message for message in caplog.messages if "look like" in message] == []
    reader.read(["the cat.\u200b"])
    assert any("marks are attached to words" in message for message in caplog.messages)


def test_lines_that_are_divided_afterwards_keep_their_spaces(typed, caplog):
    reader = typed()
    assert reader.readable(["the cat.\u200b\tthe d\xadog ."]) == ["the cat.\tthe dog ."]
    assert len(caplog.messages) == 1
    with pytest.raises(InputError, match=r"my\.en:2: .* half a character"):
        reader.readable(["a", "\ud800"])
    with pytest.raises(InputError, match=r"my\.en:1: character 2 is NUL"):
        reader.read(["a\0"])
