"""Attention as pictures: one panel per head, tokens on both axes, and a title that says what is shown.

Layers and heads are counted from 0, as in the tables. Figures are plain `Figure` objects: no window, no global state.
"""

import io
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from ..config.names.inspection import LABEL_SIDES
from ..files.atomic import write_output
from .heatmap_labels import axis_labels, figure_title
from .heatmap_sheet import SLANT, Sheet
from .record import Record

COLOURS = "magma_r"  # perceptually uniform; light to dark for every kind of colour vision, and in print


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
    rows, columns = axis_labels(record, site, side)
    title = figure_title(record, site, layer, list(heads), side)
    sheet = Sheet(rows, columns, len(weights), title)
    font = sheet.font
    figure = Figure(figsize=(sheet.width, sheet.height))
    FigureCanvasAgg(figure)
    style: dict[str, Any] = {"fontfamily": sheet.fonts, "parse_math": False}
    figure.text(0.5, 1 - 0.08 / sheet.height, title, ha="center", va="top", fontsize=font + 2, **style)
    for place, number in enumerate(heads):
        panel = figure.add_axes(sheet.panel(place))
        image = panel.imshow(weights[place], cmap=COLOURS, vmin=0, vmax=1, aspect="equal", interpolation="nearest")
        below = f"head {number}" if head is None else ""
        _label_panel(panel, rows if place % sheet.across == 0 else [], columns, below, sheet)
    bar = figure.colorbar(image, cax=figure.add_axes(sheet.bar))
    bar.set_label("attention weight", fontsize=font + 1)
    bar.ax.tick_params(labelsize=font)
    bar.outline.set_visible(False)
    return figure


def save_figure(figure: Figure, path: str | Path) -> None:
    """Writes a PNG, SVG or PDF, as the suffix says; the file appears whole or not at all."""
    write_output(Path(path), figure_as(figure, Path(path).suffix.removeprefix(".")))


def figure_to_png(figure: Figure, dots_per_inch: int = 120) -> bytes:
    """Returns the bytes of a PNG file, for TensorBoard's image summaries."""
    return figure_as(figure, "png", dots_per_inch)


def figure_as(figure: Figure, kind: str, dots_per_inch: int = 120) -> bytes:
    """Returns the bytes of a `png`, `svg` or `pdf` file. The same figure gives the same bytes."""
    date = {"svg": "Date", "pdf": "CreationDate"}
    metadata = {date[kind]: None} if kind in date else None
    file = io.BytesIO()
    with warnings.catch_warnings(), rc_context({"svg.hashsalt": "qkv"}):
        # `fonts_for` has said in one line which script has no installed font; this would be a warning per character.
        warnings.filterwarnings("ignore", message=r"Glyph \d+ .* missing from", category=UserWarning)
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
        raise ValueError(
            f"{site}: expected one of {layers} layers and {heads} heads, from 0, found layer {layer}, head {head}"
        )
    return weights[layer] if head is None else weights[layer, head : head + 1]


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
    panel.hlines(np.arange(1, height) - 0.5, -0.5, width - 0.5, color="white", linewidth=0.6)
    panel.vlines(np.arange(1, width) - 0.5, -0.5, height - 0.5, color="white", linewidth=0.6)
