"""A text with markup: its pieces, the plain text that the model reads, and the markup put back into a translation.

A text is a list of pieces, in the order of the source: text, tags, and what must be kept as it is. The source is the
pieces' `raw` one after the other, so no character can be lost. `lay_out` makes plain text of the pieces and notes the
range of each mark in it. `Layout.restore` writes a translation with each mark once, at the place that word links give.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..text.lines.line import compose, is_empty
from .projection import LinkedText, Range, find_words, project_spans

WHITE_SPACE = " \t\n\r\f"
"""White space as HTML defines it. A no-break space is a character like any other."""
_SPACES = re.compile(f"[{WHITE_SPACE}]+")


class Piece(NamedTuple):
    """A part of a text with markup.

    - kind: `text`; `opening` or `closing`, the tags of an element; `point`, a tag or comment that stands alone; or
      `kept`, text that must be in the translation as it is, with its tags.
    - raw: the characters of the source.
    - text: the plain text of `text` and `kept`, without escapes.
    - name: the name of the element in lower case; empty for text.
    - breaks: True if words before and after the piece are apart without a space, as at `<br>`.
    """

    kind: str
    raw: str
    text: str = ""
    name: str = ""
    breaks: bool = False


class MarkedText(NamedTuple):
    """A text with markup, without the markup and white space at its ends.

    - before: the characters before the first piece.
    - pieces: the pieces between. The list is empty if there is nothing to translate; then `before` is the whole text.
    - after: the characters after the last piece.
    - escape: a function that writes the plain text of a translation as the markup demands.
    """

    before: str
    pieces: list[Piece]
    after: str
    escape: Callable[[str], str]

    def count_kept(self) -> int:
        """Returns the number of kept pieces."""
        return sum(piece.kind == "kept" for piece in self.pieces)


def trim(pieces: Sequence[Piece], escape: Callable[[str], str] = str) -> MarkedText:
    """Makes a `MarkedText` of pieces. Leading and trailing white space, points and unpaired tags are taken off.

    A text without a letter is not translated, such as `12:30` or a line of tags.
    """
    if not any(piece.kind == "text" and any(map(str.isalpha, piece.text)) for piece in pieces):
        return MarkedText("".join(piece.raw for piece in pieces), [], "", escape)
    partners = pair_tags(pieces)
    inner = [index for index, piece in enumerate(pieces) if index in partners or not is_empty(piece.text)]
    first, last = inner[0], inner[-1]
    before = "".join(piece.raw for piece in pieces[:first])
    after = "".join(piece.raw for piece in pieces[last + 1 :])
    core = list(pieces[first : last + 1])
    if core[0].kind == "text":
        raw = core[0].raw.lstrip(WHITE_SPACE)
        before += core[0].raw[: len(core[0].raw) - len(raw)]
        core[0] = core[0]._replace(raw=raw)
    if core[-1].kind == "text":
        raw = core[-1].raw.rstrip(WHITE_SPACE)
        after = core[-1].raw[len(raw) :] + after
        core[-1] = core[-1]._replace(raw=raw)
    return MarkedText(before, core, after, escape)


def pair_tags(pieces: Sequence[Piece]) -> dict[int, int]:
    """Returns the index of the partner of each opening and closing tag. Unpaired tags are missing.

    Pairs never cross: a closing tag is paired with the last opening tag of its name, and opening tags between the two
    that are not closed stay unpaired.
    """
    partners: dict[int, int] = {}
    unclosed: list[int] = []
    numbers: dict[str, int] = {}
    for index, piece in enumerate(pieces):
        if piece.kind == "opening":
            unclosed.append(index)
            numbers[piece.name] = numbers.get(piece.name, 0) + 1
        elif piece.kind == "closing" and numbers.get(piece.name):
            while True:
                opening = unclosed.pop()
                numbers[pieces[opening].name] -= 1
                if pieces[opening].name == piece.name:
                    break
            partners[opening] = index
            partners[index] = opening
    return partners


class Mark(NamedTuple):
    """A tag with its partner, a point, or kept text, in a plain text.

    - opening: the characters that are written before the marked words: a tag, or a whole point.
    - closing: the characters that are written after them; empty for a point.
    - range: the range of the marked words in the plain text, in characters; for a point, both numbers are its place.
    - parent: the index of the mark around this mark; None if there is none.
    - kept: the index of the piece if the mark is kept text; None for others.
    - space_before: whether there is white space directly before the opening.
    - space_after: whether there is white space directly after the closing.
    - breaks: see `Piece`.
    """

    opening: str
    closing: str
    range: Range
    parent: int | None
    kept: int | None
    space_before: bool
    space_after: bool
    breaks: bool


def lay_out(text: MarkedText, shown: Mapping[int, str]) -> "Layout":
    """Makes the plain text of a `MarkedText`, and the marks in it.

    Args:
        text: the text.
        shown: for the index of a kept piece, the words that the model reads in its place. A kept piece that is missing
            here is not read: it is a point.
    """
    pieces = text.pieces
    partners = pair_tags(pieces)
    plain = _PlainText()
    marks: list[Mark] = []
    parents: list[int] = []
    ends_in_space = False  # the white space that a piece has before it
    for index, piece in enumerate(pieces):
        following = pieces[index + 1] if index + 1 < len(pieces) else None
        space_after = following is not None and following.kind == "text" and following.raw[:1] in WHITE_SPACE
        space_after = space_after and bool(following and following.raw)
        if piece.breaks:
            plain.add(" ")
        if piece.kind == "text":
            plain.add(compose(piece.text))
        elif piece.kind == "closing" and index in partners:
            number = parents.pop()
            start, _ = marks[number].range
            marks[number] = marks[number]._replace(
                closing=piece.raw, range=plain.trimmed(start), space_after=space_after
            )
        else:
            start = plain.length
            if index in shown:
                plain.add(shown[index])
            place = plain.trimmed(start) if index in shown else (start, start)
            parent = parents[-1] if parents else None
            kept = index if piece.kind == "kept" else None
            marks.append(Mark(piece.raw, "", place, parent, kept, ends_in_space, space_after, piece.breaks))
            if piece.kind == "opening" and index in partners:
                parents.append(len(marks) - 1)
        if piece.raw:
            ends_in_space = piece.kind == "text" and piece.raw[-1] in WHITE_SPACE
    words = plain.text().rstrip(" ")
    limit = len(words)
    marks = [mark._replace(range=(min(mark.range[0], limit), min(mark.range[1], limit))) for mark in marks]
    return Layout(text, words, marks, dict(shown))


class _PlainText:
    """Plain text under construction. White space becomes one space, and there is none at the beginning."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._spaced: set[int] = set()  # the starts of parts that begin with a space
        self._last = " "
        self.length = 0

    def add(self, text: str) -> None:
        """Adds a text."""
        text = _SPACES.sub(" ", text)
        if self._last == " ":
            text = text.removeprefix(" ")
        if text:
            if text[0] == " ":
                self._spaced.add(self.length)
            self._parts.append(text)
            self._last = text[-1]
            self.length += len(text)

    def trimmed(self, start: int) -> Range:
        """Returns the range from `start` to the end, without spaces at both ends."""
        start += start in self._spaced and start < self.length
        return start, max(self.length - (self._last == " "), start)

    def text(self) -> str:
        """Returns the text."""
        return "".join(self._parts)


