"""Text is divided into words as the gold alignments graca_enfr are, and no character but white space is lost."""

import io
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.manythings import tokenize_text
from data.manythings.tokenize_text import PATTERNS, tokenize, unify


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("They don't like Tom's.", "they do n't like tom 's ."),
        ("I can't, won't and isn't he'd've", "i ca n't , wo n't and is n't he 'd 've"),
        ("It’s five o'clock, ma'am", "it 's five o'clock , ma'am"),
        ("At 12.30 p.m.", "at 12.30 p.m ."),
        ("Mr. Smith left the U.S. at 5:00 a.m. for $2,000", "mr. smith left the u.s. at 5:00 a.m. for $ 2,000"),
        ("start-ups' rights (A5-0263/2000)", "start - ups ' rights ( a5 - 0263 / 2000 )"),
        ("“Wait… No!” he said", '" wait ... no ! " he said'),
        # As they stand in graca_enfr, and so to be left alone.
        ("the french presidency 's task is no easy one .", "the french presidency 's task is no easy one ."),
        ("the danish ' no ' vote", "the danish ' no ' vote"),
        ("tomorrow at 12.30 p.m .", "tomorrow at 12.30 p.m ."),
    ],
)
def test_english_is_divided_as_in_the_gold_alignments(text, words):
    assert tokenize(text, "en") == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Aujourd’hui, qu'y a-t-il\u202f?", "aujourd ' hui , qu ' y a - t - il ?"),
        ("L'ÉCOLE e\u0301tait\xa0«\u202fa\u0300 lui\u202f»\u2009!", 'l \' école était " à lui " !'),
        ("Le vote à 12h30, M. Smith.", "le vote à 12h30 , m. smith ."),
        ("10.000 yens, 4,5\xa0%", "10.000 yens , 4,5 %"),
        ("je félicite m. skinner .", "je félicite m. skinner ."),
    ],
)
def test_french_is_divided_as_in_the_gold_alignments(text, words):
    assert tokenize(text, "fr") == words


@given(st.text(st.characters(codec="utf-8")) | st.text("aé'n’t.-0,12 \xa0mr"), st.sampled_from(sorted(PATTERNS)))
def test_tokenizing_changes_only_white_space(text, language):
    words = tokenize(text, language)
    assert "".join(words.split()) == "".join(unify(text).split())
    assert words == " ".join(words.split())


def test_the_command_writes_one_line_for_each_line_in_utf_8(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("Va !\n\nL'été\n".encode()), "latin-1"))
    assert tokenize_text.main(["fr"]) == 0
    assert capsys.readouterr().out == "va !\n\nl ' été\n"


def test_an_unknown_language_is_refused_in_one_message(capsys):
    assert tokenize_text.main(["de"]) == 2
    assert "en or fr" in capsys.readouterr().err
