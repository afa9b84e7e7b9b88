"""Text survives the tokenizer, and every token knows its word."""

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.config.tokenizer import TokenizerSettings
from qkv.errors import InputError
from qkv.text.lines.line import words_of
from qkv.text.tokens.run_tokenizer import VocabularySizeError, train_tokenizer
from qkv.text.tokens.special_tokens import BOS, EOS, PAD, UNK
from qkv.text.tokens.tokenizer import Tokenizer
from tests.support.text import SENTENCES

LETTERS = "aeoéßœÉStdchu?"
TEXTS = st.text(st.sampled_from(LETTERS + "  "), max_size=25)
KINDS = ["bpe", "unigram"]


@pytest.fixture(params=KINDS, scope="module")
def model(request, tokenizers):
    return tokenizers[request.param]


def train(path, sentences=SENTENCES, **settings):
    train_tokenizer(sentences, path, **({"kind": "bpe", "vocabulary_size": 80, "character_coverage": 1.0} | settings))
    return Tokenizer(path)


def test_special_tokens_have_their_fixed_ids(model):
    assert (PAD, UNK, BOS, EOS) == (0, 1, 2, 3)
    assert model.pieces([PAD, UNK, BOS, EOS]) == ["<pad>", "<unk>", "<s>", "</s>"]


def test_the_vocabulary_is_as_large_as_asked_for(tokenizers):
    assert [tokenizers[kind].vocabulary_size for kind in KINDS] == [80, 50]


