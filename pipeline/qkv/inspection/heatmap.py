"""Attention as pictures: one panel per head, tokens on both axes, and a title that says what is shown.

Layers and heads are counted from 0, as in the tables. Figures are plain `Figure` objects: no window, no global state.
"""

import functools
import io
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import font_manager, rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from ..config.names.inspection import LABEL_SIDES, SITES
from ..files.atomic import write_output
from ..files.written import ORIGIN
from .colours import INK
from .fonts import OWN, drawn_boxes, fonts_for
from .record import Record, shorten

WEIGHTS = LinearSegmentedColormap.from_list("attention", ["white", INK["light"]])
"""The colours of weights from 0 to 1, as the viewer's page mixes them."""


def attention_figure(
    record: Record, site: str = "cross", layer: int = 0, *, head: int | None = None, side: str = "output"
) -> Figure:
    """Draws one layer's attention; every cell is one weight, on a colour scale from 0 to 1 that all pictures share.

    Args:
        record: the sentence.
        site: any of `config.names.inspection.SITES`; the record must hold it.
        layer: index of the layer.
        head: index of the head, or None for all heads side by side; they are never averaged.
        side: which target tokens label the rows: `output` (row t predicts it) or `input` (row t was computed from it).
            Encoder rows are source tokens whatever the side.

    Returns:
        A figure that grows with the sentence, up to a limit.

    Raises:
        ValueError: unknown site or side, or no such layer or head.
    """
    weights = _heads_of_layer(record, site, layer, head, side)
    heads = range(len(weights)) if head is None else [head]
    rows, columns = _axis_labels(record, site, side)
    title = _figure_title(record, site, layer, list(heads), side)
    sheet = Sheet(rows, columns, len(weights), title)
    font = sheet.font
    figure = Figure(figsize=(sheet.width, sheet.height))
    FigureCanvasAgg(figure)
    style: dict[str, Any] = {"fontfamily": sheet.fonts, "parse_math": False}
    figure.text(0.5, 1 - 0.08 / sheet.height, title, ha="center", va="top", fontsize=font + 2, **style)
    for place, number in enumerate(heads):
        panel = figure.add_axes(sheet.panel(place))
        image = panel.imshow(weights[place], cmap=WEIGHTS, vmin=0, vmax=1, aspect="equal", interpolation="nearest")
        below = f"head {number}" if head is None else ""
        _label_panel(panel, rows if place % sheet.across == 0 else [], columns, below, sheet)
    bar = figure.colorbar(image, cax=figure.add_axes(sheet.bar))
    bar.set_label("attention weight", fontsize=font + 1)
    bar.ax.tick_params(labelsize=font)
    bar.outline.set_visible(False)
    return figure


def save_figure(figure: Figure, path: str | Path, origin: str = "") -> None:
    """Writes a PNG, SVG or PDF, as the suffix says; the file appears whole or not at all. A PNG gets the mark `origin`,
    see `files.written.origin_of`, if there is one."""
    write_output(Path(path), figure_as(figure, Path(path).suffix.removeprefix("."), origin=origin))


def figure_as(figure: Figure, kind: str, dots_per_inch: int = 120, origin: str = "") -> bytes:
    """Returns the bytes of a `png`, `svg` or `pdf` file. The same figure gives the same bytes."""
    metadata: Any = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    if origin and kind == "png":
        metadata = {ORIGIN: origin}
    file = io.BytesIO()
    with drawn_boxes(), rc_context({"svg.hashsalt": "qkv"}):
        # PIL's default level of 6 takes twice as long for a tenth fewer bytes
        settings: dict[str, Any] = {"pil_kwargs": {"compress_level": 3}} if kind == "png" else {}
        figure.savefig(file, format=kind, dpi=dots_per_inch, metadata=metadata, **settings)
    return file.getvalue()


def _heads_of_layer(record: Record, site: str, layer: int, head: int | None, side: str) -> np.ndarray:
    """Returns the weights `(heads shown, query, key)`."""
    if side not in LABEL_SIDES:
        raise ValueError(f"side: expected one of {', '.join(LABEL_SIDES)}, found {side!r}")
    if site not in record.attention:
        raise ValueError(f"sentence {record.id}: expected a site among {', '.join(record.attention)}, found {site!r}")
    weights = record.attention[site]
    layers, heads = weights.shape[:2]
    if not 0 <= layer < layers or not 0 <= (head or 0) < heads:
        raise ValueError(f"{site}: expected {layers} layers, {heads} heads, from 0, found layer {layer}, head {head}")
    return weights[layer] if head is None else weights[layer, head : head + 1]


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
        # As many panels side by side as fit, or fewer if that fills all rows.
        fitting = max(1, min(panels, _MOST_ACROSS, int(_WIDEST / (len(columns) * cell))))
        self.across = next((across for across in range(fitting, 1, -1) if panels % across == 0), fitting)
        self._down = math.ceil(panels / self.across)
        longest = max(text_width(label, self.font) for label in columns)
        self._left = max(text_width(label, self.font) for label in rows) + 0.2
        self._above = longest * math.sin(SLANT) + 0.2
        self._right = longest * math.cos(SLANT) + 0.1  # the last labels lean over
        self._panel = len(columns) * cell, len(rows) * cell
        self._panels = self.across * (self._panel[0] + _GAP) - _GAP
        heading = max(text_width(line, self.font + 2) for line in title.split("\n")) + 0.2
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


