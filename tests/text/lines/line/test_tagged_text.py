"""A tag is the first token of a source, and no text is cut into it."""

import pytest

from qkv.errors import InputError
from qkv.text.lines.line import find_tag, tagged_lines, without_tag
from qkv.text.tokens.run_tokenizer import train_tokenizer
from qkv.text.tokens.special_tokens import EOS
from qkv.text.tokens.tokenizer import Tokenizer
from tests.support.text import SENTENCES

TAGS = ("<back>", "<de>")


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def tokenizer(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("tagged") / "model"
    size = {"bpe": 80, "unigram": 50}[request.param]
    train_tokenizer(SENTENCES, path, kind=request.param, vocabulary_size=size, character_coverage=1.0, tags=TAGS)
    return Tokenizer(path)


def test_a_line_begins_with_a_tag_if_its_first_word_is_one():
    assert {find_tag(line, TAGS) for line in ("<de> a", "<de>")} == {"<de>"}
    assert {find_tag(line, TAGS) for line in ("<de>a", " <de> a", "a <de>", "")} == {None}
    for line, expected in {"<de> a b": "a b", "<de>": "", "<de>  a": " a", "<fr> a": "<fr> a"}.items():
        assert without_tag(line, TAGS) == expected
    assert tagged_lines(["a", "b"], ["<de>", None]) == ["<de> a", "b"]


def test_tags_have_the_ids_after_the_special_tokens(tokenizer):
    assert tokenizer.tags == {"<back>": EOS + 1, "<de>": EOS + 2}


def test_a_source_with_a_tag_has_it_as_its_first_token_and_a_target_is_cut_as_text(tokenizer):
    plain = tokenizer.of_target
    assert plain.tags == {} and plain.of_target is plain
    for sentence in SENTENCES:
        (ids,) = plain.encode([sentence])
        assert tokenizer.encode([f"<de> {sentence}", sentence, "<de>", ""]) == [[EOS + 2, *ids], ids, [], []]
        assert EOS + 2 not in plain.encode([f"<de> {sentence}"])[0]
        assert EOS + 2 not in tokenizer.encode([f"{sentence} <de> {sentence}"])[0]


def test_the_tag_of_a_tokenizer_is_put_before_sentences_that_begin_with_none(tokenizer):
    tagged = tokenizer.with_tag("<back>")
    assert tagged.with_tag("<back>") is tagged and tokenizer.tag is None and tagged.of_target.tag is None
    (ids,) = tokenizer.encode([SENTENCES[0]])
    assert tagged.encode([SENTENCES[0], f"<de> {SENTENCES[0]}", ""]) == [[EOS + 1, *ids], [EOS + 2, *ids], []]
    assert tagged.with_tag(None).encode([SENTENCES[0]]) == [ids]
    with pytest.raises(InputError, match=r"no tag '<bakc>'; expected one of its tags: <back>, <de>"):
        tokenizer.with_tag("<bakc>")


@pytest.mark.parametrize("unit", ["spaces", "subwords", "characters"])
def test_a_tag_in_the_text_is_a_word_and_one_that_is_put_before_it_is_none(tokenizer, unit):
    text = SENTENCES[1]
    (words,) = tokenizer.words_from_text([text], unit)
    tagged = tokenizer.with_tag("<back>")
    assert tagged.words_from_text([text], unit) == [[None, *words]]
    assert tagged.count_tokens([text]) == tokenizer.count_tokens([text]) == [len(words)]
    (typed,) = tagged.words_from_text([f"<de> {text}"], unit)
    first = len("<de>") - 1 if unit == "characters" else 0
    assert typed == [first, *(None if word is None else word + first + 1 for word in words)]


def test_a_tag_is_decoded_to_nothing(tokenizer):
    (ids,) = tokenizer.encode([f"<de> {SENTENCES[0]}"])
    assert tokenizer.decode([ids]) == tokenizer.decode([ids[1:]])


@pytest.mark.parametrize("unit", ["spaces", "characters"])
def test_a_tag_that_a_model_says_belongs_to_no_word_and_changes_no_other(tokenizer, unit):
    target = tokenizer.of_target
    (ids,) = target.encode([SENTENCES[0]])
    words = target.words_from_ids([*ids, EOS], unit)
    for place in range(len(ids) + 1):
        tagged = [*ids[:place], EOS + 1, EOS + 2, *ids[place:], EOS]
        assert target.decode([tagged]) == target.decode([ids])
        assert target.words_from_ids(tagged, unit) == [*words[:place], None, None, *words[place:]]


def test_a_model_without_tags_is_as_it_was(tmp_path):
    train_tokenizer(SENTENCES, tmp_path / "model", kind="bpe", vocabulary_size=60, character_coverage=1.0)
    tokenizer = Tokenizer(tmp_path / "model")
    assert tokenizer.tags == {} and tokenizer.of_target is tokenizer
    with pytest.raises(InputError, match="expected one of its tags: none"):
        tokenizer.with_tag("<de>")
