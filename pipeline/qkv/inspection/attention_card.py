"""Attention between words as a picture for a small card, such as TensorBoard's: labels are drawn once, and the cells of
any head below them as often as the model is looked at.

A row is the mean over the pieces of an output word, a column the sum over the pieces of a source word; the end of the
sentence counts as a word. Letters: L layers, H heads, T target words, S source words.
"""

import io
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import font_manager
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image  # comes with matplotlib

from .fonts import OWN, drawn_boxes, fonts_for
from .heatmap import SLANT, WEIGHTS, one_line, text_width
from .record import Record

WIDTH = 640  # pixels: twice as many as a card has, so that letters are sharp on any screen and large on a click
FONT = 22  # pixels; on the card half as many
SMALLEST_CELL, LARGEST_CELL = 28, 64  # pixels
LABEL_CHARACTERS = 13
CORNER = 120, 64  # pixels that the caption needs, left of the cells and above them
PAD = 8  # pixels
GREYS = 128  # colours of letters, from black to white; after them as many of weights, from 0 to 1
GRID = 114  # a light grey
_COLOURS = np.linspace(0, 255, GREYS)[:, None].repeat(3, 1), 255 * WEIGHTS(np.linspace(0, 1, 128))[:, :3]
PALETTE = np.concatenate(_COLOURS).round().astype(np.uint8).tobytes()


class AttentionCard:
    """The picture of a sentence, without its weights.

    Args:
        record: the sentence. Records with the same tokens have the same card.
    """

    def __init__(self, record: Record) -> None:
        self._rows, rows = _words(record.target_words, record.target_output_tokens)
        self._columns, columns = _words(record.source_words, record.source_tokens)
        lean = max(72 * text_width(label, FONT) for label in columns)
        self.left = max(CORNER[0], math.ceil(max(72 * text_width(label, FONT) for label in rows)) + 2 * PAD)
        self.above = max(CORNER[1], math.ceil(lean * math.sin(SLANT)) + FONT)
        right = math.ceil(lean * math.cos(SLANT)) + PAD
        self.cell = int(np.clip((WIDTH - self.left - right) / len(columns), SMALLEST_CELL, LARGEST_CELL))
        self.width = self.left + len(columns) * self.cell + right
        self.height = self.above + len(rows) * self.cell + PAD
        self._paper = self._draw_labels(rows, columns)

    def weights(self, record: Record) -> np.ndarray:
        """Returns the cross-attention between words, `(L, H, T, S)`."""
        sums = np.add.reduceat(record.attention["cross"], self._columns, axis=-1)
        pieces = np.diff([*self._rows, sums.shape[-2]])
        return np.add.reduceat(sums, self._rows, axis=-2) / pieces[:, None]

    def png(self, weights: np.ndarray, caption: Sequence[str]) -> bytes:
        """Draws weights.

        Args:
            weights: `(T, S)`, from 0 to 1.
            caption: short lines of ASCII for the corner.

        Returns:
            A PNG file of `width` by `height` pixels.
        """
        paper = self._paper.copy()
        colours = (GREYS + np.rint(127 * np.clip(weights, 0, 1))).astype(np.uint8)
        cells = np.kron(colours, np.ones((self.cell, self.cell), np.uint8))
        cells[:: self.cell] = cells[:, :: self.cell] = cells[-1] = cells[:, -1] = GRID
        paper[self.above : self.above + len(cells), self.left : self.left + cells.shape[1]] = cells
        for line, text in enumerate(caption):
            letters = _letters(text)
            top = PAD + line * round(1.2 * FONT)
            paper[top : top + len(letters), PAD : PAD + letters.shape[1]] -= letters[:, : self.left - PAD]
        return _png(paper)

    def _draw_labels(self, rows: Sequence[str], columns: Sequence[str]) -> np.ndarray:
        figure = Figure(figsize=(self.width / 72, self.height / 72), dpi=72)
        canvas = FigureCanvasAgg(figure)
        fonts = fonts_for("".join((*rows, *columns)))
        style: dict[str, Any] = {"fontsize": FONT, "fontfamily": fonts, "parse_math": False}
        for row, label in enumerate(rows):
            middle = 1 - (self.above + (row + 0.5) * self.cell) / self.height
            figure.text((self.left - PAD) / self.width, middle, label, ha="right", va="center_baseline", **style)
        slant: dict[str, Any] = {"rotation": math.degrees(SLANT), "rotation_mode": "anchor"}
        for column, label in enumerate(columns):
            middle = (self.left + (column + 0.5) * self.cell) / self.width
            figure.text(middle, 1 - (self.above - PAD) / self.height, label, ha="left", va="bottom", **slant, **style)
        with drawn_boxes():
            canvas.draw()
        return np.asarray(canvas.buffer_rgba())[..., 0] >> 1


def best_head(weights: Sequence[np.ndarray]) -> tuple[int, int]:
    """Chooses the layer and head whose attention looks most like an alignment, which needs no gold: each word of either
    side has a word of the other side to itself. It has the highest mean of the greatest weights of rows and columns.

    Args:
        weights: `(L, H, T, S)` of each sentence; the last row and column, which are the sentence's end, do not count.
    """
    inner = [words[..., :-1, :-1] if min(words.shape[2:]) > 1 else words for words in weights]
    score = sum(words.max(axis=-1).mean(axis=-1) + words.max(axis=-2).mean(axis=-1) for words in inner)
    layer, head = np.unravel_index(np.argmax(score), np.shape(score))
    return int(layer), int(head)


def _words(words: Sequence[int | None], tokens: Sequence[str]) -> tuple[list[int], list[str]]:
    """Returns the place of each word's first token, and each word's label."""
    starts = [i for i, word in enumerate(words) if i == 0 or word is None or word != words[i - 1]]
    ends = [*starts[1:], len(tokens)]
    texts = ["".join(tokens[start:end]) for start, end in zip(starts, ends, strict=True)]
    return starts, [one_line(text.replace("\u2581", " ").strip() or text, LABEL_CHARACTERS) for text in texts]


def _letters(text: str) -> np.ndarray:
    """Draws a line: uint8 `(height, width)`, 127 where it is black."""
    face = font_manager.get_font(font_manager.findfont(OWN))
    face.set_size(0.8 * FONT, 72)
    face.set_text(text)
    face.draw_glyphs_to_bitmap(antialiased=True)
    return np.asarray(face.get_image()) >> 1


def _png(paper: np.ndarray) -> bytes:
    """Returns the PNG file of colours by their numbers: a file of true colours takes ten times as long."""
    image, file = Image.frombytes("P", paper.shape[::-1], paper.tobytes()), io.BytesIO()
    image.putpalette(PALETTE)
    image.save(file, "png", compress_level=3)
    return file.getvalue()
