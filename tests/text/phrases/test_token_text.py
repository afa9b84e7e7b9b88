"""The symbols of tokens one after another are those of the text that they decode to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.text.phrases.token_text import DIVIDING, END, NOTHING, SPACE, UNSURE, TokenText, contains
from qkv.text.tokens.special_tokens import BOS, EOS, PAD
from tests.support.text import SENTENCES, SPECIAL, ToyTokenizer, contains_words

TEXTS = st.text(st.sampled_from("ab. é"), max_size=12)


def without_spare_spaces(symbols):
    kept = [one for one, before in zip(symbols, [SPACE, *symbols], strict=False) if (one, before) != (SPACE, SPACE)]
    return tuple(kept[:-1] if kept[-1:] == [SPACE] else kept)


@pytest.mark.parametrize("tokenized", [True, False])
@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_tokens_in_any_order_add_what_their_text_has(kind, tokenized, tokenizers):
    tokenizer = tokenizers[kind]
    tokens = TokenText(tokenizer, tokenized)
    every = [token for token in range(tokenizer.vocabulary_size) if token not in (PAD, BOS, EOS)]
    rows = [every, every[::-1], *tokenizer.encode(SENTENCES)]
    for ids, text in zip(rows, tokenizer.decode(rows), strict=True):
        assert without_spare_spaces(tokens.of_tokens(ids)) == tokens.of_text(text)
    assert tokens.of_tokens([PAD, BOS]) == [] and tokens.of_tokens([EOS]) == [END]
    assert tokens.symbols[EOS, 1:].tolist() == [NOTHING] * (tokens.symbols.shape[1] - 1)


def test_letters_join_and_other_characters_divide_where_text_is_not_tokenized():
    raw, tokenized = (TokenText(ToyTokenizer(), way) for way in (False, True))
    assert raw.of_text("é.") == (0xC3, 0xA9, ord(".") + DIVIDING)
    assert tokenized.of_text(" é. \u00a0 .") == (0xC3, 0xA9, ord("."), SPACE, ord("."))
    assert raw.of_text("漢")[0] >= DIVIDING  # of a script without spaces


def test_tokens_of_single_bytes_are_bytes():
    tokens = TokenText(ToyTokenizer([*SPECIAL, "a", "<0xC3>", "<0xA9>", "<0x62>", "<0x20>"]), False)
    assert tokens.of_tokens([4, 5, 6, 7, 8]) == [ord("a"), 0xC3 + UNSURE, 0xA9, ord("b"), SPACE]


@given(text=TEXTS, phrase=TEXTS.filter(str.strip), tokenized=st.booleans())
def test_whole_words_are_those_of_a_regular_expression(text, phrase, tokenized):
    tokens, phrase = TokenText(ToyTokenizer(), tokenized), " ".join(phrase.split())
    found = contains(tokens.of_text(text), tokens.of_text(phrase))
    assert found == contains_words(text, phrase, tokenized)
