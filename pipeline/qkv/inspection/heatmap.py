"""Heat maps of one matrix with labels, and files of figures.

`heatmap` draws on the `Axes` of any figure. Only a heat map without such `Axes` uses pyplot, which shows it in a
notebook.
"""

import functools
import io
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import font_manager, rc_context
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, LinearSegmentedColormap
from matplotlib.figure import Figure

from ..errors import InputError, quoted
from ..files.atomic import write_output
from ..files.written import ORIGIN
from ..text.lines.line import shorten
from .colours import INK
from .fonts import DEFAULT_FONT, fonts_for, ignore_missing_glyphs

WEIGHTS = LinearSegmentedColormap.from_list("attention", ["white", INK["light"]])
"""The colour map of weights from 0 to 1, the same as in the viewer's page."""
SIGNED = LinearSegmentedColormap.from_list("signed attention", ["firebrick", "white", INK["light"]])
"""The colour map of numbers that may be negative."""


def heatmap(
    matrix: Any,
    rows: Iterable[Any] | None = None,
    columns: Iterable[Any] | None = None,
    ax: Axes | None = None,
    *,
    vmin: float | None = None,
    vmax: float | None = None,
    cmap: str | Colormap | None = None,
) -> Axes:
    """Draws a matrix, such as the attention weights of a head, with a label for each row and column.

    Labels are drawn literally, in fonts that have their characters. Long labels are cut.

    Args:
        matrix: numbers with two axes, `(rows, columns)`: nested lists, a NumPy array, a pandas table, or a tensor of
            TensorFlow, JAX or PyTorch. NaN and infinite numbers leave their cells empty.
        rows: the labels of the rows, such as target tokens. None for those of a pandas table, and for numbers from 0.
        columns: the labels of the columns, such as source tokens, or None. They stand above the cells.
        ax: the `Axes` to draw on. None makes a figure of pyplot that fits the labels and has a colour bar.
        vmin: the number that gets the first colour. By default 0; with negative numbers, minus the largest absolute
            value.
        vmax: the number that gets the last colour. By default 1, or the largest number if that is greater; with
            negative numbers, the largest absolute value.
        cmap: the colour map, or its name in matplotlib. By default white to blue; with negative numbers from red over
            white, which is 0, to blue.

    Returns:
        The `Axes`. Its figure is `ax.figure`, its image is `ax.images[0]`.

    Raises:
        InputError: the matrix is not made of real numbers, it is empty, or its shape does not fit the labels.
    """
    row_labels = _make_labels("rows", _labels_of(matrix, 0) if rows is None else rows)
    column_labels = _make_labels("columns", _labels_of(matrix, 1) if columns is None else columns)
    numbers = _as_numbers(matrix, len(row_labels), len(column_labels))
    if ax is None:
        from matplotlib import pyplot  # not at the top: it may choose how a program shows figures

        _, ax, bar = make_axes(row_labels, column_labels, pyplot.figure)
        draw_matrix(numbers, row_labels, column_labels, ax, vmin, vmax, cmap)
        add_colour_bar(ax, bar)
    else:
        draw_matrix(numbers, row_labels, column_labels, ax, vmin, vmax, cmap)
    return ax


def make_axes(
    rows: list[str], columns: list[str], make_figure: Callable[..., Figure] = Figure
) -> tuple[Figure, Axes, Axes]:
    """Makes a figure that fits a heat map with titles and a colour bar.

    The layout is computed from text widths. matplotlib's layout engines let slanted labels leave the figure.

    Args:
        rows: the labels of the rows.
        columns: the labels of the columns.
        make_figure: the function that makes the figure: `Figure`, or `pyplot.figure` for a figure that is shown.

    Returns:
        `(figure, ax, bar)`: the figure, and the `Axes` of the heat map and of the colour bar.
    """
    cell = cell_size(len(rows), len(columns))
    width, height = len(columns) * cell, len(rows) * cell
    longest = max(text_width(label, label_size(cell)) for label in columns)
    lean = longest * math.cos(SLANT) + 0.1  # right of the cells, of the last columns' labels
    beside_title = max(_TITLE_WIDTH - width, 0) / 2
    left = max(max(text_width(label, label_size(cell)) for label in rows) + _AXIS_TITLE, beside_title)
    right = max(lean + COLOUR_BAR, beside_title)
    above = longest * math.sin(SLANT) + TITLE
    below = max(_AXIS_TITLE, _LOWEST - above - height)
    size = np.array([left + width + right, above + height + below])
    figure = make_figure(figsize=tuple(size))

    def add(x: float, width: float) -> Axes:
        """Adds axes as high as the cells."""
        return figure.add_axes((x / size[0], below / size[1], width / size[0], height / size[1]))

    return figure, add(left, width), add(left + width + lean, 0.14)


