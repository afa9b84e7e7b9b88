"""Pictures of attention: one panel per head, with tokens on both axes and a title.

Layers and heads are counted from 0, as in the tables. The functions make matplotlib's `Figure` objects; they open no
windows and change no global state.
"""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from ..config.choices.inspection import LABEL_SIDES, SITES
from .fonts import fonts_for
from .heatmap import (
    COLOUR_BAR,
    GRID_COLOUR,
    LABEL_PADDING,
    SLANT,
    TITLE,
    WEIGHTS,
    cell_size,
    label_size,
    make_label,
    save_figure,
    text_width,
)
from .record import Record


def attention_figure(
    record: Record, site: str = "cross", layer: int = 0, *, head: int | None = None, side: str = "output"
) -> Figure:
    """Draws the attention of one layer. Each cell is a weight; the colour scale is from 0 to 1 in all pictures.

    Args:
        record: the sentence.
        site: one of `config.choices.inspection.SITES` that the record holds.
        layer: the index of the layer.
        head: the index of the head; None to draw all heads side by side. Heads are not averaged.
        side: the target tokens that label the rows: `output` (the token that row t predicts) or `input` (the token that
            row t is computed from). Rows of the encoder are labelled with source tokens in both cases.

    Returns:
        A figure whose size grows with the sentence, up to a limit.

    Raises:
        ValueError: `side` is unknown, the record does not hold `site`, or the site has no such layer or head.
    """
    weights = _heads_of_layer(record, site, layer, head, side)
    heads = range(len(weights)) if head is None else [head]
    rows, columns = ([make_label(token) for token in tokens] for tokens in record.axis_tokens(site, side))
    title = _figure_title(record, site, layer, list(heads), side)
    sheet = Sheet(rows, columns, len(weights), title)
    font = sheet.font
    figure = Figure(figsize=(sheet.width, sheet.height))
    FigureCanvasAgg(figure)
    style: dict[str, Any] = {"fontfamily": sheet.fonts, "parse_math": False}
    figure.text(0.5, 1 - 0.08 / sheet.height, title, ha="center", va="top", fontsize=font + 2, **style)
    for index, number in enumerate(heads):
        panel = figure.add_axes(sheet.panel(index))
        image = panel.imshow(weights[index], cmap=WEIGHTS, vmin=0, vmax=1, aspect="equal", interpolation="nearest")
        below = f"head {number}" if head is None else ""
        _label_panel(panel, rows if index % sheet.across == 0 else [], columns, below, sheet)
    bar = figure.colorbar(image, cax=figure.add_axes(sheet.bar))
    bar.set_label("attention weight", fontsize=font + 1)
    bar.ax.tick_params(labelsize=font)
    bar.outline.set_visible(False)
    return figure