def _label_panel(panel: Axes, rows: list[str], columns: list[str], below: str, sheet: Sheet) -> None:
    """Writes labels around the cells, which is a third faster than ticks.

    `parse_math` is off, so that `$` and `_` in a token stay as they are.
    """
    style: dict[str, Any] = {"fontsize": sheet.font, "fontfamily": sheet.fonts, "parse_math": False}
    height, width = panel.images[0].get_size()
    panel.set_axis_off()
    for row, label in enumerate(rows):
        panel.text(-0.5 - sheet.pad, row, label, ha="right", va="center_baseline", **style)
    slant: dict[str, Any] = {"rotation": math.degrees(SLANT), "rotation_mode": "anchor"}
    for column, label in enumerate(columns):
        panel.text(column, -0.5 - sheet.pad, label, ha="left", va="bottom", **slant, **style)
    if below:
        style["fontsize"] += 1
        panel.text(width / 2 - 0.5, height - 0.5 + 2 * sheet.pad, below, ha="center", va="top", weight="bold", **style)
    panel.hlines(np.arange(height + 1) - 0.5, -0.5, width - 0.5, color=GRID, linewidth=0.6)
    panel.vlines(np.arange(width + 1) - 0.5, -0.5, height - 0.5, color=GRID, linewidth=0.6)


LABEL_CHARACTERS = 18
TITLE_CHARACTERS = 70
_JOINERS = "\u200c\u200d"  # of Persian, Sinhala and emoji among others; drawn as nothing, or as the shapes beside them


def _axis_labels(record: Record, site: str, side: str) -> tuple[list[str], list[str]]:
    # Keys of the decoder's self-attention are always its input tokens.
    target = record.target_output_tokens if side == "output" else record.target_input_tokens
    rows, _ = SITES[site].pick(record.source_tokens, target)
    _, columns = SITES[site].pick(record.source_tokens, record.target_input_tokens)
    return [one_line(token) for token in rows], [one_line(token) for token in columns]


def one_line(text: str, longest: int = LABEL_CHARACTERS) -> str:
    """Spells characters that nobody could see; joiners only where a label has nothing else, since they shape words."""
    shown = set(_JOINERS) if any(c.isprintable() and c not in " \u2581" for c in text) else set()
    text = "".join(c if c.isprintable() or c in shown else c.encode("unicode_escape").decode() for c in text)
    return shorten(text, longest)


def _figure_title(record: Record, site: str, layer: int, heads: list[int], side: str) -> str:
    """Returns three lines: the sentence; site, layer and heads; the tokens of rows and columns."""
    shown = f"head {heads[0]}" if len(heads) == 1 else f"heads {heads[0]}-{heads[-1]}"
    rows, _ = SITES[site].pick("source tokens", LABEL_SIDES[side])
    _, columns = SITES[site].pick("source tokens", "input tokens")
    sentence = f"{record.id}: {one_line(record.source, TITLE_CHARACTERS)}"
    return f"{sentence}\n{SITES[site].title}, layer {layer}, {shown}\nrows: {rows}; columns: {columns}"


_LARGEST_CELL, _SMALLEST_CELL = 0.42, 0.13  # inches
_PANEL = 6.0  # inches that a panel may take before its cells shrink
_WIDEST = 16.0  # inches that panels side by side may take together
_MOST_ACROSS = 4
TITLE = 0.75  # inches for the three lines of the title
_GAP = 0.25  # inches between panels
GRID = "0.9"  # light grey, so that cells without weight are seen
PAD = 3.0  # points between cells and labels
_BELOW = 0.35  # inches for the head's number
_BAR = 0.75  # inches for the colour bar and its scale
SLANT = math.radians(60)  # of the columns' labels


def text_width(text: str, font: float) -> float:
    """Returns the width of a text in inches, for a font of so many points."""
    return sum(map(_character_width, text)) * font / 72


@functools.cache
def _character_width(character: str) -> float:
    """Returns the width as a share of the font size; for scripts that the usual font lacks, the largest."""
    face = font_manager.get_font(font_manager.findfont(OWN))
    if not face.get_char_index(ord(character)):
        return 1.1
    face.set_size(100, 72)
    return face.load_char(ord(character)).linearHoriAdvance / 65536 / 100


def draw_heatmaps(records: Iterable[Record], folder: Path, name: str) -> None:
    """Draws the cross-attention of every layer as `NAME-ID-cross-layer-LAYER.png`."""
    for record in records:
        for layer in range(len(record.attention["cross"])):
            path = folder / f"{name}-{record.id:06d}-cross-layer-{layer}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            save_figure(attention_figure(record, "cross", layer), path)
