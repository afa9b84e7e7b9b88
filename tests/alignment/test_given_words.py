"""Words that are given by a tokenised copy of a text."""

import re

import pytest

from pipeline.alignment.given_words import number_words, read_given_words
from pipeline.errors import InputError

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
    record = make_record(0, (0, 2, 3, 4, None), (0, 1, None))
    numbered = number_words(record, "猫 吃 苹果 。", None)
    assert numbered.source_words == [0, 2, 2, 3, None]
    assert numbered.target_words == record.target_words
