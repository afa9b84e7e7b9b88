"""What a head does in general: types that are named only where a permutation control allows it.

A type is a place of each row: the previous token, the linked word, EOS. A head is named after a type if

- at least half of its weight lies there, over all rows that have such a place (`LEAST_SHARE`),
- and permuting the weights within the rows brings as much there in fewer than 5 % of cases, after Holm's correction
  over all heads and types (`LEVEL`),
- and, for links between words, it is the links of this very sentence: those of other sentences of nearly its length are
  met less, at the same level. So a head that looks at places is not taken for one that looks at words, in languages of
  one order.

Where several types fit, the one with the largest share is named. With few sentences, none is.
"""

from collections import deque
from collections.abc import Mapping
from itertools import product

import numpy as np
import pandas as pd

from ..config.names.inspection import HEAD_TYPES
from ..statistics.significance import PermutedSums, drawn_sums, holm, p_at_most, permuted_sums
from ..text.corpora.word_links import GoldAlignment
from .head_places import LINKED_TYPES, PLACES, TYPED_SITES, allowed_keys, equal_token_links, find_places, gold_links
from .record import Record

LEAST_SHARE = 0.5
LEVEL = 0.05
NEIGHBOURS = 20
"""How many other sentences lend their links."""
REMEMBERED = 200
"""Sentences among which they are chosen: the last ones."""

COLUMNS = ("site", "layer", "head", "type", "share", "chance", "p", "rows", "named")


class HeadTypesMeter:
    """Finds the types of heads over sentences with the same layers and heads.

    Args:
        gold: gold alignments of the sentences by their id, which count where the target is the reference. Without any,
            words are linked that are equal in both languages; see `head_places.equal_token_links`.
    """

    def __init__(self, gold: Mapping[int, GoldAlignment] | None = None) -> None:
        self._gold = gold
        self._found: dict[tuple[str, str], PermutedSums] = {}
        self._lent: dict[tuple[str, str], PermutedSums] = {}
        self._remembered: deque[np.ndarray] = deque(maxlen=REMEMBERED)

    def add(self, record: Record) -> None:
        """Adds a sentence, with whatever attention it holds; one with an empty side counts nothing."""
        if record.has_empty_side:
            return
        links = self._links(record)
        lent = [_lend(other, links) for other in self._neighbours(links)]
        for site in (site for site in TYPED_SITES if site in record.attention and record.attention[site].size):
            weights, allowed = record.attention[site].astype(np.float64), allowed_keys(record, site)
            for name, places in find_places(record, site, links).items():
                sums = permuted_sums(weights, allowed, places)
                if sums is None:
                    continue
                _join(self._found, (site, name), sums)
                if name in LINKED_TYPES and lent:
                    each = np.array([places, *(PLACES[name](record, one, allowed.shape) for one in lent)], np.float64)
                    met = np.einsum("lhn,mn->mlh", weights.reshape(*weights.shape[:2], -1), each.reshape(len(each), -1))
                    _join(self._lent, (site, name), drawn_sums(met[0], met[1:], sums.rows))
        if links.any():
            self._remembered.append(links)

    def table(self) -> pd.DataFrame:
        """Returns a row for each head and type of its site, with `COLUMNS`.

        `share` is that of the weight of the rows that have such a place, `chance` the mean of the share over all
        permutations, `p` at most the p-value after Holm's correction over the table, `rows` their number; `named` says
        whether the head is named after this type.
        """
        rows = []
        for (site, name), sums in self._found.items():
            p = p_at_most(sums)
            if name in LINKED_TYPES:  # both controls must hold; without other sentences there is no second one
                lent = self._lent.get((site, name))
                p = np.maximum(p, p_at_most(lent)) if lent else np.ones_like(p)
            for layer, head in product(*map(range, p.shape)):
                at = layer, head
                shares = (float(x[at] / sums.rows) for x in (sums.found, sums.expected))
                rows.append((site, layer, head, name, *shares, float(p[at]), sums.rows, False))
        table = pd.DataFrame(rows, columns=list(COLUMNS))
        if rows:
            table["p"] = holm(table["p"].to_numpy())
            allowed = table[(table["share"] >= LEAST_SHARE) & (table["p"] < LEVEL)]
            best = allowed.groupby(["site", "layer", "head"])["share"].idxmax()
            table.loc[best.to_numpy(), "named"] = True
        order = {name: place for place, name in enumerate((*TYPED_SITES, *HEAD_TYPES))}
        columns = ["site", "layer", "head", "type"]
        return table.sort_values(columns, key=lambda column: column.replace(order), ignore_index=True)

    def _links(self, record: Record) -> np.ndarray:
        if self._gold is None:
            return equal_token_links(record)
        is_reference = record.mode == "forced" or record.hypothesis == record.reference
        if is_reference and record.id in self._gold:
            return gold_links(record, self._gold[record.id])
        return np.zeros((len(record.target_output_tokens), len(record.source_tokens)), bool)

    def _neighbours(self, links: np.ndarray) -> list[np.ndarray]:
        """Returns the links of the sentences that are nearest in length, if this one has any."""
        if not links.any():
            return []
        shapes = np.array([other.shape for other in self._remembered], int).reshape(-1, 2)
        nearest = np.abs(shapes - links.shape).sum(axis=1).argsort(kind="stable")[:NEIGHBOURS]
        return [self._remembered[place] for place in nearest]


def _join(sums: dict[tuple[str, str], PermutedSums], key: tuple[str, str], more: PermutedSums) -> None:
    sums[key] = sums[key].plus(more) if key in sums else more


def _lend(other: np.ndarray, links: np.ndarray) -> np.ndarray:
    """Returns the links of another sentence for the rows that have links here.

    Each row takes those of the row at the same relative place, or of the nearest one that has some, as many keys before
    or after itself: what a head that looks at places knows is how far away a key is.

    Args:
        other: bool `(T', S')`.
        links: bool `(T, S)`.
    """
    lent = np.zeros_like(links)
    scale = (len(links) - 1) / max(1, len(other) - 1)
    rows, linked = np.flatnonzero(links.any(axis=1)), np.flatnonzero(other.any(axis=1))
    nearest = linked[np.abs(linked * scale - rows[:, None]).argmin(axis=1)]
    at, columns = np.nonzero(other[nearest])
    lent[rows[at], (columns + rows[at] - nearest[at]).clip(0, links.shape[1] - 1)] = True
    return lent
