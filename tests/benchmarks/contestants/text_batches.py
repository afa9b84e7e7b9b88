"""Batches of real text for contestants that are not ours, with NumPy alone: the ids that our tokenizer has written.

Rows of several sentence pairs (`packed`) have one shape; rows of one pair (`padded`) are sorted by length, so that a
batch has about as much padding as it must.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

PAD, BOS, EOS = 0, 2, 3  # see qkv.text.tokens.special_tokens, which would load TensorFlow; a test compares them
MULTIPLE = 8  # padded lengths are multiples of it
ROW_MULTIPLE = 16  # lengths of packed rows are
MOST_PADDING = 0.05  # of the positions of packed rows
SEARCHED_ROWS = 64  # rows with room that a pair is put into the first of


class TextBatch(NamedTuple):
    """A batch: int32 arrays `(rows, length)`. In padded rows each sentence has number 1.

    - source: tokens and EOS of each sentence.
    - target_input: BOS and the tokens.
    - target_output: the tokens and EOS.
    - source_segments, target_segments: the number in its row of the sentence that a token belongs to; 0 for padding.
    - source_positions, target_positions: the position of a token in its sentence.
    """

    source: np.ndarray
    target_input: np.ndarray
    target_output: np.ndarray
    source_segments: np.ndarray
    target_segments: np.ndarray
    source_positions: np.ndarray
    target_positions: np.ndarray

    @property
    def tokens(self) -> int:
        """The number of target tokens, padding excluded."""
        return int((self.target_output != PAD).sum())


def read_ids(folder: Path) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Returns the ids of each source and of each target sentence, from the folder `encoded` of a run."""
    sides = []
    for side in ("source", "target"):
        ids = np.load(folder / f"train.{side}.ids.npy").astype("int32")
        starts = np.load(folder / f"train.{side}.starts.npy")
        sides.append(np.split(ids, starts[1:-1]))
    return sides[0], sides[1]


def make_batches(folder: Path, rows: str, batch_tokens: int, pairs: int) -> list[TextBatch]:
    """Returns the batches of an epoch.

    Args:
        folder: the folder `encoded` of a run.
        rows: "packed" or "padded".
        batch_tokens: the largest number of positions of a side of a batch.
        pairs: the number of sentence pairs that are used, the first ones.
    """
    source, target = (side[:pairs] for side in read_ids(folder))
    batches = list({"packed": _packed, "padded": _padded}[rows](source, target, batch_tokens))
    np.random.default_rng(0).shuffle(batches)  # type: ignore[arg-type]
    return batches


def padding(batches: Sequence[TextBatch]) -> float:
    """Returns the share of the positions of both sides that hold no token."""
    filled = sum(int((ids != PAD).sum()) for batch in batches for ids in (batch.source, batch.target_output))
    return 1 - filled / sum(batch.source.size + batch.target_output.size for batch in batches)


