"""HTML as a text with markup: no character is lost, whatever the line, and pages are divided at their blocks."""

import random
from collections import Counter
from html.parser import HTMLParser

import lxml.html
import numpy as np
import pytest

from qkv.errors import InputError
from qkv.markup import html_text
from qkv.markup.html_text import decode_page, read_line, read_page, read_pieces, set_language
from qkv.markup.marked_text import lay_out
from qkv.markup.projection import LinkedText, find_words

WORDS = [
    *(
        "the",
        "black",
        "cat",
        "Éa",
        "ל\u05b8א",
        "שלום",
        "مرحبا",
        "\u200fab\u200e",
        "中文",
        "𝔘𝔫",
        "👩\u200d🔬",
        "a\u0301b",
        "x,",
        "(y)",
        ".",
    ),
    *(
        "&amp;",
        "&lt;b&gt;",
        "&nbsp;",
        "&#233;",
        "&#x1F600;",
        "&#0;",
        "&bogus;",
        "&",
        "&#xD800;",
        "&copy",
        "5",
        "\u00a0",
        "'q'",
    ),
]
ATTRIBUTES = [
    *(
        "",
        ' class="x"',
        " id='a>b'",
        ' title="a > b"',
        " href=x/y",
        " checked",
        ' alt="&quot;&amp;"',
        " data-e\u0301='e\u0301'",
    ),
    *(' style="a:b"  lang=de', "\tx", " onclick='f(\"<b>\")'", ' é="𝔘"', " a = 'b' "),
]
PAIRED = ["b", "i", "B", "a", "span", "Span", "em", "x-y", "sup", "font"]
POINTS = [
    "<br{}>",
    "<IMG{}>",
    "<br{}/>",
    "<wbr{}>",
    "<!-- {} c -->",
    "<!---->",
    "<?php{}?>",
    "<![CDATA[ x > y ]]>",
    "<input{}>",
]
KEPT = ["<code{}>x &lt; y</code>", "<script{}>if (a<b) '</b>'</script>", '<span translate="no"{}>Qkv <b>x</b></span>']
SOUP = [
    *(
        "<",
        "</",
        "<>",
        "</>",
        "<b",
        "</b",
        "<3",
        "< b>",
        "a<b",
        "<!",
        "<!-",
        "<!-->",
        "<!--",
        "-->",
        "<![CDATA[",
        "]]>",
        "\0",
    ),
    *(
        "<!DOCTYPE html>",
        "<b/>",
        "</br>",
        "</p >",
        "<p>",
        "<a href='x>",
        '<a href="y>',
        '"',
        "'",
        ">",
        "=",
        "<a =x>",
        "<ol><li>",
    ),
    *(
        "<script>",
        "</script>",
        "<style>",
        "<textarea>",
        "</title>",
        "<title>",
        "<plaintext>",
        "<code>",
        "</code>",
        "</b\n>",
    ),
]


def spaces(draw):
    return draw.choice(["", " ", " ", "  ", "\n"])


def well_formed(draw, depth=0):
    """A line whose tags are all paired and nested."""
    parts = []
    for _ in range(draw.randint(0 if depth else 1, 4)):
        attributes = draw.choice(ATTRIBUTES)
        kind = draw.random()
        if kind < 0.5 or depth > 6:
            parts += draw.choices(WORDS, k=draw.randint(0, 3))
        elif kind < 0.8:
            name = draw.choice(PAIRED)
            parts.append(f"<{name}{attributes}>{well_formed(draw, depth + 1)}</{name}>")
        elif kind < 0.92:
            parts.append(draw.choice(POINTS[:4]).format(attributes))
        else:
            parts.append(draw.choice(KEPT).format(attributes))
        parts.append(spaces(draw))
    return "".join(parts)


