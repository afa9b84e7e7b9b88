"""Lines as sentences, and their translations as lines."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.errors import InputError
from qkv.text.lines.sentences import Paragraph, SentenceSplitter


@pytest.mark.parametrize(
    ("line", "sentences", "spaces"),
    [
        ("", [""], []),
        ("   ", ["   "], []),
        (" a cat. ", [" a cat. "], []),  # as it would be without splitting
        ("One.  Two!\tThree?", ["One.", "Two!", "Three?"], ["  ", "\t"]),
        ("the cat sleeps . the dog eats .", ["the cat sleeps .", "the dog eats ."], [" "]),
        ("Mr. Smith paid 3.50 dollars. He left.", ["Mr. Smith paid 3.50 dollars.", "He left."], [" "]),
        (" One. Two. ", ["One.", "Two."], [" "]),
    ],
)
def test_a_line_is_divided_into_sentences(line, sentences, spaces):
    assert SentenceSplitter("en")(line) == Paragraph(sentences, spaces)


def test_sentences_without_spaces_are_given_what_stands_between_translations():
    assert SentenceSplitter("zh-CN")("你好。我是猫！") == (["你好。", "我是猫！"], [" "])
    assert SentenceSplitter("zh_Hans", separator="")("你好。我是猫！").spaces == [""]


def test_each_sentence_of_a_line_with_a_tag_has_the_tag():
    split = SentenceSplitter("en", tags={"<back>"})
    assert split("<back> One. Two.") == (["<back> One.", "<back> Two."], [" "])
    assert split("<other> One. Two.").sentences == ["<other> One.", "Two."]
    assert split("<back>").sentences == ["<back>"]


def test_the_lines_of_a_text_are_divided_with_line_feeds_between_them():
    text = "One.  Two.\n\nThree.\n"
    paragraph = SentenceSplitter("en").divide_lines(text)
    assert paragraph == (["One.", "Two.", "", "Three.", ""], ["  ", "\n", "\n", "\n"])
    assert paragraph.join(paragraph.sentences) == text


def test_translations_are_joined_by_the_spaces_of_the_source():
    assert Paragraph(["One.", "Two!", "Three?"], ["  ", "\t"]).join(["Un.", "Deux !", "Trois ?"]) == (
        "Un.  Deux !\tTrois ?"
    )
    with pytest.raises(ValueError, match="longer"):
        Paragraph(["One.", "Two."], [" "]).join(["Un."])


@given(st.lists(st.sampled_from(["A cat.", "Is it?", "b", "«", ".", "。", "\u2028", " ", "  ", "3.5", "e.g.", "漢"])))
def test_what_is_divided_and_joined_is_the_line_but_for_its_ends(parts):
    line = "".join(parts)
    paragraph = SentenceSplitter("en", separator="")(line)
    assert paragraph.join(paragraph.sentences).strip() == line.strip()


def test_without_the_library_the_message_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentencex", None)
    with pytest.raises(InputError, match="pip install sentencex"):
        SentenceSplitter("en")
