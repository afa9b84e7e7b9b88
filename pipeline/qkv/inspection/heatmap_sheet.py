"""The layout of a heat map: where panels, labels, title and colour bar go on the sheet."""

import functools
import math

import numpy as np
from matplotlib import font_manager

from .fonts import OWN, fonts_for

_LARGEST_CELL, _SMALLEST_CELL = 0.42, 0.13  # inches
_PANEL = 6.0  # inches that a panel may take before its cells shrink
_WIDEST = 16.0  # inches that panels side by side may take together
_MOST_ACROSS = 4
TITLE = 0.75  # inches for the three lines of the title
_GAP = 0.25  # inches between panels
PAD = 3.0  # points between cells and labels
_BELOW = 0.35  # inches for the head's number
_BAR = 0.75  # inches for the colour bar and its scale
SLANT = math.radians(60)  # of the columns' labels


def _panels_across(panels: int, panel_width: float) -> int:
    """Returns the number of panels per row: as many as fit, or fewer if that fills all rows."""
    fitting = max(1, min(panels, _MOST_ACROSS, int(_WIDEST / panel_width)))
    return next((across for across in range(fitting, 1, -1) if panels % across == 0), fitting)


class Sheet:
    """Positions on the sheet in inches, `pad` in cells, and the fonts of its texts. A layout engine would have to draw
    all labels twice.

    Args:
        rows: labels beside the cells.
        columns: labels above them.
        panels: number of panels.
        title: its lines.
    """

    def __init__(self, rows: list[str], columns: list[str], panels: int, title: str) -> None:
        cell = float(np.clip(_PANEL / max(len(rows), len(columns)), _SMALLEST_CELL, _LARGEST_CELL))
        self.font = float(np.clip(cell * 72 * 0.6, 6, 9.5))
        self.fonts = fonts_for("".join((*rows, *columns, title)))
        self.pad = PAD / 72 / cell
        self.across = _panels_across(panels, len(columns) * cell)
        self._down = math.ceil(panels / self.across)
        longest = max(_text_width(label, self.font) for label in columns)
        self._left = max(_text_width(label, self.font) for label in rows) + 0.2
        self._above = longest * math.sin(SLANT) + 0.2
        self._right = longest * math.cos(SLANT) + 0.1  # the last labels lean over
        self._panel = len(columns) * cell, len(rows) * cell
        self._panels = self.across * (self._panel[0] + _GAP) - _GAP
        heading = max(_text_width(line, self.font + 2) for line in title.split("\n")) + 0.2
        self.width = max(self._left + self._panels + self._right + _BAR, heading)
        self.height = max(TITLE + self._down * (self._above + self._panel[1] + _BELOW), 3.0)

    def panel(self, place: int) -> tuple[float, float, float, float]:
        """Returns left, bottom, width and height of a panel as shares of the sheet."""
        row, column = divmod(place, self.across)
        left = self._left + column * (self._panel[0] + _GAP)
        top = TITLE + row * (self._above + self._panel[1] + _BELOW) + self._above
        return self._share(left, top, *self._panel)

    @property
    def bar(self) -> tuple[float, float, float, float]:
        """Left, bottom, width and height of the colour bar, right of the panels, as shares of the sheet."""
        top = TITLE + self._above
        return self._share(self._left + self._panels + self._right, top, 0.14, min(4.0, self.height - top - _BELOW))

    def _share(self, left: float, top: float, width: float, height: float) -> tuple[float, float, float, float]:
        bottom = self.height - top - height
        return left / self.width, bottom / self.height, width / self.width, height / self.height


def _text_width(text: str, font: float) -> float:
    """Returns the width of a text in inches, at a font size in points."""
    return sum(map(_character_width, text)) * font / 72


@functools.cache
def _character_width(character: str) -> float:
    """Returns the width as a share of the font size; for scripts that the usual font lacks, that of the widest
    characters."""
    face = font_manager.get_font(font_manager.findfont(OWN))
    if not face.get_char_index(ord(character)):
        return 1.1
    face.set_size(100, 72)
    return face.load_char(ord(character)).linearHoriAdvance / 65536 / 100