def _packed(source: Sequence[np.ndarray], target: Sequence[np.ndarray], batch_tokens: int) -> Iterator[TextBatch]:
    """Yields the full batches: the last one would be mostly padding, which a large corpus does not have."""
    order = np.random.default_rng(0).permutation(len(source))
    longest = max(len(ids) + 1 for side in (source, target) for ids in side)
    length = -(-longest // ROW_MULTIPLE) * ROW_MULTIPLE
    rows = _fill_rows(source, target, order, length)
    while _share_of_padding(rows, source, target, length) > MOST_PADDING and length < 4 * longest:
        length += ROW_MULTIPLE
        rows = _fill_rows(source, target, order, length)
    count = min(max(batch_tokens // length, 1), len(rows))
    for first in range(0, len(rows) - count + 1, count):
        yield _batch(rows[first : first + count], source, target, length, length)


def _fill_rows(source, target, order, length: int) -> list[list[int]]:
    """Puts each pair into the first of the open rows that has room for both of its sides."""
    rows: list[list[int]] = []
    open_rows: list[tuple[list[int], list[int]]] = []  # a row, and its room on either side
    for pair in order:
        needed = len(source[pair]) + 1, len(target[pair]) + 1
        fitting = (row for row in open_rows if needed[0] <= row[1][0] and needed[1] <= row[1][1])
        row, room = next(fitting, ([], [length, length]))
        if not row:
            rows.append(row)
            open_rows = [*open_rows[-SEARCHED_ROWS + 1 :], (row, room)]
        row.append(int(pair))
        room[0] -= needed[0]
        room[1] -= needed[1]
    return rows


def _share_of_padding(rows: list[list[int]], source, target, length: int) -> float:
    tokens = sum(len(source[pair]) + len(target[pair]) + 2 for row in rows for pair in row)
    return 1 - tokens / (2 * length * len(rows))


def _padded(source: Sequence[np.ndarray], target: Sequence[np.ndarray], batch_tokens: int) -> Iterator[TextBatch]:
    """Yields batches of sentences of similar length, sorted by both sides."""
    lengths = np.array([[len(ids) + 1 for ids in side] for side in (target, source)])
    rounded = -(-lengths // MULTIPLE) * MULTIPLE
    order = np.lexsort((rounded[1], rounded[0]))
    first = 0
    while first < len(order):
        last, longest = first, np.zeros(2, int)
        while last < len(order):
            grown = np.maximum(longest, rounded[:, order[last]])
            if (last - first + 1) * grown.max() > batch_tokens and last > first:
                break
            longest, last = grown, last + 1
        yield _batch([[pair] for pair in order[first:last]], source, target, longest[1], longest[0])
        first = last


def _batch(rows, source, target, source_length: int, target_length: int) -> TextBatch:
    """Fills the arrays of a batch from the pairs of each of its rows."""
    arrays = {
        name: np.zeros((len(rows), source_length if name.startswith("source") else target_length), "int32")
        for name in TextBatch._fields
    }
    for number, row in enumerate(rows):
        starts = [0, 0]
        for segment, pair in enumerate(row, 1):
            ids = source[pair], target[pair]
            ends = [start + len(side) + 1 for start, side in zip(starts, ids, strict=True)]
            for side, prefix in enumerate(("source", "target")):
                here = np.s_[number, starts[side] : ends[side]]
                arrays[f"{prefix}_segments"][here] = segment
                arrays[f"{prefix}_positions"][here] = np.arange(len(ids[side]) + 1)
            arrays["source"][number, starts[0] : ends[0]] = [*ids[0], EOS]
            arrays["target_input"][number, starts[1] : ends[1]] = [BOS, *ids[1]]
            arrays["target_output"][number, starts[1] : ends[1]] = [*ids[1], EOS]
            starts = ends
    return TextBatch(**arrays)


def sinusoids(length: int, width: int) -> np.ndarray:
    """Returns the positions of Vaswani et al. (2017, section 3.5), float32 `(length, width)`."""
    angles = np.arange(length)[:, None] / 10000 ** (np.arange(0, width, 2) / width)
    return np.stack([np.sin(angles), np.cos(angles)], -1).reshape(length, width).astype("float32")


def repeated(
    epoch: Callable[[], float], tokens: Sequence[int], share: float, turn_seconds: float
) -> Callable[[], dict[str, float]]:
    """Returns a turn of whole epochs.

    Args:
        epoch: makes an update of each batch, waits for the device, and returns a loss.
        tokens: the target tokens of each batch.
        share: the share of padding, for the table.
        turn_seconds: about how long a turn lasts. The first turn compiles, and measures how many epochs that is.
    """
    epochs = 0

    def turn() -> dict[str, float]:
        nonlocal epochs
        if not epochs:
            epoch()
            started = time.perf_counter()
            epoch()
            epochs = max(round(turn_seconds / (time.perf_counter() - started)), 1)
            return {}
        for _ in range(epochs):
            loss = epoch()
        return {"tokens": epochs * sum(tokens), "updates": epochs * len(tokens), "padding": share, "loss": loss}

    return turn