@dataclass(frozen=True)
class Layout:
    """The plain text of a text with markup.

    Args:
        source: the text with markup.
        plain: the plain text, in one line.
        marks: the marks in it, by the order of their openings.
        shown: see `lay_out`.
    """

    source: MarkedText
    plain: str
    marks: list[Mark]
    shown: dict[int, str]

    @property
    def needs_links(self) -> bool:
        """True if word links decide where a mark is written. A mark around the whole text needs none."""
        return any(mark.range != (0, len(self.plain)) for mark in self.marks)

    def find_copies(self, translation: str) -> dict[int, Range]:
        """Returns the range in a translation of each kept piece that the model has copied.

        Words that stand n times in the plain text must be in the translation exactly n times, as whole words. Words in
        the place of kept text may be written with other capitals.
        """
        numbers: dict[str, list[int]] = {}
        for number, words in self.shown.items():
            numbers.setdefault(words, []).append(number)
        copies: dict[int, Range] = {}
        if not numbers:
            return copies
        sides = [(text, _word_borders(text)) for text in (self.plain, translation)]
        small = [(_lower(text), borders) for text, borders in sides]
        taken: tuple[list[Range], list[Range]] = ([], [])
        for words in sorted(numbers, key=len, reverse=True):
            is_unchanged = self.source.pieces[numbers[words][0]].text == words
            places = [_find_whole(words, *side) for side in sides]
            if not is_unchanged:
                places = [_find_whole(words.lower(), *side) for side in small]
            source, target = (
                [place for place in side if not any(_overlap(place, other) for other in others)]
                for side, others in zip(places, taken, strict=True)
            )
            taken[0].extend(source)
            taken[1].extend(target)
            if len(source) == len(target) == len(numbers[words]):
                copies |= dict(zip(numbers[words], target, strict=True))
        return copies

    def restore(self, translation: str, linked: LinkedText, copies: Mapping[int, Range]) -> str:
        """Returns a translation with all marks.

        Args:
            translation: the plain text of the translation.
            linked: the words of `plain` and of the translation, and their links.
            copies: the result of `find_copies`, with a range for each of `shown`.
        """
        pairs = [
            (mark.range, copies[mark.kept]) for mark in self.marks if mark.kept is not None and mark.kept in copies
        ]
        ranges = [mark.range for mark in self.marks]
        places = project_spans(ranges, _link_copies(linked, pairs), [mark.parent for mark in self.marks])
        moved = []
        for index, (mark, (start, _)) in enumerate(zip(self.marks, places, strict=True)):
            if mark.kept is not None and places[index] != copies.get(mark.kept):
                places[index] = start, start
                moved += [mark.kept] if mark.kept in copies else []
        if moved:  # these copies are in the way of other marks
            return self.restore(*_cut_copies(translation, linked, copies, moved))
        return self.source.before + self._write(translation, places, sorted(copies.values())) + self.source.after

    def _write(self, translation: str, places: Sequence[Range], hidden: Sequence[Range]) -> str:
        """Returns a translation with the marks at their places.

        Args:
            translation: the translation.
            places: the range of the translation for each mark.
            hidden: the ranges of the translation that kept text replaces, in order and apart.
        """
        parts: list[str] = []
        position = 0
        for group in _group_by_gap(_order_events(self.marks, places), translation):
            start, end = group[0].position, group[-1].position
            while start > position and translation[start - 1] == " ":
                start -= 1
            while end < len(translation) and translation[end] == " ":
                end += 1
            parts.append(self.source.escape(_without(translation, position, start, hidden)))
            before, after = translation[max(start - 1, 0) : start], translation[end : end + 1]
            parts.append(_fill_gap(group, before, after, bool(before and after) and start < end))
            position = end
        parts.append(self.source.escape(_without(translation, position, len(translation), hidden)))
        return "".join(parts)


