"""Packed batches, built token by token: rows with several sentence pairs, rows with one, and a row of padding."""

import numpy as np

from qkv.text.batch import Batch, pad
from qkv.text.tokens.special_tokens import BOS, EOS

PAIRS = [
    ([5, 9, 4, 16, 7], [7, 10, 13, 5, 8, 9]),
    ([8], [4, 11]),
    ([11, 12, 13, 14, 15, 4], [16]),
    ([9, 6, 10], [12, 15, 6]),
]
"""Pairs of source and target tokens, without BOS and EOS, of different lengths. No side is longer than 7 with EOS."""
LINKS = [[(0, 0), (1, 2), (4, 5), (5, 6)], [(0, 1)], [(2, 0), (3, 0)], []]
"""Links of (source token, output token) for each of `PAIRS`. One links EOS with EOS; other tokens have none."""
ROWS = [[0, 1, 2], [3], []]
"""The pairs in each row."""


def pack(rows, width=(20, 15), with_links=False, pairs=PAIRS, links=LINKS):
    """Makes a packed batch.

    Args:
        rows: for each row the numbers of its pairs.
        width: the source length S and the target length T of the batch.
        with_links: whether the batch has the links.
        pairs, links: the pairs and their links.
    """
    source, target_input, target_output, source_segments, target_segments = ([] for _ in range(5))
    matrices = np.zeros((len(rows), width[1], width[0]), bool)
    for row, matrix in zip(rows, matrices, strict=True):
        sides = [[], [], [], [], []]
        for segment, number in enumerate(row, start=1):
            source_tokens, target_tokens = pairs[number]
            for source_token, target_token in links[number]:
                matrix[len(sides[1]) + target_token, len(sides[0]) + source_token] = True
            sides[0] += [*source_tokens, EOS]
            sides[1] += [BOS, *target_tokens]
            sides[2] += [*target_tokens, EOS]
            sides[3] += [segment] * (len(source_tokens) + 1)
            sides[4] += [segment] * (len(target_tokens) + 1)
        for batch_side, side in zip(
            (source, target_input, target_output, source_segments, target_segments), sides, strict=True
        ):
            batch_side.append(side)
    S, T = width
    ids = pad(source, S), pad(target_input, T), pad(target_output, T)
    return Batch(*ids, matrices if with_links else None, pad(source_segments, S), pad(target_segments, T))


def alone(numbers, with_links=False):
    """Makes the batch of pairs that each have a row of their own, without segments, padded to the longest one."""
    width = tuple(1 + max(len(PAIRS[number][side]) for number in numbers) for side in (0, 1))
    batch = pack([[number] for number in numbers], width, with_links)
    return batch._replace(source_segments=None, target_segments=None)