def soup(draw):
    """A line of anything."""
    parts = []
    for _ in range(draw.randint(1, 12)):
        name, attributes = draw.choice(PAIRED), draw.choice(ATTRIBUTES)
        tags = [
            f"<{name}{attributes}>",
            f"</{name}>",
            draw.choice(POINTS).format(attributes),
            draw.choice(KEPT).format(""),
        ]
        parts += [draw.choice([*draw.choices(WORDS, k=3), *tags, draw.choice(SOUP)]), spaces(draw)]
    return "".join(parts)


def translate_at_random(layout, draw, numbers):
    """A translation that leaves out, repeats and moves words, with random links; kept words are in it once."""
    kept = list(layout.shown.values())
    words = [layout.plain[start:end] for start, end in find_words(layout.plain)]
    words = [word for word in words if draw.random() < 0.8] * draw.choice([1, 1, 1, 2])
    draw.shuffle(words)
    words = [word for word in words if word not in kept]
    for word in kept:
        words.insert(draw.randint(0, len(words)), word)
    translation = " ".join(words) if draw.random() < 0.8 else layout.plain
    source, target = find_words(layout.plain), find_words(translation)
    return translation, LinkedText(source, target, numbers.random((len(target), len(source))) ** 4)


def restore_at_random(text, draw, numbers):
    """`(result, translation, layout)` of a text that is translated at random."""
    layout = lay_out(text, {})
    if draw.random() < 0.5:
        numbered = enumerate(text.pieces)
        words = {index: f"Q{index}Z" for index, piece in numbered if piece.kind == "kept"}
        layout = lay_out(text, words)
    translation, linked = translate_at_random(layout, draw, numbers)
    copies = layout.find_copies(translation)
    if len(copies) < len(layout.shown):
        layout = lay_out(text, {})
        translation, linked = translate_at_random(layout, draw, numbers)
        copies = {}
    return layout.restore(translation, linked, copies), translation, layout


def markup_of(line):
    """How often each tag, comment and kept text is in a line."""
    return Counter(piece.raw for piece in read_pieces(line) if piece.kind != "text")


def visible(text):
    return sorted(character for character in text if not character.isspace())


@pytest.mark.parametrize("lines", [250, pytest.param(5000, marks=pytest.mark.minutes)])
@pytest.mark.parametrize("make", [well_formed, soup])
def test_each_tag_of_hostile_lines_is_there_once_byte_for_byte(make, lines):
    draw, numbers = random.Random(1), np.random.default_rng(1)
    translated = 0
    for _ in range(lines):
        line = make(draw)
        text = read_line(line)
        result, translation, layout = restore_at_random(text, draw, numbers)
        assert markup_of(result) == markup_of(line), (line, result)
        if not text.pieces:
            assert result == line
            continue
        translated += 1
        spoken = "".join(piece.text for piece in read_pieces(result) if piece.kind == "text")
        words = translation
        for shown in layout.shown.values():
            words = words.replace(shown, "", 1)
        edges = "".join(piece.text for part in (text.before, text.after) for piece in read_pieces(part))
        assert visible(spoken) == visible(words + edges.replace("\0", "")), (line, translation, result)
        inner = read_pieces(result[len(text.before) : len(result) - len(text.after)])
        assert not any("  " in piece.text for piece in inner if piece.kind == "text"), (line, result)
    assert translated > lines / 2


def nesting(line):
    """How often each element, with the elements around it, is in a line, by libxml2."""
    root = lxml.html.fragment_fromstring(line, create_parent="main")
    paths = Counter()
    for element in root.iter():
        if isinstance(element.tag, str):
            around = [ancestor.tag for ancestor in element.iterancestors()]
            paths[(element.tag, *sorted(element.attrib.items()), *around)] += 1
    return paths


def test_elements_of_well_formed_lines_keep_their_nesting_by_another_parser():
    draw, numbers = random.Random(2), np.random.default_rng(2)
    for _ in range(500):
        line = well_formed(draw)
        if (
            "&#0;" in line or "<a" in line or "<wbr" in line
        ):  # libxml2 does not nest links, and wbr is void since HTML 5
            continue
        result, *_ = restore_at_random(read_line(line), draw, numbers)
        assert nesting(result) == nesting(line), (line, result)


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags = []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))


