"""Small pictures of attention between words for TensorBoard. Labels are drawn once, the cells of a head at each update.

A row is the mean over the tokens of an output word, a column the sum over the tokens of a source word. EOS counts as a
word. Letters: L layers, H heads, T target words, S source words.
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

from .fonts import DEFAULT_FONT, fonts_for, ignore_missing_glyphs
from .heatmap import SLANT, WEIGHTS, make_label, text_width
from .record import Record

CARD_WIDTH = 640  # pixels: twice the width of a card, so that letters are sharp on any screen and large after a click
CARD_FONT_PIXELS = 22  # pixels; half as many on the card
SMALLEST_CELL = 28  # pixels
LARGEST_CELL = 64  # pixels
CARD_LABEL_CHARACTERS = 13
CORNER = 120, 64  # pixels: the width and height of the caption, left of the cells and above them
CARD_PADDING = 8  # pixels
GREYS = 128  # the number of greys in the palette, from black to white; 128 colours of weights from 0 to 1 follow
CARD_GRID_COLOUR = 114  # the index of a light grey
_COLOURS = np.linspace(0, 255, GREYS)[:, None].repeat(3, 1), 255 * WEIGHTS(np.linspace(0, 1, 128))[:, :3]
PALETTE = np.concatenate(_COLOURS).round().astype(np.uint8).tobytes()


class AttentionCard:
    """The picture of a sentence without the cells, which `png` adds.

    Args:
        record: the sentence. Records with the same tokens can share a card.

    Attributes:
        width: the width of the picture in pixels.
        height: the height of the picture in pixels.
        left: the distance of the cells from the left edge of the picture in pixels.
        above: the distance of the cells from the upper edge of the picture in pixels.
        cell: the width and height of a cell in pixels.
    """

    def __init__(self, record: Record) -> None:
        self._rows, rows = _words(record.target_words, record.target_output_tokens)
        self._columns, columns = _words(record.source_words, record.source_tokens)
        longest_row = max(72 * text_width(label, CARD_FONT_PIXELS) for label in rows)
        longest_column = max(72 * text_width(label, CARD_FONT_PIXELS) for label in columns)
        self.left = max(CORNER[0], math.ceil(longest_row) + 2 * CARD_PADDING)
        self.above = max(CORNER[1], math.ceil(longest_column * math.sin(SLANT)) + CARD_FONT_PIXELS)
        right = math.ceil(longest_column * math.cos(SLANT)) + CARD_PADDING
        self.cell = int(np.clip((CARD_WIDTH - self.left - right) / len(columns), SMALLEST_CELL, LARGEST_CELL))
        self.width = self.left + len(columns) * self.cell + right
        self.height = self.above + len(rows) * self.cell + CARD_PADDING
        self._labels = self._draw_labels(rows, columns)

    def weights(self, record: Record) -> np.ndarray:
        """Returns the cross-attention between words of a record with the card's tokens, `(L, H, T, S)`."""
        sums = np.add.reduceat(record.attention["cross"], self._columns, axis=-1)
        pieces = np.diff([*self._rows, sums.shape[-2]])
        return np.add.reduceat(sums, self._rows, axis=-2) / pieces[:, None]

    def png(self, weights: np.ndarray, caption: Sequence[str]) -> bytes:
        """Draws the weights of a head below the labels.

        Args:
            weights: the weights between words, from 0 to 1, `(T, S)`.
            caption: short lines of ASCII text for the upper left corner.

        Returns:
            The bytes of a PNG file of `width` by `height` pixels.
        """
        image = self._labels.copy()
        colours = (GREYS + np.rint(127 * np.clip(weights, 0, 1))).astype(np.uint8)
        cells = np.kron(colours, np.ones((self.cell, self.cell), np.uint8))
        cells[:: self.cell] = cells[:, :: self.cell] = cells[-1] = cells[:, -1] = CARD_GRID_COLOUR
        image[self.above : self.above + len(cells), self.left : self.left + cells.shape[1]] = cells
        for line, text in enumerate(caption):
            letters = _letters(text)
            top = CARD_PADDING + line * round(1.2 * CARD_FONT_PIXELS)
            image[top : top + len(letters), CARD_PADDING : CARD_PADDING + letters.shape[1]] -= letters[
                :, : self.left - CARD_PADDING
            ]
        return _png(image)

    def _draw_labels(self, rows: Sequence[str], columns: Sequence[str]) -> np.ndarray:
        """Draws the labels on white; returns indices of greys in the palette, uint8 `(height, width)`."""
        figure = Figure(figsize=(self.width / 72, self.height / 72), dpi=72)
        canvas = FigureCanvasAgg(figure)
        fonts = fonts_for("".join((*rows, *columns)))
        style: dict[str, Any] = {"fontsize": CARD_FONT_PIXELS, "fontfamily": fonts, "parse_math": False}
        for row, label in enumerate(rows):
            middle = 1 - (self.above + (row + 0.5) * self.cell) / self.height
            figure.text(
                (self.left - CARD_PADDING) / self.width, middle, label, ha="right", va="center_baseline", **style
            )
        slant: dict[str, Any] = {"rotation": math.degrees(SLANT), "rotation_mode": "anchor"}
        for column, label in enumerate(columns):
            middle = (self.left + (column + 0.5) * self.cell) / self.width
            figure.text(
                middle, 1 - (self.above - CARD_PADDING) / self.height, label, ha="left", va="bottom", **slant, **style
            )
        with ignore_missing_glyphs():
            canvas.draw()
        return np.asarray(canvas.buffer_rgba())[..., 0] >> 1


