"""The text of a run as padded arrays, in buckets of few widths: XLA compiles anew for each."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from .transformer import EOS, PAD

WIDTHS = 9, 11, 13, 15, 17, 19, 22, 26, 32
"""Of all buckets but the last, which is as wide as the longest pair."""
BATCH_POSITIONS = 1536
SIDES = ("source", "target")


def read_text(run: Path, name: str, vocabulary: int) -> list[list[np.ndarray]]:
    """Returns the encoded sentences of `train` or `validation`, sources and targets, without EOS.

    Args:
        run: the folder of a run.
        name: of the set.
        vocabulary: V; JAX would read another row for an id outside it, and say nothing.
    """
    sides, encoded = [], run / "encoded"
    for side in SIDES:
        try:
            ids, starts = (np.load(encoded / f"{name}.{side}.{part}.npy") for part in ("ids", "starts"))
        except FileNotFoundError as error:
            raise SystemExit(f"{error.filename}: missing; start a training of the best preset, as {run}") from None
        if ids.max() >= vocabulary:
            raise SystemExit(f"{encoded}: expected fewer than {vocabulary:,} ids, found {ids.max()}: another run?")
        sides.append(np.split(ids.astype("int32"), starts[1:-1]))
    return sides


def widths_of(sides) -> np.ndarray:
    """Returns the number of tokens of the longer side of each pair, EOS included."""
    return np.max([[len(ids) + 1 for ids in side] for side in sides], axis=0)


def padded(sentences, width: int) -> np.ndarray:
    """Returns int32 `(sentences, width)`: ids, EOS, then PAD."""
    rows = np.full((len(sentences), width), PAD, "int32")
    for row, ids in zip(rows, sentences, strict=True):
        row[: len(ids) + 1] = *ids, EOS
    return rows


class Bucket(NamedTuple):
    """Pairs whose longer side fits into a width and not into the next smaller one.

    - source, target: int32 `(pairs, width)`.
    - batch: the number of sentences that fill `BATCH_POSITIONS` at the mean width of the bucket, so that a pass has as
      many updates as with batches of every width.
    """

    source: np.ndarray
    target: np.ndarray
    batch: int


def make_buckets(sides, widths=WIDTHS, positions=BATCH_POSITIONS) -> dict[int, Bucket]:
    """Puts pairs into buckets by width; widths that no pair needs have none."""
    needed = widths_of(sides)
    widest = int(needed.max())
    buckets, lower = {}, 0
    for width in (*(width for width in widths if width < widest), widest):
        rows = np.flatnonzero((needed > lower) & (needed <= width))
        lower = width
        if len(rows):
            arrays = (padded([side[row] for row in rows], width) for side in sides)
            buckets[width] = Bucket(*arrays, min(len(rows), round(positions / needed[rows].mean())))
    return buckets


def epoch(buckets: dict[int, Bucket], generator: np.random.Generator, models: int) -> list[tuple[int, np.ndarray]]:
    """Returns the batches of a pass, each a width and the rows of each model's pairs, int32 `(N, batch)`.

    All models have the widths in the same order, and in a batch other pairs. Pairs that fill no batch are left out,
    other ones every time.
    """
    batches = []
    for width, bucket in buckets.items():
        pairs, count = len(bucket.source), len(bucket.source) // bucket.batch
        orders = [generator.permutation(pairs)[: count * bucket.batch] for _ in range(models)]
        rows = np.stack(orders).astype("int32").reshape(models, count, bucket.batch)
        batches += [(width, rows[:, number]) for number in range(count)]
    generator.shuffle(batches)
    return batches
