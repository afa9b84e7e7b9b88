"""Files of prefixes have a line for each sentence, which fits the model."""

import pytest

from qkv.errors import InputError
from qkv.text.phrases.sentence_files import ConstraintFiles
from qkv.text.phrases.token_text import TokenText


@pytest.fixture
def read(tmp_path, tokenizer):
    def make(text, max_positions=24):
        (tmp_path / "prefix.fr").write_text(text, encoding="utf-8")
        return ConstraintFiles(tmp_path / "prefix.fr", None, None, TokenText(tokenizer, tokenized=True), max_positions)

    return make


def test_prefixes_are_taken_in_turn_and_empty_lines_give_nothing(read, tokenizer):
    prefixes = read("le chat\n\nÉva\n")
    assert prefixes.take(2)[0] == [*tokenizer.encode(["le chat"]), []]
    assert prefixes.take(1)[0] == tokenizer.encode(["Éva"])
    prefixes.check_all_taken()


@pytest.mark.parametrize("counts", [[4], [2, 2]])
def test_fewer_lines_than_sentences_are_refused(read, counts):
    prefixes = read("a\nb\nc\n")
    with pytest.raises(InputError, match=r"prefix\.fr: 3 lines, and there are more sentences to translate"):
        for count in counts:
            prefixes.take(count)


def test_a_prefix_leaves_room_for_a_token(read, tokenizer):
    (ids,) = tokenizer.encode(["le petit chien"])
    assert read("a\nle petit chien\n", len(ids) + 1).take(2)[0][1] == ids
    with pytest.raises(
        InputError, match=rf"prefix\.fr:2: {len(ids)} tokens; expected fewer than model\.max_positions \({len(ids)}\)"
    ):
        read("a\nle petit chien\n", len(ids)).take(2)


def test_phrases_are_read_without_invisible_characters_which_are_told_once_a_file(tmp_path, tokenizer, caplog):
    tokens = TokenText(tokenizer, tokenized=True)
    texts = {
        "prefix": "le ch\xadat\nle\xa0\xadchat\n",
        "require": "ch\u200bat\tchien\nle\xa0chat\n",
        "ban": "d\ufeffog\n",
    }
    files = {name: tmp_path / name for name in texts}
    for name, text in texts.items():
        files[name].write_text(text, encoding="utf-8")
    given = ConstraintFiles(files["prefix"], files["require"], files["ban"], tokens, 24)
    prefixes, required = given.take(2)
    assert prefixes == tokenizer.encode(["le chat"]) * 2
    assert [[phrase.text for phrase in row] for row in required] == [["chat", "chien"], ["le chat"]]
    assert given.banned.texts == ("dog",)
    told = [message.removeprefix("warning: ").partition(": ") for message in caplog.messages]
    assert {place: message.partition(", ")[2] for place, _, message in told} == {
        f"{tmp_path}/ban:1": "left out: U+FEFF (1)",
        f"{tmp_path}/prefix:1": "left out: U+00AD (2); read as a space: U+00A0 (1)",
        f"{tmp_path}/require:1": "left out: U+200B (1); read as a space: U+00A0 (1)",
    }
    assert len(told) == 3


@pytest.mark.parametrize("name", ["prefix", "require", "ban"])
def test_a_phrase_with_a_nul_is_refused(tmp_path, tokenizer, name):
    (tmp_path / name).write_text("ch\0at\n", encoding="utf-8")
    files = {each: tmp_path / each if each == name else None for each in ("prefix", "require", "ban")}
    with pytest.raises(InputError, match=rf"{name}:1: character 3 is NUL"):
        ConstraintFiles(*files.values(), TokenText(tokenizer, tokenized=True), 24).take(1)
