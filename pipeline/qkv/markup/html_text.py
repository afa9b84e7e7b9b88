"""Divides HTML into pieces, and finds the texts of a page.

The division follows the tokenizer of the HTML standard (https://html.spec.whatwg.org, section 13.2.5) and keeps every
character. Python's `html.parser` differs between patch releases, raises an error for some declarations, and drops what
is unfinished at the end of the text; lxml and html5lib make trees, which do not keep the bytes of tags.
"""

import codecs
import html
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..errors import InputError
from .marked_text import WHITE_SPACE, MarkedText, Piece, pair_tags, trim


def _names(text: str) -> frozenset[str]:
    """Returns the names in a text with spaces between them."""
    return frozenset(text.split())


VOID = _names("area base br col embed hr img input link meta param source track wbr")
"""Elements without a closing tag."""

RAW_TEXT = _names("script style textarea title xmp iframe noembed noframes plaintext")
"""Elements whose content has no tags."""

BLOCKS = _names(
    """address article aside base blockquote body br button caption center col colgroup dd details dialog dir div dl
    dt fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html legend li link
    main menu meta nav ol optgroup option p pre search section select summary table tbody td template textarea tfoot th
    thead title tr ul"""
)
"""Elements whose tags divide a page into texts. Within a text, words before and after such a tag are apart."""

UNREAD = _names("script style textarea xmp iframe noembed noframes plaintext pre svg math object canvas")
"""Elements whose content is neither translated nor read by the model."""

KEPT = _names("code kbd samp var tt")
"""Elements whose content is not translated. The model reads it if it copies it."""

_WS = f"[{WHITE_SPACE}]"
# Possessive quantifiers, since hostile text must not take quadratic time.
_VALUE = rf"""(?:"[^"]*+"|'[^']*+'|(?!["'])[^{WHITE_SPACE}>]*+)"""
_ATTRIBUTES = rf"(?:{_WS}++|/|=?+[^{WHITE_SPACE}/>=]++(?:{_WS}*+={_WS}*+{_VALUE})?+|=)*+"
_MARKUP = re.compile(
    rf"""(?P<comment><!--(?:-?>|(?s:.*?)--!?>|(?s:.*)\Z))
    |(?P<cdata><!\[CDATA\[(?s:.*?)\]\]>)
    |(?P<bogus><(?:[!?]|/(?![A-Za-z]))[^>]*+(?:>|\Z))
    |(?P<tag><(?P<slash>/?)(?P<name>[A-Za-z][^{WHITE_SPACE}/>]*+)(?P<attributes>{_ATTRIBUTES})>)
    |(?P<unfinished></?[A-Za-z](?s:.*)\Z)""",
    re.VERBOSE,
)
_ATTRIBUTE = re.compile(
    rf"""[{WHITE_SPACE}/]*+(?P<name>=?[^{WHITE_SPACE}/>=]*+)
    (?:{_WS}*+={_WS}*+(?:"(?P<double>[^"]*+)"|'(?P<single>[^']*+)'|(?P<plain>[^{WHITE_SPACE}>]*+)))?+""",
    re.VERBOSE,
)


class Attribute(NamedTuple):
    """An attribute of a tag.

    - name: its name in lower case.
    - value: its value without escapes.
    - start, end: the range of the value in the tag.
    """

    name: str
    value: str
    start: int
    end: int


def read_attributes(tag: str) -> Iterator[Attribute]:
    """Yields the attributes of an opening tag that have a value."""
    start = re.compile(f"<[^{WHITE_SPACE}/>]*+").match(tag)
    position = start.end() if start else 0
    while (attribute := _ATTRIBUTE.match(tag, position)) and attribute.end() > position:
        position = attribute.end()
        group = next((group for group in ("double", "single", "plain") if attribute[group] is not None), None)
        if group:
            yield Attribute(attribute["name"].lower(), html.unescape(attribute[group]), *attribute.span(group))


def read_pieces(text: str) -> list[Piece]:
    """Divides HTML into pieces. Text that is not translated is `kept`, or a `point` if the model does not read it."""
    return _join_kept(list(_tokenize(text)))


def _tokenize(text: str) -> Iterator[Piece]:
    """Yields the tags, comments and texts of HTML. An unfinished tag at the end is a point."""
    position = 0
    text_start = 0
    while (position := text.find("<", position)) >= 0:
        found = _MARKUP.match(text, position)
        if not found:  # a `<` that begins no tag is text
            position += 1
            continue
        if text_start < position:
            yield _text_piece(text[text_start:position])
        raw = found[0]
        position = text_start = found.end()
        name = (found["name"] or "").lower()
        breaks = name in BLOCKS
        if not found["tag"]:
            yield Piece("point", raw)
        elif found["slash"]:
            yield Piece("closing", raw, name=name, breaks=breaks)
        elif name in VOID or (found["attributes"].endswith("/") and name not in RAW_TEXT):
            yield Piece("point", raw, name=name, breaks=breaks)
        else:
            yield Piece("opening", raw, name=name, breaks=breaks)
            if name in RAW_TEXT:
                end = re.compile(rf"</{re.escape(name)}(?=[{WHITE_SPACE}/>])", re.IGNORECASE).search(text, position)
                position = end.start() if end else len(text)
                if text_start < position:
                    yield _text_piece(text[text_start:position])
                text_start = position
    if text_start < len(text):
        yield _text_piece(text[text_start:])