def test_a_tokenizer_shows_its_size_and_its_tags(tokenizer, tmp_path):
    assert repr(tokenizer) == "<Tokenizer: 80 tokens>"
    assert repr(train(tmp_path / "two", tags=["<2fr>", "<2de>"])) == "<Tokenizer: 80 tokens, tags <2fr> <2de>>"
    assert (
        repr(train(tmp_path / "five", tags=[f"<2{letter}>" for letter in "abcde"])) == "<Tokenizer: 80 tokens, 5 tags>"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_the_lowest_coverage_of_a_config_is_one_that_the_trainer_takes(kind, tmp_path):
    lowest = next(
        bound.ge for bound in TokenizerSettings.model_fields["character_coverage"].metadata if hasattr(bound, "ge")
    )
    assert train(tmp_path / "model", kind=kind, vocabulary_size=50, character_coverage=lowest).vocabulary_size == 50


def test_accents_are_not_composed_and_ligatures_not_taken_apart(tmp_path):
    texts = ["e\u0301 é ﬁ Å ² ½"] * 20
    again = train(tmp_path / "model", texts, vocabulary_size=20)
    assert again.decode(again.encode(texts[:1])) == texts[:1]


@given(text=TEXTS)
def test_encoding_and_decoding_lose_only_repeated_spaces(model, text):
    assert model.decode(model.encode([text])) == [" ".join(words_of(text))]


@given(text=TEXTS)
def test_a_tokens_word_is_the_same_by_its_bytes_and_by_its_spelling(model, text):
    ids = model.encode([text])[0]
    by_bytes, by_spelling = model.words_from_text([text])[0], model.words_from_ids(ids)
    assert by_bytes == by_spelling
    assert len(by_bytes) == len(ids)


@given(text=TEXTS)
def test_the_tokens_of_a_word_spell_it(model, text):
    ids, words = model.encode([text])[0], model.words_from_text([text])[0]
    spelt = ["" for _ in words_of(text)]
    for piece, word in zip(model.pieces(ids), words, strict=True):
        if word is not None:
            spelt[word] += piece.replace("\u2581", "")
    assert spelt == words_of(text)


@given(text=TEXTS)
def test_the_last_character_of_a_token_is_the_same_by_its_bytes_and_by_its_spelling(model, text):
    ids = model.encode([text])[0]
    found = model.words_from_ids(ids, "characters")
    assert model.words_from_text([text], "characters")[0] == found
    read = ""
    for piece, last in zip(model.pieces(ids), found, strict=True):
        read += piece.replace("\u2581", "")
        if last is not None and piece != "\u2581":
            assert read == "".join(text.split())[: last + 1]


def test_every_subword_counts_as_a_word_but_special_tokens(tokenizer):
    ids = tokenizer.encode(["the ☃ cat"])[0]
    assert tokenizer.words_from_text(["the ☃ cat"], "subwords")[0] == list(range(len(ids)))
    assert tokenizer.words_from_ids([*ids, EOS], "subwords") == [*range(len(ids)), None]
    assert tokenizer.count_tokens(["the ☃ cat", ""]) == [len(ids), 0]
    assert tokenizer.count_tokens([]) == []


def test_an_unknown_character_of_a_translation_is_one_character(model):
    the = model.encode(["the"])[0]
    words = model.words_from_ids([*the, UNK, EOS], "characters")
    assert words[-3:] == [2, 3, None]


def test_special_tokens_belong_to_no_word_and_leave_no_text(tokenizer):
    ids = [BOS, *tokenizer.encode(["the cat"])[0], EOS, PAD, PAD]
    words = tokenizer.words_from_ids(ids)
    assert [words[0], *words[-3:]] == [None] * 4
    assert None not in words[1:-3]
    assert tokenizer.decode([ids]) == ["the cat"]


def test_a_character_never_seen_is_one_unknown_token_of_its_word(model):
    text = "the ☃ cat☃"
    ids, words = model.encode([text])[0], model.words_from_text([text])[0]
    assert ids.count(UNK) == 2
    assert [word for token, word in zip(ids, words, strict=True) if token == UNK] == [1, 2]


def test_words_of_ids_are_those_of_the_decoded_text_around_unknown_tokens(model):
    the, cat = (model.encode([word])[0] for word in ("the", "cat"))
    ids = [*the, UNK, *cat, UNK]
    words = model.words_from_ids(ids)
    decoded = words_of(model.decode([ids])[0])
    assert max(word for word in words if word is not None) + 1 == len(decoded)
    assert words[len(the)] == 1
    assert [decoded[0], decoded[2]] == ["the", "cat"]


@given(ids=st.lists(st.integers(0, 79), max_size=8))
def test_any_ids_count_as_many_words_as_their_text(tokenizer, ids):
    """A model may write tokens that no text is encoded to."""
    words = {word for word in tokenizer.words_from_ids(ids) if word is not None}
    assert words == set(range(len(words_of(tokenizer.decode([ids])[0]))))


def test_sentences_of_no_tokens_are_kept_in_place(model):
    rows = model.encode(["", "the", " ", "cat"])
    assert [bool(row) for row in rows] == [False, True, False, True]
    assert model.decode(rows) == ["", "the", "", "cat"]
    assert model.encode([]) == []
    assert model.decode([]) == []


@pytest.mark.parametrize("kind", KINDS)
def test_training_twice_gives_the_same_model(tmp_path, kind, tokenizers):
    settings = {"kind": kind, "vocabulary_size": tokenizers[kind].vocabulary_size}
    assert train(tmp_path / "again", **settings).model == tokenizers[kind].model


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [5, 5000])
def test_a_vocabulary_that_does_not_fit_the_text_is_refused(tmp_path, kind, size):
    with pytest.raises(VocabularySizeError, match=rf"tokenizer.vocabulary_size: {size} does not fit") as refusal:
        train(tmp_path / "model", kind=kind, vocabulary_size=size)
    fitting = refusal.value.fitting
    assert f"; set {fitting} or {'more' if size < fitting else 'less'}" in str(refusal.value)
    assert "\n" not in str(refusal.value) and not list(tmp_path.iterdir())
    assert train(tmp_path / "model", kind=kind, vocabulary_size=fitting).vocabulary_size == fitting
    with pytest.raises(VocabularySizeError):
        train(tmp_path / "model", kind=kind, vocabulary_size=fitting + (1 if size > fitting else -1))


def test_a_file_that_is_no_tokenizer_is_named(tokenizer, tmp_path):
    no_text = tokenizer.model.replace("é".encode(), b"\x81\x81")  # in the place of a piece
    for content in (None, b"", b"no model", no_text):
        path = tmp_path / "tokenizer.model"
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(InputError, match=r"tokenizer.model: not a tokenizer"):
            Tokenizer(path)


