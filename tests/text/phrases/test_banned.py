"""A ban holds for every segmentation, and forbids nothing else."""

import itertools

import numpy as np
import pytest

from qkv.errors import InputError
from qkv.text.phrases import banned
from qkv.text.phrases.banned import NO_STATE, make_ban_table, read_banned
from qkv.text.phrases.token_text import TokenText
from qkv.text.tokens.special_tokens import EOS, PAD
from tests.support.text import PIECES, SENTENCES, ToyTokenizer, contains_words

LETTERS = [token for token in range(len(PIECES)) if token > EOS]


def may_be_written(table, ids):
    state = 0
    for token in ids:
        state = table.following[state, token]
        if state == NO_STATE:
            return False
    return True


@pytest.mark.parametrize("tokenized", [True, False])
@pytest.mark.parametrize("phrases", [["ab"], ["a b", "b"], ["ab a", "a ab", "bb"], ["a"]])
def test_a_text_may_be_written_if_it_contains_no_banned_phrase_however_it_is_spelt(phrases, tokenized):
    tokenizer = ToyTokenizer([*PIECES, "."])
    tokens = TokenText(tokenizer, tokenized)
    table = make_ban_table([tokens.of_text(phrase) for phrase in phrases], tokens)
    rows = [row for n in range(5) for row in itertools.product([*LETTERS, len(PIECES)], repeat=n)]
    allowed = 0
    for row, text in zip(rows, tokenizer.decode(rows), strict=True):
        holds = any(contains_words(text, phrase, tokenized) for phrase in phrases)
        assert may_be_written(table, [*row, EOS]) == (not holds), text
        state = np.int64(0)
        for token in row:
            state = table.following[state, token] if state != NO_STATE else NO_STATE
        if state != NO_STATE:
            allowed += 1
            assert (state >= table.closed) == holds  # of all that is banned, only the last word may still go on
    assert 100 < allowed < len(rows)


def test_a_state_that_leads_nowhere_is_not_entered():
    tokens = TokenText(ToyTokenizer(["<pad>", "<unk>", "<s>", "</s>", "▁ab", "▁c"]), tokenized=True)
    table = make_ban_table([tokens.of_text("ab")], tokens)
    assert table.following[0, 4] == NO_STATE and table.following[0, 5] >= 0


def test_tokens_that_add_nothing_change_nothing_and_large_tables_are_made_alike(tokenizer):
    tokens = TokenText(tokenizer, tokenized=True)
    words = sorted({word for sentence in SENTENCES for word in sentence.split()})
    table = make_ban_table(list(map(tokens.of_text, words)), tokens)
    open_states = np.arange(table.closed)
    np.testing.assert_array_equal(table.following[open_states, PAD], open_states)
    for sentence, ids in zip(SENTENCES, tokenizer.encode(SENTENCES), strict=True):
        assert not may_be_written(table, [*ids, EOS]), sentence


@pytest.fixture
def read(tmp_path, tokenizer):
    def make(text):
        (tmp_path / "ban.fr").write_text(text, encoding="utf-8")
        return read_banned(tmp_path / "ban.fr", TokenText(tokenizer, tokenized=True))

    return make


def test_phrases_are_found_in_texts_and_in_beginnings(read, tokenizer):
    phrases = read("le  chat\nÉva\nle chat\n漢\n")
    assert phrases.texts == ("le chat", "Éva", "漢")  # what this vocabulary cannot write never appears
    of_text = phrases.tokens.of_text
    assert phrases.find(of_text("voit le chat")) == "le chat" and phrases.find(of_text("le chaton")) is None
    begun = [phrases.find_in_beginning(ids) for ids in tokenizer.encode(["le chat", "le chat voit"])]
    assert begun == [None, "le chat"]


def test_too_long_lists_are_refused(read, monkeypatch):
    monkeypatch.setattr(banned, "LARGEST_TABLE", 800)
    with pytest.raises(InputError, match=r"ban\.fr: 12 bytes; expected at most 8 for a vocabulary of 80 tokens"):
        read("le chat voit")
