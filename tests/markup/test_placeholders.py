"""Placeholders: what must be copied is found, and the rest is text."""

import pytest

from qkv.markup.marked_text import lay_out
from qkv.markup.placeholders import read_line


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("You have {0} new messages, %s.", ["{0}", "%s"]),
        ("Hello {name}, ${user} and {{mustache}} or #{ruby}", ["{name}", "${user}", "{{mustache}}", "#{ruby}"]),
        ("{n, plural, one {a day} other {# days}} left", ["{n, plural, one {a day} other {# days}}"]),
        ("%1$s sent %2$d files in %.2f s to %(name)s at 50%%", ["%1$s", "%2$d", "%.2f", "%(name)s", "50", "%%"]),
        ("Save 20% discount", ["20"]),
        ('Click <x id="1"/>here</x> please', ['<x id="1"/>', "</x>"]),
        ("See https://a.example/b?c=d&e=f(1), or www.a.example.", ["https://a.example/b?c=d&e=f(1", "www.a.example"]),
        ("Write to a.b+c@mail.example.org!", ["a.b+c@mail.example.org"]),
        ("It costs 1,299.50 on 2026-11-28 at 20:44, for 3 of B2B", ["1,299.50", "2026-11-28", "20:44", "3"]),
        ("a < b and c > d", []),
        ("an unclosed { brace and a % sign", []),
    ],
)
def test_placeholders_are_found(line, kept):
    text = read_line(line)
    assert [piece.raw for piece in text.pieces if piece.kind == "kept"] == kept
    assert text.before + "".join(piece.raw for piece in text.pieces) + text.after == line


def test_text_without_words_is_left_as_it_is():
    for line in ("", "  ", "{name}: %s", "12:30"):
        assert read_line(line)[:3] == (line, [], "")


def test_words_of_the_model_must_be_in_the_translation_as_often_as_in_the_source():
    layout = lay_out(read_line("from {a} to {b} and 5"), {1: "Tom", 3: "Mary", 5: "5"})
    assert layout.plain == "from Tom to Mary and 5"
    assert layout.find_copies("de tom à Mary et 5") == {1: (3, 6), 3: (9, 13), 5: (17, 18)}
    assert layout.find_copies("de Tom à Tom, Mary et 15") == {3: (14, 18)}
    assert layout.find_copies("de Tomas à Mary5 et") == {}


def test_equal_placeholders_are_taken_in_their_order():
    layout = lay_out(read_line("%s is a %s"), {0: "%s", 2: "%s"})
    assert layout.find_copies("un %s est %s") == {0: (3, 5), 2: (10, 12)}
    assert layout.find_copies("un %s") == {}


def test_what_is_left_out_leaves_one_space():
    assert lay_out(read_line("You have {0} new messages, {1}."), {}).plain == "You have new messages, ."
