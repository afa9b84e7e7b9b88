"""Finds the heads of two models of opposite directions that link the same words: a choice without gold alignments.

Heads that align words agree in both directions; heads that do something else have no reason to (Liang et al. 2006
trained aligners to agree; Zenkel et al. 2020 judge attention by its agreement).
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ..config.names.inspection import LABEL_SIDES
from ..inspection.record import Record
from .readout import AlignmentReadout, all_readouts, links_of_heads


class Agreement(NamedTuple):
    """The two readouts that agree most.

    Args:
        forward: the readout of the model from source to target.
        backward: the readout of the model from target to source.
        value: 2 |A and B| / (|A| + |B|) of their links A and B over all sentences, 0 to 1.
    """

    forward: AlignmentReadout
    backward: AlignmentReadout
    value: float


def most_agreeing(forward: Iterable[Record], backward: Iterable[Record]) -> Agreement:
    """Compares every layer, head and side of one model with every layer, head and side of the other.

    Args:
        forward: records of pairs.
        backward: records of the same pairs with source and target exchanged, in the same order.

    Raises:
        ValueError: there are no pairs, the numbers of records differ, or a model has no cross-attention.
    """
    shared: np.ndarray | int = 0  # links of both, (forward readouts, backward readouts)
    total: np.ndarray | int = 0  # links of forward plus links of backward
    readouts: tuple[list[AlignmentReadout], list[AlignmentReadout]] = ([], [])
    for record, opposite in zip(forward, backward, strict=True):
        readouts = all_readouts(record), all_readouts(opposite)
        links, opposite_links = _flat_links(record), _flat_links(opposite, turned=True)
        if links.shape[1] != opposite_links.shape[1]:
            raise ValueError(f"sentence {record.id}: expected the same words in both directions, found others")
        shared = shared + links @ opposite_links.T
        total = total + links.sum(axis=1)[:, None] + opposite_links.sum(axis=1)[None]
    if not readouts[0] or not readouts[1]:
        raise ValueError("there is no cross-attention to compare")
    agreement = 2 * shared / np.maximum(total, 1)
    i, j = np.unravel_index(np.argmax(agreement), agreement.shape)
    return Agreement(readouts[0][i], readouts[1][j], float(agreement[i, j]))


def _flat_links(record: Record, turned: bool = False) -> np.ndarray:
    """Returns 0 or 1 for each readout and word pair, `(readouts, source words * target words)`; `turned` if the
    record's source is the target."""
    links = np.stack([links_of_heads(record, side) for side in LABEL_SIDES])  # (side, layer, head, target, source)
    if not turned:
        links = np.swapaxes(links, -1, -2)
    # No `reshape(-1, ...)`: a sentence may have no words.
    return links.reshape(math.prod(links.shape[:3]), -1).astype(np.float64)