def _text_piece(raw: str) -> Piece:
    """Returns the piece of a text. The character NUL is left out, as browsers do."""
    return Piece("text", raw, html.unescape(raw).replace("\0", ""))


def escape(text: str) -> str:
    """Returns plain text as HTML."""
    return html.escape(text, quote=False)


def _join_kept(pieces: Sequence[Piece]) -> list[Piece]:
    """Returns the pieces; an element that is not translated is one piece, from its opening to its closing tag."""
    partners = pair_tags(pieces)
    joined: list[Piece] = []
    index = 0
    while index < len(pieces):
        piece = pieces[index]
        end = partners.get(index, index)
        if piece.kind == "opening" and end > index and (piece.name in UNREAD | KEPT or _is_protected(piece.raw)):
            inside = pieces[index : end + 1]
            text = "" if piece.name in UNREAD else " ".join("".join(part.text for part in inside).split())
            joined.append(
                Piece("kept" if text else "point", "".join(part.raw for part in inside), text, piece.name, piece.breaks)
            )
            index = end + 1
        else:
            joined.append(piece)
            index += 1
    return joined


def _is_protected(tag: str) -> bool:
    """Returns whether a tag has `translate="no"` or the class `notranslate`."""
    if "translate" not in tag.lower():
        return False
    values = {attribute.name: attribute.value.lower() for attribute in read_attributes(tag)}
    return values.get("translate") == "no" or "notranslate" in values.get("class", "").split()


def read_line(line: str) -> MarkedText:
    """Returns the text of a line of HTML."""
    return trim(read_pieces(line), escape)


def read_page(page: str) -> list[MarkedText]:
    """Divides a page into texts, at the tags of `BLOCKS`. Joined, the texts are the page.

    A text without words is the page's source as it is; see `trim`.
    """
    texts: list[MarkedText] = []
    group: list[Piece] = []
    for piece in read_pieces(page):
        if piece.name in BLOCKS and piece.name != "br":
            texts += [trim(group, escape), MarkedText(piece.raw, [], "", escape)]
            group = []
        else:
            group.append(piece)
    return [*texts, trim(group, escape)]


def decode_page(data: bytes, name: str) -> tuple[str, str]:
    """Returns a page as text, and its encoding.

    The encoding is that of a byte order mark or of a `charset` in the first kilobyte, and UTF-8 otherwise.

    Args:
        data: the bytes of the page.
        name: the name of the page, for messages.

    Raises:
        InputError: the page is not text in this encoding, or Python does not know the encoding.
    """
    marks = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
    encoding = next((encoding for mark, encoding in marks.items() if data.startswith(mark)), None)
    declared = re.search(rb"<meta[^>]*?charset\s*=\s*[\"']?\s*([\w.:-]+)", data[:1024], re.IGNORECASE)
    if encoding is None:
        encoding = declared[1].decode().lower() if declared else "utf-8"
        encoding = {"iso-8859-1": "cp1252", "latin1": "cp1252", "ascii": "cp1252", "us-ascii": "cp1252"}.get(
            encoding, encoding
        )
    try:
        return data.decode(encoding), encoding
    except LookupError:
        raise InputError(
            f"{name}: there is no encoding {encoding}, which the page declares; correct its charset"
        ) from None
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InputError(
            f"{name}:{line}: byte 0x{data[error.start]:02x} is not {encoding}, the encoding of the page; declare its "
            'encoding, such as <meta charset="windows-1252">, in its first kilobyte'
        ) from None


def set_language(page: str, source: str, target: str) -> str:
    """Returns a page whose `<html>` tag has the target language in its `lang` if it had the source language there.

    Args:
        page: the page.
        source: the code of the source language, such as `en`.
        target: the code of the target language.
    """
    position = 0
    for piece in _tokenize(page):
        if piece.kind == "opening" and piece.name == "html":
            tag = piece.raw
            for attribute in reversed(list(read_attributes(tag))):
                is_language = attribute.name in ("lang", "xml:lang")
                if is_language and _base(attribute.value) == _base(source):
                    tag = tag[: attribute.start] + target.replace("_", "-") + tag[attribute.end :]
            return page[:position] + tag + page[position + len(piece.raw) :]
        position += len(piece.raw)
    return page


def _base(language: str) -> str:
    """Returns the code of a language without its region, such as `pt` for `pt-BR`."""
    return language.replace("_", "-").partition("-")[0].strip().lower()
