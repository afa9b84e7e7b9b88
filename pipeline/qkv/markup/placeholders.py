"""Finds what must be copied exactly from a text of a program: placeholders, addresses and numbers."""

import re

from .marked_text import MarkedText, Piece, trim

_COPIED = re.compile(
    r"""
    # <x id="1"/>
    </?[A-Za-z][^<>]*>
    # {0}, {name}, ${name}, {{name}}, {n, plural, one {day}}
    | [$#%]?\{(?:[^{}]|\{[^{}]*\})*\}
    # %(name)s, %s, %1$s, %.2f, %%
    | %\([^()\s]*\)[-+0\#]*\d*(?:\.\d+)?[a-zA-Z]
    | (?<![\w%])%(?:\d+\$)?[-+0\#]*(?:\d+|\*)?(?:\.(?:\d+|\*))?(?:hh?|ll?|[Lqjzt])?[diouxXeEfFgGaAcsrp@]
    | %%
    # addresses, without the punctuation after them
    | (?:(?:https?|ftp)://|www\.)[^\s<>"]*[^\s<>".,;:!?()'\]}»”’]
    | [\w.+-]*\w@\w[\w-]*(?:\.\w[\w-]*)+
    # numbers, times and dates
    | (?<!\w)\d+(?:[.,:/\u00a0\u202f-]\d+)*(?!\w)
    """,
    re.VERBOSE,
)


def read_line(line: str) -> MarkedText:
    """Returns the text of a line, in which placeholders, addresses and numbers are kept."""
    pieces: list[Piece] = []
    position = 0
    for found in _COPIED.finditer(line):
        if position < found.start():
            pieces.append(Piece("text", line[position : found.start()], line[position : found.start()]))
        pieces.append(Piece("kept", found[0], found[0]))
        position = found.end()
    if position < len(line):
        pieces.append(Piece("text", line[position:], line[position:]))
    return trim(pieces)
