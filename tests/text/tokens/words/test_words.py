"""What counts as a word: between spaces, or, in text without spaces, a subword or a character."""

import pytest

from qkv.text.lines.line import words_of
from qkv.text.tokens.words import (
    BETWEEN_SPACES,
    NO_WORD,
    WordSegmenter,
    WordUnits,
    has_spaces,
    word_numbers,
    word_of_each_token,
)

SPACED = {
    "English": ["The cat eats an apple.", "Hello!", "Go."],
    "single words": ["Hello!", "Go.", "Nevertheless."],
    "German": ["Donaudampfschifffahrtsgesellschaft", "Guten Tag!"],
    "Korean": ["고양이가 사과를 먹습니다.", "안녕하세요."],
    "Hebrew": ["החתול אוכל תפוח.", "שלום."],
    "segmented Chinese": ["猫 吃 苹果 。", "他 是 中华人民共和国 公民 。"],
    "segmented Japanese": ["私 は りんご を 食べ ます 。"],
    "segmented Thai": ["ฉัน ชอบ กิน แอปเปิ้ล มาก"],
    "nothing": ["", "  "],
}
UNSPACED = {
    "Chinese": ["猫吃苹果。", "今天天气很好,我们去公园吧。", "OK,好的!"],
    "short Chinese": ["你好。", "好!"],
    "Japanese": ["私はりんごを食べます。", "おはよう"],
    "Thai, with a space between clauses": ["ฉันชอบกินแอปเปิ้ลมาก แต่เขาชอบกินกล้วยมากกว่า"],
    "Lao": ["ຂ້ອຍມັກກິນໝາກໂປມ"],
    "Khmer": ["ខ្ញុំចូលចិត្តញ៉ាំផ្លែប៉ោម"],
    "Burmese": ["ကျွန်တော်ပန်းသီးစားရတာကြိုက်တယ်။"],
    "any script": ["thecateatstheappleinthegarden", "thedogsleepsunderthetable"],
}


@pytest.mark.parametrize("name", SPACED)
def test_spaces_are_found(name):
    assert has_spaces(SPACED[name])


@pytest.mark.parametrize("name", UNSPACED)
def test_their_absence_is_found(name):
    assert not has_spaces(UNSPACED[name])


def test_a_setting_comes_before_what_is_known_and_that_before_what_is_found():
    text = UNSPACED["Chinese"]
    assert WordSegmenter().units(text, text) == ("subwords", "subwords")
    assert WordSegmenter(otherwise="characters").units(SPACED["English"], text) == ("spaces", "characters")
    assert WordSegmenter(tokenized=True).units(text, text) == BETWEEN_SPACES
    assert WordSegmenter("characters", tokenized=True).units(text, text) == ("characters", "spaces")


def test_only_sides_without_a_setting_are_told_of(caplog):
    with caplog.at_level("INFO"):
        WordSegmenter("characters").log_units(WordUnits("characters", "subwords"))
        WordSegmenter().log_units(BETWEEN_SPACES)
    assert caplog.messages == [
        "the target has no spaces between words: its subwords count as words (data.words.target)"
    ]


def test_tags_before_sources_do_not_pass_for_words():
    text = [f"<zh> {sentence}" for sentence in UNSPACED["short Chinese"]]
    assert WordSegmenter(tags=("<zh>",)).units(text, SPACED["English"]) == WordUnits("subwords", "spaces")
    assert WordSegmenter().units(text, SPACED["English"]) == BETWEEN_SPACES


def test_words_are_counted_by_unit():
    cutter = WordSegmenter(count_tokens=(lambda sources: [7] * len(sources), lambda targets: [8] * len(targets)))
    sentences = ["猫 吃\u3000苹果。", ""]
    assert cutter.count(sentences, sentences, WordUnits("spaces", "characters")) == ([2, 0], [5, 0])
    assert [len(words_of(text)) for text in sentences] == [2, 0]
    assert cutter.count(sentences, sentences, WordUnits("subwords", "subwords")) == ([7, 7], [8, 8])


def test_a_token_belongs_to_the_word_of_its_last_byte():
    text = "猫 吃苹果"  # 3 bytes a character
    ends = [3, 4, 10, 13]  # 猫, a lone space, 吃苹, 果
    assert word_of_each_token(text, ends, "spaces") == [0, 1, 1, 1]
    assert word_of_each_token(text, ends, "characters") == [0, 1, 2, 3]
    assert word_of_each_token(text, ends, "subwords") == [0, 1, 2, 3]
    assert word_numbers([3, 10], ends).tolist() == [0, 1, 1, NO_WORD]
