"""Whole texts: what of them is a sentence, that nothing else changes, and that translations are those of the run."""

import logging
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.api import Run
from qkv.errors import InputError
from qkv.live.direction import MOST_ALTERNATIVES, Direction
from qkv.markup import projection
from tests.support.random_runs import random_run

pytest.importorskip("sentencex")

TEXT = "  The cat sees. A dog sleeps !  \r\n\r\n\tThe cat ?\n"


@pytest.fixture(scope="module")
def run(tokenizer, tmp_path_factory):
    return random_run(tokenizer, tmp_path_factory.mktemp("direction"))


@pytest.fixture(scope="module")
def direction(run):
    decoding = run.config.decoding.model_copy(update={"search": "beam", "beam_size": 4, "n_best": 4})
    return Direction(run, run.with_config(run.config.model_copy(update={"decoding": decoding})))


def test_a_text_is_divided_into_sentences_and_the_rest(direction):
    divided = direction.divide(TEXT)
    assert divided.sentences == ["The cat sees.", "A dog sleeps !", "The cat ?"]
    assert divided.spaces == ["  ", " ", "  \r\n\r\n\t", "\n"]
    assert divided.join(["1", "2", "3"]) == "  1 2  \r\n\r\n\t3\n"


PIECES = ["The cat sees.", "A dog", "Éva!", " ", "  ", "\n", "\r\n", "\r", "\t", "\u2028", "\u00a0", "x" * 30, "." * 9]


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_sentences_and_spaces_are_the_text(direction, text):
    divided = direction.divide(text)
    assert len(divided.spaces) == len(divided.sentences) + 1
    assert all(sentence.strip() for sentence in divided.sentences)
    assert all(not space.strip() for space in divided.spaces)
    whole = divided.join(divided.sentences)
    # Sentences that touch, such as "One.Two", are given a space.
    assert "".join(whole.split()) == "".join(unicodedata.normalize("NFC", text).split())
    assert whole.count("\n") == text.count("\n") and whole.count("\r") == text.count("\r")


def test_a_sentence_that_is_too_long_is_divided_and_keeps_all_words(run, direction):
    text = " ".join(["the cat sees"] * 100) + " ."
    divided = direction.divide(text)
    assert len(divided.sentences) > 3 and divided.join(divided.sentences) == text
    lengths = [len(ids) for ids in run.tokenizer.encode(divided.sentences)]
    assert max(lengths) <= run.reader.max_tokens and min(lengths) > run.reader.max_tokens / 4
    assert direction.divide("x" * 300).join(direction.divide("x" * 300).sentences) == "x" * 300


def test_translations_are_those_of_the_run_sentence_by_sentence(run, direction):
    texts = ["The cat sees. A dog sleeps !", "Éva sees the dog ."]
    expected = Run(run).translate(texts, split=True)
    for text, translated in zip(texts, expected, strict=True):
        n_bests = direction.translate_sentences(direction.divide(text).sentences)
        assert n_bests == [[run.reader.detokenize(sentence.text)] for sentence in translated.sentences]


def test_alternatives_begin_with_the_best(direction):
    (n_best,) = direction.search_sentences(["the cat sees the dog ."])
    assert 1 < len(n_best) <= 1 + MOST_ALTERNATIVES


def test_nothing_of_a_text_is_logged(direction, caplog):
    with caplog.at_level(logging.DEBUG, "qkv"):
        divided = direction.divide("Ω \u200b secret. " + "x " * 200)
        direction.translate_sentences(divided.sentences)
    assert caplog.records == []


@pytest.mark.parametrize("text", ["a\0b", "a\ud800b"])
def test_what_is_no_text_is_refused(direction, text):
    with pytest.raises(InputError, match=r"^q: "):
        direction.divide(text)


def test_a_translation_begins_with_a_capital_only_if_the_source_does(run, direction):
    sentences = ["The cat sees .", "the cat sees ."]
    (capital,), (small,) = direction.translate_sentences(sentences)
    texts = [translation.text.strip() for translation in run.translator.translate(sentences)]
    assert capital[:1].isupper() and small[:1] == texts[1][:1] != capital[:1]


@pytest.mark.minutes
def test_tags_are_kept(direction):
    assert re.findall("<.*?>", *direction.translate_html(["<p>the <b>cat</b> sees.<br>A dog</p>"])) == [
        "<p>",
        "<b>",
        "</b>",
        "<br>",
        "</p>",
    ]


def test_preparing_finds_the_links_that_tags_need(run, direction, monkeypatch):
    asked = []
    monkeypatch.setattr(projection, "known_statistics", asked.append)
    direction.prepare()
    assert asked == [run]