@pytest.mark.parametrize("clear", [lambda: keras.utils.set_random_seed(1), keras.backend.clear_session])
def test_a_tokenizer_outlives_tensorflows_caches(tokenizer, clear):
    ids = tokenizer.encode(SENTENCES)
    clear()
    assert tokenizer.encode(SENTENCES) == ids


def test_decoding_takes_numpy_rows(tokenizer):
    ids = tokenizer.encode(["the cat"])
    assert tokenizer.decode(np.asarray(ids)) == ["the cat"]


def test_words_of_many_sentences_equal_those_of_each_alone(tokenizer):
    texts = ["the cat sees the dog", "", " cats ", "dog"]
    assert tokenizer.words_from_text(texts) == [tokenizer.words_from_text([text])[0] for text in texts]
    assert tokenizer.words_from_text([]) == []


LEFT_OUT = st.sampled_from("\xad\u200b\u200c\u200d\u202e\u2066\ufeff\ufe0f\u034f\u3164\u115f\x01\x7f\u06dd\U000e0041\0")


@st.composite
def with_characters_between(draw, texts, characters):
    """A text, and the same with some characters inserted."""
    text = draw(texts)
    longer = text
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(longer)))
        longer = longer[:place] + draw(characters) + longer[place:]
    return text, longer


@given(texts=with_characters_between(TEXTS, LEFT_OUT))
def test_characters_that_are_left_out_change_neither_ids_nor_the_numbers_of_words(model, texts):
    text, longer = texts
    assert model.encode([longer]) == model.encode([text]) and model.count_tokens([longer]) == model.count_tokens([text])
    (words,), (longer_words,) = model.words_from_text([text]), model.words_from_text([longer])
    # A word of such characters alone, between two spaces, keeps its number.
    read = [number for number, word in enumerate(words_of(longer)) if model.as_read(word)]
    assert longer_words == [None if word is None else read[word] for word in words]
    if len(words_of(longer)) == len(words_of(text)):
        assert longer_words == words


@given(texts=with_characters_between(TEXTS, st.sampled_from("\r\t\xa0\u3000\u2028\x85")))
def test_white_space_without_a_token_is_read_as_a_space_and_divides_no_word_that_is_counted(model, texts):
    _, longer = texts
    spaced = "".join(" " if character.isspace() else character for character in longer)
    assert model.encode([longer]) == model.encode([spaced])
    words, found = words_of(longer), model.words_from_text([longer])[0]
    assert max((word for word in found if word is not None), default=-1) < len(words)
    for token, word in zip(model.pieces(model.encode([longer])[0]), found, strict=True):
        assert word is None or token.strip("\u2581") in words[word]


def test_an_accent_after_a_character_that_is_left_out_is_composed_with_its_letter(model):
    text = "e\u200d\u0301te\xad\u0301 e\u0301"
    assert model.encode([text]) == model.encode(["été é"])
    assert model.words_from_text([text]) == model.words_from_text(["été é"])


@pytest.mark.parametrize("kind", KINDS)
def test_characters_of_the_training_text_are_read_and_not_left_out(kind, tmp_path):
    texts = ["می\u200cخواهم a\xa0! ❤\ufe0f", "a می خواهم ا ❤ !"] * 20
    model = train(tmp_path / "model", texts, kind=kind, vocabulary_size=20)
    assert not {*"\u200c\xa0\ufe0f"} & {*"".join(model.unread)} and {"\u200d", "\xad"} <= {*model.unread.left_out}
    for text in texts[:2]:
        assert model.as_read(text) == text and UNK not in model.encode([text])[0]
    assert model.encode(["می\u200cخواهم"]) != model.encode(["میخواهم"])
    assert model.encode(["می\u200cخو\xadاهم"]) == model.encode(["می\u200cخواهم"])
    assert model.side_models[0].encode(["a\xad"])[0][-1] == UNK  # training text stays as it is


def test_a_line_without_what_is_left_out_keeps_the_numbers_of_its_words(model):
    line = "t\xadhe \u200b \u200b\u200d cat\xa0\ufeff  \xad!"
    assert model.without_format_characters(line) == "the \u200b \u200b\u200d cat\xa0  !"
    assert model.without_format_characters("the cat") == "the cat"
