"""The fonts of heat maps: matplotlib's default font, and other installed fonts for the characters that it lacks."""

import functools
import logging
import unicodedata
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress

from matplotlib import font_manager
from matplotlib.font_manager import FontEntry
from matplotlib.ft2font import FT2Font

DEFAULT_FONT = "DejaVu Sans"  # comes with matplotlib
REGULAR = 400  # weight
_INVISIBLE = ("Cc", "Cf", "Zl", "Zp", "Zs")  # Unicode's categories of control and format characters and spaces
_EAST_ASIAN = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "FULLWIDTH", "IDEOGRAPHIC")
_PACKAGES = {"emoji": "fonts-symbola", "symbol": "fonts-symbola"}  # matplotlib draws no colours
_FIRST_EMOJI = 0x1F000
_reported: set[str] = set()  # the scripts for which the warning was logged

log = logging.getLogger(__name__)


def fonts_for(text: str) -> list[str]:
    """Returns the names of fonts that together have the characters of a text, matplotlib's default font first.

    If no installed font has a character, a warning says which font to install, once for each script.
    """
    missing = {c for c in text if not has_character(DEFAULT_FONT, c) and unicodedata.category(c) not in _INVISIBLE}
    return [DEFAULT_FONT, *_fonts_with(frozenset(missing))]


@contextmanager
def ignore_missing_glyphs() -> Iterator[None]:
    """Suppresses matplotlib's warnings about characters that it draws as boxes; `fonts_for` has logged them already."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph \d+ .* missing from", category=UserWarning)
        yield


@functools.cache
def has_character(family: str, character: str) -> bool:
    """Returns True if the font of this name has the character."""
    return bool(_face(family).get_char_index(ord(character)))


@functools.cache
def _face(family: str) -> FT2Font:
    entry = _families()[family]
    number = getattr(entry, "index", 0)  # of the font within a file of several fonts
    return font_manager.get_font(font_manager.FontPath(entry.fname, number) if number else entry.fname)


@functools.cache
def _fonts_with(characters: frozenset[str]) -> list[str]:
    """Returns the names of installed fonts that have the characters; logs a warning for characters of no font."""
    if not characters:
        return []
    fonts, missing = _choose(characters, _families())
    if missing and _add_new_fonts():
        fonts, missing = _choose(characters, _families())
    for script in sorted({_script(character) for character in missing} - _reported):
        _reported.add(script)
        examples = "".join(sorted(character for character in missing if _script(character) == script)[:5])
        package = "fonts-noto-cjk" if script.startswith(_EAST_ASIAN) else _PACKAGES.get(script, "fonts-noto")
        log.warning(
            "heat maps: no installed font has the %s characters %s, so boxes are drawn; install a font that has them: "
            "on Debian and Ubuntu the package %s, elsewhere see https://fonts.google.com/noto",
            script,
            examples,
            package,
        )
    return fonts


def _choose(characters: Collection[str], families: Mapping[str, FontEntry]) -> tuple[list[str], set[str]]:
    """Chooses a small number of fonts that together have the characters.

    Returns:
        The names of the fonts, and the characters that no font has.
    """
    known = {family: {c for c in characters if has_character(family, c)} for family in families}
    # Chinese, Japanese and Korean fonts have the same characters and draw them differently.
    scripts = {_script(character) for character in characters}
    country = "JP" if scripts & {"HIRAGANA", "KATAKANA"} else "KR" if "HANGUL" in scripts else "SC"

    def suits(entry: FontEntry) -> tuple[bool, ...]:
        return _weight(entry) == REGULAR, "Sans" in entry.name, entry.name.endswith(country)

    fonts = []
    missing = set(characters)
    while missing and known:
        best = max(known, key=lambda name: (len(known[name] & missing), *suits(families[name])))
        if not known[best] & missing:
            break
        fonts.append(best)
        missing -= known[best]
    return fonts, missing


def _families() -> dict[str, FontEntry]:
    """Returns the installed fonts by name, each in its upright style nearest to regular weight.

    The "last resort" fonts of matplotlib and macOS are left out: they draw a box for every character.
    """
    fonts = (entry for entry in font_manager.fontManager.ttflist if "LastResort" not in entry.name.replace(" ", ""))
    drawable = [entry for entry in fonts if entry.size == "scalable"]
    drawable.sort(key=lambda entry: (entry.name, entry.style == "normal", -abs(_weight(entry) - REGULAR), entry.fname))
    return {entry.name: entry for entry in drawable}


def _weight(entry: FontEntry) -> int:
    return entry.weight if isinstance(entry.weight, int) else font_manager.weight_dict.get(entry.weight, REGULAR)


@functools.cache
def _add_new_fonts() -> bool:
    """Adds the fonts that were installed after matplotlib made its list; returns True if there are any."""
    listed = {entry.fname for entry in font_manager.fontManager.ttflist}
    new = sorted(set(font_manager.findSystemFonts()) - listed)
    for path in new:
        with suppress(OSError, RuntimeError, ValueError):  # matplotlib cannot draw the font, such as colour bitmaps
            font_manager.fontManager.addfont(path)
    return bool(new)


def _script(character: str) -> str:
    """Returns the script of a character: the first word of its Unicode name, or `emoji` or `symbol` for symbols."""
    if unicodedata.category(character).startswith("S"):
        return "emoji" if ord(character) >= _FIRST_EMOJI else "symbol"
    return unicodedata.name(character, "unnamed").split()[0]
