"""Words that are given by a tokenised copy of a text."""

import re
from dataclasses import replace

import pytest

from qkv.alignment.aligned_text import number_words, read_given_words, read_pairs, split_pair
from qkv.errors import InputError
from qkv.text.lines import moses
from qkv.text.lines.line import words_of
from tests.support import ROOT

SENTENCES = ["猫吃苹果。", "", "你好!"]


def write(folder, *lines):
    path = folder / "words"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_a_copy_may_differ_by_spaces_alone(tmp_path):
    lines = ["猫 吃 苹果 。", "", "你好 !"]
    assert list(read_given_words(write(tmp_path, *lines), SENTENCES)) == lines


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["猫 吃 苹果 。", ""], "2 lines for 3 sentences; expected a tokenised copy"),
        (["猫 吃 苹果 。", "", "您 好 !"], ":3: expected the characters of '你好!', .* found '您 好 !'"),
        (["猫 吃 苹果", "", "你好 !"], ":1: expected the characters of '猫吃苹果。'"),
    ],
)
def test_another_text_is_refused_with_its_line(tmp_path, lines, message):
    with pytest.raises(InputError) as error:
        read_given_words(write(tmp_path, *lines), SENTENCES)
    assert re.search(message, str(error.value))


def test_a_token_belongs_to_the_word_of_its_last_character(make_record):
    record = replace(make_record(0, (0, 2, 3, 4, None), (0, 1, None)), source="猫吃苹果。", source_unit="characters")
    numbered = number_words(record, "猫 吃 苹果 。", None)
    assert numbered.source_words == [0, 2, 2, 3, None]
    assert numbered.target_words == record.target_words


@pytest.mark.parametrize(
    ("read", "written", "words"),
    [
        ("the cat eats .", "The cat eats.", [0, 1, 2, 2]),
        ("&quot; the cat &quot; eats", "“The cat” eats", [0, 0, 1, 1, 2]),
        ("he 's here , now", "He\u2019s here, now", [0, 0, 1, 1, 2]),
        ("a b", "a  b", [0, 1]),
        ("i̇stanbul .", "İstanbul.", [0, 0]),
        ("... no", "… no", [0, 1]),
    ],
)
def test_words_that_were_divided_keep_the_numbers_of_those_that_were_written(make_record, read, written, words):
    record = replace(make_record(0, (None,), (*range(len(words)), None)), hypothesis=read)
    assert number_words(record, None, written).target_words == [*words, None]


@pytest.mark.parametrize("language", ["en", "fr"])
def test_each_word_of_the_demo_is_found_in_the_plain_text_that_it_came_from(make_record, language):
    lines = (ROOT / f"data/demo/test.{language}").read_text(encoding="utf-8").splitlines()
    for line in lines[:200]:
        written, words = moses.detokenize(line, language), line.split(" ")
        record = replace(make_record(0, (*range(len(words)), None), (None,)), source=line)
        (numbers, given) = number_words(record, written, None).source_words, written.lower().split(" ")
        assert numbers == [*sorted(numbers[:-1]), None]
        assert all(word.lower() in given[number] for word, number in zip(words, numbers, strict=False))


def test_words_may_hold_white_space_other_than_spaces(make_record):
    line = "a\u00a0b  c \u00a0 d\u3000"
    assert words_of(line) == ["a\u00a0b", "c", "\u00a0", "d\u3000"]
    record = replace(make_record(0, (0, 1, 2, 3, None)), source="a\u00a0b c\u00a0d", source_unit="characters")
    assert number_words(record, line, None).source_words == [0, 0, 1, 3, None]


@pytest.mark.parametrize(
    ("line", "pair"),
    [
        ("a b\tc d", ("a b", "c d")),
        ("a b ||| c d", ("a b", "c d")),
        ("a|||c", ("a", "c")),
        ("a ||| b\tc ||| d", ("a ||| b", "c ||| d")),  # a tab decides
        (" a \t c ", (" a ", " c ")),
        ("\tc", ("", "c")),
        ("a\t", ("a", "")),
        ("||| c", ("", "c")),
        (" |||", ("", "")),
        ("\t", ("", "")),
    ],
)
def test_a_line_is_divided_at_its_tab_or_else_at_the_bars(line, pair):
    assert split_pair(line, "here") == pair


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "in:7: expected a sentence pair, source and target with a tab or ||| between them, found ''"),
        ("a || b", "found 'a || b'; two files become such lines by: paste"),
        ("a\tb\tc", "in:7: expected one tab, between source and target, found 2; leave out other columns"),
        ("a ||| b ||| c", "in:7: expected one |||, between source and target, found 2"),
        ("a\tb\0", "in:7: character 4 is NUL"),
    ],
)
def test_a_line_that_is_no_pair_is_refused_with_its_number(line, message):
    with pytest.raises(InputError) as error:
        split_pair(line, "in:7")
    assert message in str(error.value)


def test_pairs_before_a_wrong_line_are_given_first():
    pairs = read_pairs([["a\tA", "b\tB"], ["c\tC", "wrong", "d\tD"], ["e\tE"]], "in")
    assert [(next(pairs).source, next(pairs).target)] == [(["a", "b"], ["C"])]
    with pytest.raises(InputError, match="in:4: expected a sentence pair"):
        next(pairs)
    assert next(pairs, None) is None