class _Event(NamedTuple):
    """A tag or point to be written into a translation.

    - position: the index of the character before which it is written.
    - text: the characters.
    - kind: `opening` or `closing` of words; `point`.
    - space_before, space_after: whether there is white space before and after it in the source.
    - breaks: see `Piece`.
    - is_text: whether it is kept text.
    """

    position: int
    text: str
    kind: str
    space_before: bool
    space_after: bool
    breaks: bool
    is_text: bool


def _order_events(marks: Sequence[Mark], places: Sequence[Range]) -> list[_Event]:
    """Returns the tags and points of marks in the order in which they are written. They are nested as the marks are.

    Args:
        marks: the marks.
        places: the range of the translation for each mark. A range that leaves that of its parent, or overlaps that of
            a mark beside it, is cut.
    """
    children: dict[int | None, list[int]] = {}
    for index, mark in enumerate(marks):
        children.setdefault(mark.parent, []).append(index)
    events: list[_Event] = []
    position = 0
    ends: list[int] = []
    # A stack instead of recursion, since a hostile text nests deeper than Python. `~index` closes the mark `index`.
    stack = _sorted_by_place(children.get(None, []), places)
    while stack:
        index = stack.pop()
        if index < 0:
            mark = marks[~index]
            end = ends.pop()
            kind = "point" if places[~index][0] == places[~index][1] else "closing"
            position = max(position, end)
            if mark.closing:
                events.append(_Event(position, mark.closing, kind, False, mark.space_after, mark.breaks, False))
            continue
        mark = marks[index]
        start, end = places[index]
        kind = "point" if start == end else "opening"
        position = max(position, start)
        if ends:
            position, end = min(position, ends[-1]), min(end, ends[-1])
        ends.append(max(position, end))
        space_after = mark.space_after and not mark.closing
        is_text = kind == "point" and mark.kept is not None
        events.append(_Event(position, mark.opening, kind, mark.space_before, space_after, mark.breaks, is_text))
        stack.append(~index)
        stack += _sorted_by_place(children.get(index, []), places)
    return events


def _group_by_gap(events: Sequence[_Event], translation: str) -> Iterator[list[_Event]]:
    """Yields the events between the same two words of a translation together."""
    group: list[_Event] = []
    for event in events:
        if group and translation[group[-1].position : event.position].strip(" "):
            yield group
            group = []
        group.append(event)
    if group:
        yield group


def _sorted_by_place(indices: Sequence[int], places: Sequence[Range]) -> list[int]:
    """Returns the indices of marks, the last one in the translation first."""
    return sorted(indices, key=lambda index: (*places[index], index), reverse=True)