def _heads_of_layer(record: Record, site: str, layer: int, head: int | None, side: str) -> np.ndarray:
    """Returns the weights to draw, `(heads, queries, keys)`; for the arguments and errors see `attention_figure`."""
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
    """The layout of a figure. It is computed from text widths, since matplotlib's layout engines draw all labels twice.

    Args:
        rows: the labels of the rows, left of the cells.
        columns: the labels of the columns, above the cells.
        panels: the number of panels.
        title: the title, with line breaks.

    Attributes:
        width: the width of the figure in inches.
        height: the height of the figure in inches.
        across: the number of panels side by side.
        font: the size of the labels in points.
        fonts: the names of the fonts that have all characters of the texts.
        pad: the space between cells and labels, in cells.
    """

    def __init__(self, rows: list[str], columns: list[str], panels: int, title: str) -> None:
        cell = cell_size(len(rows), len(columns))
        self.font = label_size(cell)
        self.fonts = fonts_for("".join((*rows, *columns, title)))
        self.pad = LABEL_PADDING / 72 / cell
        # As many panels side by side as fit. Fewer, but at least two, if all lines of panels are full then.
        fitting = max(1, min(panels, _MOST_ACROSS, int(_WIDEST / (len(columns) * cell))))
        self.across = next((across for across in range(fitting, 1, -1) if panels % across == 0), fitting)
        self._down = math.ceil(panels / self.across)
        longest = max(text_width(label, self.font) for label in columns)
        self._left = max(text_width(label, self.font) for label in rows) + 0.2
        self._above = longest * math.sin(SLANT) + 0.2
        self._right = longest * math.cos(SLANT) + 0.1  # for the slanted labels of the last columns
        self._panel = len(columns) * cell, len(rows) * cell
        self._panels = self.across * (self._panel[0] + _GAP) - _GAP
        heading = max(text_width(line, self.font + 2) for line in title.split("\n")) + 0.2
        self.width = max(self._left + self._panels + self._right + COLOUR_BAR, heading)
        self.height = max(TITLE + self._down * (self._above + self._panel[1] + _BELOW), 3.0)

    def panel(self, index: int) -> tuple[float, float, float, float]:
        """Returns left, bottom, width and height of a panel as shares of the figure."""
        row, column = divmod(index, self.across)
        left = self._left + column * (self._panel[0] + _GAP)
        top = TITLE + row * (self._above + self._panel[1] + _BELOW) + self._above
        return self._share(left, top, *self._panel)

    @property
    def bar(self) -> tuple[float, float, float, float]:
        """Left, bottom, width and height of the colour bar, right of the panels, as shares of the figure."""
        top = TITLE + self._above
        return self._share(self._left + self._panels + self._right, top, 0.14, min(4.0, self.height - top - _BELOW))

    def _share(self, left: float, top: float, width: float, height: float) -> tuple[float, float, float, float]:
        """Converts inches, from the upper left corner, to left, bottom, width and height as shares of the figure."""
        bottom = self.height - top - height
        return left / self.width, bottom / self.height, width / self.width, height / self.height


def _label_panel(panel: Axes, rows: list[str], columns: list[str], below: str, sheet: Sheet) -> None:
    """Draws the grid of a panel, the labels of rows and columns, and a text below.

    The labels are texts, which are drawn a third faster than ticks. `parse_math` is off, so that `$` and `_` in a token
    are drawn literally.
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
    panel.hlines(np.arange(height + 1) - 0.5, -0.5, width - 0.5, color=GRID_COLOUR, linewidth=0.6)
    panel.vlines(np.arange(width + 1) - 0.5, -0.5, height - 0.5, color=GRID_COLOUR, linewidth=0.6)


def _figure_title(record: Record, site: str, layer: int, heads: list[int], side: str) -> str:
    """Returns three lines: the sentence; site, layer and heads; the kinds of tokens of rows and columns."""
    shown_heads = f"head {heads[0]}" if len(heads) == 1 else f"heads {heads[0]}-{heads[-1]}"
    rows, _ = SITES[site].pick("source tokens", LABEL_SIDES[side])
    _, columns = SITES[site].pick("source tokens", "input tokens")
    sentence = f"{record.id}: {make_label(record.source, _TITLE_CHARACTERS)}"
    return f"{sentence}\n{SITES[site].title}, layer {layer}, {shown_heads}\nrows: {rows}; columns: {columns}"


_WIDEST = 16.0  # inches that panels side by side may take together
_MOST_ACROSS = 4
_GAP = 0.25  # inches between panels
_BELOW = 0.35  # inches for the head's number
_TITLE_CHARACTERS = 70


def draw_heatmaps(records: Iterable[Record], folder: Path, name: str) -> None:
    """Writes pictures of the cross-attention of every layer to a folder, as `NAME-ID-cross-layer-LAYER.png`."""
    for record in records:
        for layer in range(len(record.attention["cross"])):
            path = folder / f"{name}-{record.id:06d}-cross-layer-{layer}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            save_figure(attention_figure(record, "cross", layer), path)