def draw_matrix(
    numbers: np.ndarray,
    rows: list[str],
    columns: list[str],
    ax: Axes,
    vmin: float | None = None,
    vmax: float | None = None,
    cmap: str | Colormap | None = None,
) -> None:
    """Draws a matrix and its labels on the `Axes`; for the arguments see `heatmap`."""
    finite = numbers[np.isfinite(numbers)]
    low, high = 0.0, finite.max(initial=1.0)
    colours: str | Colormap = WEIGHTS
    if finite.min(initial=0.0) < 0:
        high = np.abs(finite).max()
        low, colours = -high, SIGNED
    low = low if vmin is None else vmin
    high = high if vmax is None else vmax
    shown = np.where(np.isfinite(numbers), numbers, np.nan)
    colours = colours if cmap is None else cmap
    ax.imshow(shown, cmap=colours, vmin=low, vmax=high, aspect="equal", interpolation="nearest")
    box = ax.get_window_extent()
    cell = min(box.width / len(columns), box.height / len(rows)) / ax.figure.dpi
    # Without `parse_math`, `$` and `_` in a token are drawn literally.
    style: dict[str, Any] = {
        "fontsize": label_size(cell),
        "fontfamily": fonts_for("".join((*rows, *columns))),
        "parse_math": False,
    }
    slant: dict[str, Any] = {"rotation": math.degrees(SLANT), "rotation_mode": "anchor", "ha": "left", "va": "bottom"}
    ax.set_yticks(range(len(rows)), rows, **style)
    ax.set_xticks(range(len(columns)), columns, **slant, **style)
    ax.xaxis.tick_top()
    ax.tick_params(which="both", length=0, pad=LABEL_PADDING)
    ax.spines[:].set_visible(False)
    ax.set_xticks(np.arange(len(columns) + 1) - 0.5, minor=True)
    ax.set_yticks(np.arange(len(rows) + 1) - 0.5, minor=True)
    ax.grid(which="minor", color=GRID_COLOUR, linewidth=0.6)


def add_colour_bar(ax: Axes, bar: Axes) -> None:
    """Draws the scale of colours of a heat map on the `Axes` that `make_axes` has made for it."""
    ax.figure.colorbar(ax.images[0], cax=bar).outline.set_visible(False)


def _labels_of(matrix: Any, axis: int) -> Iterable[Any]:
    """Returns the labels of an axis for a matrix without given labels: those of a table, or numbers from 0."""
    if hasattr(matrix, "columns"):
        return matrix.columns if axis else matrix.index
    try:
        return range(np.shape(matrix)[axis])
    except (IndexError, TypeError, ValueError):
        raise InputError(f"matrix: expected rows and columns of real numbers, found {quoted(matrix)}") from None


def _make_labels(name: str, labels: Iterable[Any]) -> list[str]:
    """Returns the labels of an axis as short texts of one line.

    Args:
        name: the name of the argument, for the message.
        labels: the argument.

    Raises:
        InputError: the argument is a text, not a list, or empty.
    """
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        raise InputError(f"{name}: expected a list of labels, found {quoted(labels)}")
    texts = [make_label(str(label)) for label in labels]
    if not texts:
        raise InputError(f"{name}: expected at least one label, found none")
    return texts