def best_head(weights: Sequence[np.ndarray]) -> tuple[int, int]:
    """Chooses the head whose attention is most similar to a one-to-one alignment, without gold alignments.

    It is the head with the highest score: the mean of the row maxima plus the mean of the column maxima.

    Args:
        weights: the weights between the words of each sentence, `(L, H, T, S)`. The last row and column, EOS, are
            ignored unless a side has nothing else.

    Returns:
        The indices of the layer and the head.
    """
    without_eos = [sentence[..., :-1, :-1] if min(sentence.shape[2:]) > 1 else sentence for sentence in weights]
    score = sum(w.max(axis=-1).mean(axis=-1) + w.max(axis=-2).mean(axis=-1) for w in without_eos)
    layer, head = np.unravel_index(np.argmax(score), np.shape(score))
    return int(layer), int(head)


def _words(words: Sequence[int | None], tokens: Sequence[str]) -> tuple[list[int], list[str]]:
    """Returns the index of each word's first token, and each word's label. A token without a word counts as a word."""
    starts = [i for i, word in enumerate(words) if i == 0 or word is None or word != words[i - 1]]
    ends = [*starts[1:], len(tokens)]
    texts = ["".join(tokens[start:end]) for start, end in zip(starts, ends, strict=True)]
    return starts, [make_label(text.replace("\u2581", " ").strip() or text, CARD_LABEL_CHARACTERS) for text in texts]


def _letters(text: str) -> np.ndarray:
    """Draws a line of text; returns uint8 `(height, width)` from 0 (white) to 127 (black)."""
    face = font_manager.get_font(font_manager.findfont(DEFAULT_FONT))
    face.set_size(0.8 * CARD_FONT_PIXELS, 72)
    face.set_text(text)
    face.draw_glyphs_to_bitmap(antialiased=True)
    return np.asarray(face.get_image()) >> 1


def _png(indices: np.ndarray) -> bytes:
    """Returns a PNG file with a palette, from indices into `PALETTE`; true colours take ten times as long."""
    image = Image.frombytes("P", indices.shape[::-1], indices.tobytes())
    image.putpalette(PALETTE)
    file = io.BytesIO()
    image.save(file, "png", compress_level=3)
    return file.getvalue()
