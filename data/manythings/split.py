"""Divides sentence pairs into train, val and test so that no sentence of either language is in two of them.

A sentence often has many translations in the table, so a split by lines would test on sentences that were trained on.
Therefore pairs that share an English or a French sentence form a component, and a component is never divided.
"""

import random
from collections import Counter
from collections.abc import Sequence

from qkv.errors import InputError

SPLITS = ("train", "val", "test")
SEED = 20190407
HELD_OUT_SHARE = 0.02
LARGEST_HELD_OUT = 10  # pairs of a component; with larger ones the test would be paraphrases of a few sentences

Pair = tuple[str, str]


def find_components(pairs: Sequence[Pair]) -> list[int]:
    """The number of the component of each pair; pairs that share a sentence of either language have the same."""
    parents = list(range(len(pairs)))

    def find_root(index: int) -> int:
        while parents[index] != index:
            parents[index] = parents[parents[index]]
            index = parents[index]
        return index

    first_pairs: dict[tuple[int, str], int] = {}
    for index, pair in enumerate(pairs):
        for sentence in enumerate(pair):  # with its language, because "Oh !" may be English and French
            parents[find_root(index)] = find_root(first_pairs.setdefault(sentence, index))
    return [find_root(index) for index in range(len(pairs))]


def assign_splits(numbers: Sequence[int], seed: int = SEED) -> list[str]:
    """Draws a split for each pair by its component number: about 2 % test and 2 % val, of small components only."""
    sizes = Counter(numbers)
    order = [number for number, size in sizes.items() if size <= LARGEST_HELD_OUT]
    random.Random(seed).shuffle(order)
    split = dict.fromkeys(sizes, "train")
    for label in ("test", "val"):
        missing = HELD_OUT_SHARE * len(numbers)
        while order and missing > 0:
            number = order.pop()
            split[number] = label
            missing -= sizes[number]
    return [split[number] for number in numbers]


def check_split(labels: Sequence[str], pairs: Sequence[Pair], origin: str) -> None:
    """Checks that a split fits the pairs and does not leak.

    Raises:
        InputError: the number of lines differs, a label is unknown, or a sentence is in two splits.
    """
    mend = f"Remove {origin} to have a new split drawn."
    if len(labels) != len(pairs):
        raise InputError(f"{origin}: {len(labels):,} lines; expected {len(pairs):,}, one for each pair. {mend}")
    seen: dict[tuple[int, str], tuple[str, int]] = {}
    for number, (label, pair) in enumerate(zip(labels, pairs, strict=True), 1):
        if label not in SPLITS:
            raise InputError(f"{origin}:{number}: {label!r}; expected one of {', '.join(SPLITS)}. {mend}")
        for sentence in enumerate(pair):
            other, line = seen.setdefault(sentence, (label, number))
            if other != label:
                raise InputError(
                    f"{origin}:{number}: {label}, but line {line} with the same sentence, {sentence[1]!r}, is {other}; "
                    f"expected no sentence in two splits. {mend}"
                )


def summarise(labels: Sequence[str], numbers: Sequence[int]) -> str:
    """Pairs, components and the largest component of each split, as a small table."""
    sizes = Counter(numbers)
    split_of = dict(zip(numbers, labels, strict=True))
    rows = [f"{'split':6}{'pairs':>9}{'components':>12}{'largest':>9}"]
    for split in SPLITS:
        split_sizes = [size for number, size in sizes.items() if split_of[number] == split]
        rows.append(f"{split:6}{sum(split_sizes):9,}{len(split_sizes):12,}{max(split_sizes, default=0):9,}")
    return "\n".join(rows)
