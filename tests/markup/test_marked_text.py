"""Marks in plain text: where white space goes, and that marks which are in each other's way are still there once."""

import numpy as np
import pytest

from qkv.markup.html_text import read_line
from qkv.markup.marked_text import lay_out
from qkv.markup.projection import LinkedText, find_words


def restored(line, links=None, translation=None):
    """A line whose words are translated as they are, in the order of `links`."""
    layout = lay_out(read_line(line), {})
    source = find_words(layout.plain)
    order = list(range(len(source))) if links is None else links
    translation = translation or " ".join(layout.plain[slice(*source[word])] for word in order)
    target = find_words(translation)
    return layout.restore(translation, LinkedText(source, target, np.eye(len(source))[order]), {})


@pytest.mark.parametrize(
    ("line", "plain", "same_order", "turned"),
    [
        ("<b> black </b>cat", "black cat", "<b>black</b> cat", "cat <b>black</b>"),
        ("black<b> cat </b>eats", "black cat eats", "black <b>cat</b> eats", "eats <b>cat</b> black"),
        ("a <br> b", "a b", "a <br> b", "<br> b a"),
        ("a<br>b", "a b", "a<br>b", "<br>b a"),
        ("a <br>b", "a b", "a <br>b", "<br>b a"),
        ("a<br> b", "a b", "a<br> b", "<br> b a"),
        ("a\n<img>\tb", "a b", "a <img> b", "<img> b a"),
        ("save <i class=x></i> now", "save now", "save <i class=x></i> now", "<i class=x></i> now save"),
        ("<b>a <i>b</b> c</i>", "a b c", "<b>a <i>b</b> c</i>", "c <b><i>b a</b></i>"),
        ("<b>a <img></b> c", "a c", "<b>a <img></b> c", "c <b>a <img></b>"),
        ("un<b>believ</b>able tale", "unbelievable tale", "<b>unbelievable</b> tale", "tale <b>unbelievable</b>"),
        ("<b><i>a</i> c</b> d", "a c d", "<b><i>a</i> c</b> d", "d <b>c <i>a</i></b>"),
        ("<i><b>a c</b></i> d", "a c d", "<i><b>a c</b></i> d", "d <i><b>c a</b></i>"),
        ("<p>One</p><p>Two</p>", "One Two", "<p>One</p><p>Two</p>", "<p>Two</p><p>One</p>"),
    ],
)
def test_tags_follow_their_words_and_spaces_stay(line, plain, same_order, turned):
    assert lay_out(read_line(line), {}).plain == plain
    assert restored(line) == same_order
    assert restored(line, list(range(len(find_words(plain))))[::-1]) == turned


def test_white_space_markup_and_unfinished_tags_at_the_ends_stay_at_the_ends():
    line = " \t<img>  <b>the cat</b> <!-- c -->  <a href='x"
    assert restored(line) == line
    assert restored(line, [1, 0]) == line.replace("the cat", "cat the")


def test_a_tag_around_the_whole_text_needs_no_links():
    assert not lay_out(read_line("<li><b>the cat</b></li>"), {}).needs_links
    assert lay_out(read_line("<b>the</b> cat"), {}).needs_links


def test_an_empty_translation_has_all_tags():
    layout = lay_out(read_line("<b>the</b> cat <br> eats <code>x</code> ."), {})
    linked = LinkedText(find_words(layout.plain), [], np.zeros((0, 4)))
    result = layout.restore("", linked, {})
    assert all(result.count(tag) == 1 for tag in ("<b>", "</b>", "<br>", "<code>x</code>"))


def test_text_is_escaped_and_kept_text_is_not():
    layout = lay_out(read_line("R&amp;D &lt; <code>a &lt; b</code> x"), {1: "a < b"})
    words = find_words(layout.plain)
    linked = LinkedText(words, words, np.eye(len(words)))
    assert layout.plain == "R&D < a < b x"
    copies = layout.find_copies(layout.plain)
    assert layout.restore(layout.plain, linked, copies) == "R&amp;D &lt; <code>a &lt; b</code> x"


def test_wrong_links_of_copied_text_move_no_tag():
    layout = lay_out(read_line("<b>one</b> <code>x</code> two"), {4: "Q1"})
    words = find_words(layout.plain)
    links = np.eye(3)
    links[1] = 1.0, 0.0, 0.0  # the copy seems to be linked with the word before it
    copies = layout.find_copies(layout.plain)
    assert layout.restore(layout.plain, LinkedText(words, words, links), copies) == "<b>one</b> <code>x</code> two"


def test_a_copy_that_other_marks_leave_no_place_for_moves_and_is_not_doubled():
    layout = lay_out(read_line("<b><code>x</code> one</b> <i>two <code>y</code></i>"), {1: "Q1", 7: "Q2"})
    assert layout.plain == "Q1 one two Q2"
    translation = "one Q2 Q1 two"
    source, target = find_words(layout.plain), find_words(translation)
    result = layout.restore(
        translation, LinkedText(source, target, np.eye(4)[[1, 3, 0, 2]]), layout.find_copies(translation)
    )
    words = "<b> <code>x </code> one </b> <i> two <code>y </code> </i>"
    assert sorted(result.replace("<", " <").split()) == sorted(words.split())
    assert "Q" not in result