def test_tags_and_attributes_are_those_of_pythons_parser():
    draw = random.Random(3)
    for _ in range(500):
        line = well_formed(draw)
        other = Tags()
        other.feed(line)
        other.close()
        tags = [piece for piece in html_text._tokenize(line) if piece.kind == "opening" or piece.name]
        tags = [piece for piece in tags if piece.kind != "closing"]
        assert [piece.name for piece in tags] == [name for name, _ in other.tags]
        for piece, (_, attributes) in zip(tags, other.tags, strict=True):
            given = {name: value for name, value in attributes.items() if value is not None}
            found = list(html_text.read_attributes(piece.raw))
            assert {attribute.name: attribute.value for attribute in found} == given
            assert all(piece.raw[one.start : one.end].strip("'\"") == piece.raw[one.start : one.end] for one in found)


@pytest.mark.parametrize(
    "hostile",
    ["<b>", "<b>x ", "</b>", "<", "<!--", "<![CDATA[>", "<a b=\"'", "&", "<code>", "<b>x</i>", "<a/ =", "<x y"],
)
def test_ten_thousand_tags_take_no_quadratic_time(hostile):
    """Quadratic time would be minutes, and recursion an error."""
    line = "word " + hostile * 10_000 + " word"
    text = read_line(line)
    layout = lay_out(text, {})
    assert text.before + "".join(piece.raw for piece in text.pieces) + text.after == line
    assert len(layout.plain) <= len(line)


def test_deep_nesting_is_restored_without_recursion():
    line = "<b>" * 3000 + "the cat" + "</b>" * 3000 + " sleeps"
    layout = lay_out(read_line(line), {})
    words = find_words(layout.plain)
    linked = LinkedText(words, words, np.eye(3))
    assert layout.restore("the cat sleeps", linked, {}) == line


PAGE = """<!DOCTYPE html>\r
<HTML lang="en-GB" data-x='>'><head><title>A &amp; b</title><meta charset=utf-8>
<style>p > b {}</style><script>document.write("<p>no</p>")</script></head>
<body>\t<h1>One <em>two</em></h1>
<p>
  Three&nbsp;<a href="x?a=1&b">four</a>
  five.<pre>  kept &lt; as it is </pre><ul><li>six<li> <b>seven</b> </ul>12:30
<div translate=no>eight</div><table><tr><td>nine<td><img alt="ten"></table><!-- <p>eleven</p> --></body></html>
"""


def test_a_page_is_divided_at_its_blocks_and_nothing_is_lost():
    texts = read_page(PAGE)
    sources = [text.before + "".join(piece.raw for piece in text.pieces) + text.after for text in texts]
    assert "".join(sources) == PAGE
    plain = [lay_out(text, {}).plain for text in texts if text.pieces]
    assert plain == ["A & b", "One two", "Three\u00a0four five.", "six", "seven", "nine"]


def test_only_the_language_of_the_page_is_changed():
    changed = set_language(PAGE, "en", "fr")
    assert changed == PAGE.replace('lang="en-GB"', 'lang="fr"')
    assert set_language(PAGE, "de", "fr") == PAGE
    assert set_language("<p lang=en>a</p>", "en", "fr") == "<p lang=en>a</p>"


def test_a_page_is_read_in_its_own_encoding():
    assert decode_page("é".encode(), "page") == ("é", "utf-8")
    page = "<meta charset='ISO-8859-1'>é’"
    assert decode_page(page.encode("cp1252"), "page") == (page, "cp1252")
    assert decode_page("\ufeffé".encode("utf-16-le"), "page") == ("\ufeffé", "utf-16-le")
    with pytest.raises(InputError, match="page:2: byte 0xe9 is not utf-8"):
        decode_page(b"\n\xe9 x", "page")
    with pytest.raises(InputError, match="no encoding klingon"):
        decode_page(b"<meta charset=klingon>", "page")
