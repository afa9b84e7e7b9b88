"""Batches of pairs of like length, for the racers whose loop is ours."""

import random
from collections.abc import Iterator, Sequence


def token_batches(pairs: Sequence[tuple[list[int], list[int]]], tokens: int, seed: int) -> Iterator[list[int]]:
    """Yields numbers of pairs in batches, epoch after epoch without end.

    Args:
        pairs: source and target ids.
        tokens: of the longer side that a batch may have, padding included.
        seed: of the order.
    """
    rng = random.Random(seed)
    while True:
        order = sorted(range(len(pairs)), key=lambda i: (len(pairs[i][1]), len(pairs[i][0]), rng.random()))
        batches: list[list[int]] = [[]]
        longest = 0
        for i in order:
            longest = max(longest, *map(len, pairs[i]))
            if batches[-1] and longest * (len(batches[-1]) + 1) > tokens:
                batches.append([])
                longest = max(map(len, pairs[i]))
            batches[-1].append(i)
        rng.shuffle(batches)
        yield from batches