def _as_numbers(matrix: Any, rows: int, columns: int) -> np.ndarray:
    """Returns a matrix as a float64 array, `(rows, columns)`. For the argument and the errors see `heatmap`."""
    if hasattr(matrix, "detach"):  # of PyTorch; NumPy reads neither a tensor with a gradient nor one on a GPU
        matrix = matrix.detach().cpu().double()
    try:
        array = np.asarray(matrix)
        numbers = None if np.iscomplexobj(array) else array.astype(np.float64)
    except (TypeError, ValueError):
        numbers = None
    if numbers is None:
        raise InputError(f"matrix: expected real numbers, found {quoted(matrix)}")
    if numbers.shape != (rows, columns):
        hint = "; choose one head, such as matrix[0]" if numbers.ndim > 2 else ""
        turned = "; matrix.T has that shape" if numbers.shape == (columns, rows) else ""
        raise InputError(
            f"matrix: expected the shape ({rows}, {columns}), for {rows} rows and {columns} columns, found "
            f"{numbers.shape}{hint}{turned}"
        )
    return numbers


def save_figure(figure: Figure, path: str | Path, origin: str = "") -> None:
    """Writes a figure as PNG, SVG or PDF, by the suffix of `path`. A failed or killed call leaves no partial file.

    Args:
        figure: the figure.
        path: the file.
        origin: a digest that marks the file, see `files.written.digest_of_folders`; only a PNG gets it.
    """
    write_output(Path(path), figure_as(figure, Path(path).suffix.removeprefix("."), origin=origin))


def figure_as(figure: Figure, kind: str, dots_per_inch: int = 120, origin: str = "") -> bytes:
    """Returns the bytes of a file with the figure; `kind` is `png`, `svg` or `pdf`. Equal figures give equal bytes."""
    metadata: Any = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    if origin and kind == "png":
        metadata = {ORIGIN: origin}
    file = io.BytesIO()
    with ignore_missing_glyphs(), rc_context({"svg.hashsalt": "qkv"}):
        # PIL's default level of 6 takes twice as long for a tenth fewer bytes
        settings: dict[str, Any] = {"pil_kwargs": {"compress_level": 3}} if kind == "png" else {}
        figure.savefig(file, format=kind, dpi=dots_per_inch, metadata=metadata, **settings)
    return file.getvalue()


LABEL_CHARACTERS = 18
_JOINERS = "\u200c\u200d"  # in Persian, Sinhala and emoji, among others; they shape the characters beside them


def make_label(text: str, longest: int = LABEL_CHARACTERS) -> str:
    """Returns a text as a label of one line, with an ellipsis if it is longer than `longest` characters.

    Invisible characters are written as escapes such as `\\n`. Joiners stay if the text has visible characters, since
    they shape these.
    """
    has_visible = any(c.isprintable() and c not in " \u2581" for c in text)
    unescaped = set(_JOINERS) if has_visible else set()
    text = "".join(c if c.isprintable() or c in unescaped else c.encode("unicode_escape").decode() for c in text)
    return shorten(text, longest)


_LARGEST_CELL = 0.42  # inches
_SMALLEST_CELL = 0.13  # inches
_PANEL = 6.0  # inches that a matrix may take before its cells shrink
_LOWEST = 3.0  # inches
TITLE = 0.75  # inches for the lines of the title
_TITLE_WIDTH = 3.0  # inches
_AXIS_TITLE = 0.5  # inches for the title of the rows or of the columns
COLOUR_BAR = 0.75  # inches for the colour bar and its scale
GRID_COLOUR = "0.9"  # light grey, so that cells without weight are visible
LABEL_PADDING = 3.0  # points between cells and labels
SLANT = math.radians(60)  # the angle of the columns' labels


def cell_size(rows: int, columns: int) -> float:
    """Returns the size of a cell in inches, for a matrix of so many rows and columns."""
    return float(np.clip(_PANEL / max(rows, columns), _SMALLEST_CELL, _LARGEST_CELL))


def label_size(cell: float) -> float:
    """Returns the font size of the labels in points, for cells of this size in inches."""
    return float(np.clip(cell * 72 * 0.6, 6, 9.5))


def text_width(text: str, font: float) -> float:
    """Returns the width of a text in inches; `font` is the size of the font in points."""
    return sum(map(_character_width, text)) * font / 72


@functools.cache
def _character_width(character: str) -> float:
    """Returns the width of a character as a share of the font size; 1.1 if the default font lacks the character."""
    face = font_manager.get_font(font_manager.findfont(DEFAULT_FONT))
    if not face.get_char_index(ord(character)):
        return 1.1
    face.set_size(100, 72)
    return face.load_char(ord(character)).linearHoriAdvance / 65536 / 100
