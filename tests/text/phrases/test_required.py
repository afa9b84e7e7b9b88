"""Required phrases: how they are written, and which are refused."""

import pytest

from qkv.errors import InputError
from qkv.text.phrases.required import MOST_PHRASES, encode_phrase, read_required, tokens_needed
from qkv.text.phrases.sentence_files import ConstraintFiles
from qkv.text.phrases.token_text import TokenText
from tests.support.text import SENTENCES, SPECIAL, ToyTokenizer


@pytest.fixture
def read(tmp_path, tokenizer):
    def make(text, max_positions=24, ban=None):
        (tmp_path / "require.fr").write_text(text, encoding="utf-8")
        (tmp_path / "ban.fr").write_text(ban or "", encoding="utf-8")
        tokens = TokenText(tokenizer, tokenized=True)
        return ConstraintFiles(
            None, tmp_path / "require.fr", tmp_path / "ban.fr" if ban else None, tokens, max_positions
        )

    return make


def test_lines_have_phrases_between_tabs(read, tokenizer):
    file = read("le chat\tÉva\tle  chat\n\nchien\n")
    first, second = file.take(2)[1]
    assert [phrase.text for phrase in first] == ["le chat", "Éva"] and second == []
    assert [[*phrase.ids] for phrase in first] == tokenizer.encode(["le chat", "Éva"])
    assert [phrase.text for phrase in file.take(1)[1][0]] == ["chien"]
    file.check_all_taken()


@pytest.mark.parametrize("tokenized", [True, False])
@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_what_is_written_decodes_to_the_phrase(kind, tokenized, tokenizers):
    tokens = TokenText(tokenizers[kind], tokenized)
    for word in {word for sentence in SENTENCES for word in sentence.split()}:
        phrase = encode_phrase(word, tokens, "here")
        before, between = tokenizers[kind].encode(["dog"])[0], " " * (tokenized or word.isalpha() or "'" in word)
        assert tokenizers[kind].decode([phrase.ids, [*before, *phrase.ids]]) == [word, f"dog{between}{word}"]


def test_scripts_without_spaces_are_written_without_one():
    pieces = [*SPECIAL, "▁", "▁漢字", "漢字", "。"]
    phrase = encode_phrase("漢字", TokenText(ToyTokenizer(pieces), tokenized=False), "here")
    assert phrase.ids == (6,)
    assert encode_phrase("漢字", TokenText(ToyTokenizer(pieces), tokenized=True), "here").ids == (5,)


def test_a_tokenizer_that_puts_no_space_before_a_text_cannot_write_a_word():
    class WithoutSpace(ToyTokenizer):
        def encode(self, texts):
            return [row[1:] for row in super().encode(texts)]

    with pytest.raises(InputError, match=r"here: 'ab' cannot be written with this vocabulary"):
        encode_phrase("ab", TokenText(WithoutSpace([*SPECIAL, "▁", "ab"]), tokenized=True), "here")


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("a\nchat\t\tÉva\n", r"require\.fr:2: an empty phrase; expected words or phrases separated by single tabs"),
        ("a\n" + "\t".join("abcdefghilmnoprst") + "\n", rf"require\.fr:2: 17 phrases; expected at most {MOST_PHRASES}"),
        ("a\nle petit chien voit Éva\tchat\n", r"require\.fr:2: the phrases need \d+ tokens; expected at most 9"),
    ],
)
def test_what_cannot_be_kept_to_is_refused(text, pattern, read):
    with pytest.raises(InputError, match=pattern):
        file = read(text, max_positions=99 if "phrases" in pattern and "17" in pattern else 9)
        file.take(2)
        file.check_all_taken()


def test_the_prefix_counts_too(tokenizer):
    lines, tokens = [("require.fr:1", "chat")], TokenText(tokenizer, tokenized=True)
    needed = tokens_needed(read_required(lines, [0], tokens, 99)[0])
    read_required(lines, [4], tokens, needed + 4)
    with pytest.raises(InputError, match=rf"require\.fr:1: the phrases need {needed} tokens after 4 of the prefix"):
        read_required(lines, [4], tokens, needed + 3)


def test_a_phrase_that_is_also_banned_is_refused(read):
    with pytest.raises(InputError, match=r"require\.fr:1: 'le petit chat' is required, and 'petit chat' is banned"):
        read("le petit chat\n", ban="x\npetit chat\n").take(1)
    assert read("le petit\tchat\n", ban="petit chat\n").take(1)[1]
