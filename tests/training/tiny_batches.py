"""Four sentence pairs of made-up ids, and batches of them."""

from qkv.text.batches import Batch, pad
from qkv.text.tokenizer import BOS, EOS

SOURCES = [[4, 5, 6, EOS], [7, EOS], [8, 9, EOS], [5, 4, 8, 7, 6, EOS]]
TARGETS = [[9, 8], [7, 7, 6, 5], [4], [6, 6, 9]]


def batch_of(rows):
    """The batch of the pairs with these numbers, all padded to the same lengths."""
    return Batch(
        pad([SOURCES[row] for row in rows], 6),
        pad([[BOS, *TARGETS[row]] for row in rows], 5),
        pad([[*TARGETS[row], EOS] for row in rows], 5),
    )