def _fill_gap(events: Sequence[_Event], before: str, after: str, has_space: bool) -> str:
    """Returns the tags and points between two neighbouring words, with the spaces between them.

    If the words have a space between them, it is written between the closing tags of the words before and the opening
    tags of the words after. Points have the spaces that they have in the source, but there is none between a point and
    a punctuation mark that has none before it in the translation. Letters and digits of kept text never touch a word.

    Args:
        events: the tags and points.
        before: the last character before them; empty at the beginning of the text.
        after: the first character after them; empty at the end of the text.
        has_space: whether there is a space between the words.
    """
    first_free = max((index for index, event in enumerate(events) if event.kind == "closing"), default=-1) + 1
    first_opening = next((index for index, event in enumerate(events) if event.kind == "opening"), len(events))
    free = events[first_free:first_opening]
    breaks = [event for event in events if event.breaks]
    is_broken = breaks and not any(event.space_before or event.space_after for event in breaks)
    comes_later = free and not free[0].space_before and any(event.space_after for event in free)
    slot = first_free if has_space and not (is_broken or comes_later) else None
    last = len(events) - 1
    parts: list[str] = []
    is_spaced = not before  # whether only tags of words were written since the last space
    for index, event in enumerate(events):
        is_point = event.kind == "point"
        touches = event.is_text and has_space and not (event.space_before or event.space_after)
        joins_before = event.is_text and event.text[0].isalnum() and before.isalnum()
        joins_after = event.is_text and event.text[-1].isalnum() and after.isalnum()
        asks = is_point and (event.space_before or touches) and (has_space or index > 0 or before.isalnum())
        if not is_spaced and (index == slot or asks or joins_before):
            parts.append(" ")
            is_spaced = True
        parts.append(event.text)
        is_spaced = is_spaced and not is_point
        may_follow = index < last or (bool(after) and (has_space or after.isalnum()))
        if is_point and (event.space_after or touches or joins_after) and may_follow:
            parts.append(" ")
            is_spaced = True
    if slot == len(events) and not is_spaced:
        parts.append(" ")
    return "".join(parts)


def _without(text: str, start: int, end: int, hidden: Sequence[Range]) -> str:
    """Returns `text[start:end]` without the characters in the ranges `hidden`, which are in order and apart."""
    parts: list[str] = []
    for first, last in hidden:
        if start < last and first < end:
            parts.append(text[start : max(first, start)])
            start = min(last, end)
    return "".join([*parts, text[start:end]])


def _word_borders(text: str) -> tuple[set[int], set[int]]:
    """Returns the indices at which words of a text begin, and those at which they end."""
    words = find_words(text)
    return {start for start, _ in words}, {end for _, end in words}


def _find_whole(words: str, text: str, borders: tuple[set[int], set[int]]) -> list[Range]:
    """Returns the ranges of a text in which `words` stands, beginning and ending where words do."""
    ranges: list[Range] = []
    start = text.find(words)
    while start >= 0:
        end = start + len(words)
        is_whole = start in borders[0] and end in borders[1]
        if is_whole:
            ranges.append((start, end))
        start = text.find(words, end if is_whole else start + 1)
    return ranges


def _lower(text: str) -> str:
    """Returns a text in lower case, of the same length."""
    return "".join(lower if len(lower := character.lower()) == 1 else character for character in text)


def _overlap(one: Range, other: Range) -> bool:
    """Returns whether two ranges have a character in common."""
    return one[0] < other[1] and other[0] < one[1]


def _cut_copies(
    translation: str, linked: LinkedText, copies: Mapping[int, Range], moved: Sequence[int]
) -> tuple[str, LinkedText, dict[int, Range]]:
    """Returns a translation, its links and its copies without the copies of the kept pieces `moved`."""
    ranges = sorted(copies[number] for number in moved)
    cuts = [(first - (translation[first - 1 : first] == " "), last) for first, last in ranges]

    def shift(word: Range) -> Range:
        before = sum(last - first for first, last in cuts if first < word[0])
        return word[0] - before, word[1] - before

    stays = [not any(_overlap(word, cut) for cut in cuts) for word in linked.target]
    target = [shift(word) for word, is_left in zip(linked.target, stays, strict=True) if is_left]
    left = {number: shift(place) for number, place in copies.items() if number not in moved}
    rest = _without(translation, 0, len(translation), cuts)
    return rest, linked._replace(target=target, probabilities=linked.probabilities[stays]), left


def _link_copies(linked: LinkedText, pairs: Sequence[tuple[Range, Range]]) -> LinkedText:
    """Returns links in which the words of copied text are linked with each other, and with no other words.

    Args:
        linked: the words and their links.
        pairs: the character ranges of a text and of its copy.
    """
    probabilities = linked.probabilities
    if pairs:
        probabilities = probabilities.copy()
        for source_range, target_range in pairs:
            sources = [_overlap(word, source_range) for word in linked.source]
            targets = [_overlap(word, target_range) for word in linked.target]
            probabilities[:, sources] = 0.0
            probabilities[targets, :] = 0.0
            probabilities[np.ix_(targets, sources)] = 1.0
    return linked._replace(probabilities=probabilities)
