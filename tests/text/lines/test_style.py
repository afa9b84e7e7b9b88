"""What a text looks like, measured and kept."""

import json

import pytest

from qkv.text.lines.style import StyleMeter, TextStyle
from tests.support import change_json
from tests.support.text import measure_look

NAMES = ["the dog sees Jane .", "Jane sings , and I sing .", "", "where is the dog ?"]
SENTENCES = ["The dog sees Jane.", "Jane sings, and I sing.", "where is it?"]


@pytest.mark.parametrize(
    ("lines", "capitals", "capitalised"),
    [
        (NAMES, "names", {"Jane", "I"}),
        (SENTENCES, "sentences", set()),
        (["the dog .", "42 été"], "none", set()),
        ([], "none", set()),
    ],
)
def test_capitals_stand_nowhere_or_in_names_or_where_sentences_begin(lines, capitals, capitalised):
    style = measure_look(lines, tokenized=True)
    assert (style.capitals, style.capitalised) == (capitals, capitalised)


def test_words_with_marks_are_kept_of_tokenised_text_alone():
    assert measure_look(NAMES, tokenized=True).marked == {".", ",", "?"}
    assert measure_look(SENTENCES, tokenized=False).marked == frozenset()


def test_a_mark_that_is_attached_by_mistake_makes_no_word():
    lines = ["a park .", "a park .", "in the park.", "mr. park doesn 't", "&apos; &apos; &apos;t"]
    assert measure_look(lines, tokenized=True).marked == {".", "mr.", "'t", "&apos;", "&apos;t"}


@pytest.mark.parametrize(("line", "escaped"), [("it &apos;s", True), ("&#91; 1", True), ("it 's & so &c;", False)])
def test_escaped_characters_are_noticed(line, escaped):
    assert measure_look(["a", line], tokenized=True).escaped == escaped


def test_the_example_is_a_short_sentence():
    assert measure_look(["", "long " * 30, "short one .", "a ."], tokenized=True).example == "short one ."


@pytest.mark.parametrize("lines", [NAMES, SENTENCES, []])
def test_a_look_is_read_back_as_it_was_written(lines, tmp_path):
    style = measure_look(lines, tokenized=True)
    style.write(tmp_path / "look.json")
    assert TextStyle.read(tmp_path / "look.json") == style
    assert set(json.loads((tmp_path / "look.json").read_text())) == set(TextStyle.__dataclass_fields__)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"example": "a"}', pytest.param("[" * 200_000, id="deeply nested")])
def test_a_look_that_is_missing_or_damaged_is_none(text, tmp_path):
    assert TextStyle.read(tmp_path / "look.json") is None
    (tmp_path / "look.json").write_text(text)
    assert TextStyle.read(tmp_path / "look.json") is None


@pytest.mark.parametrize("fact", [{"marked": 3}, {"more": 1}])
def test_a_look_with_a_fact_of_another_kind_is_none(fact, tmp_path):
    measure_look(NAMES, tokenized=True).write(tmp_path / "look.json")
    change_json(tmp_path / "look.json", **fact)
    assert TextStyle.read(tmp_path / "look.json") is None


def test_invisible_characters_are_counted_part_by_part():
    meter, following = StyleMeter(tokenized=True), StyleMeter(tokenized=True)
    meter.add(["a\xad cat\u200b .", "\xad"])
    following.add(["a\xa0cat", "a cat"])
    meter.update(following)
    assert meter.invisible == {"U+00AD": 2, "U+200B": 1, "U+00A0": 1}
