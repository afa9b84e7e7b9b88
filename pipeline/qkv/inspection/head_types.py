"""Types of heads, named only where a permutation control allows it.

A type is a place of each row: the previous token, the linked word, EOS. A head is named after a type if

- at least half of its weight lies there, over all rows that have such a place (`LEAST_SHARE`),
- and permuting the weights within the rows brings as much there in fewer than 5 % of cases, after Holm's correction
  over all heads and types (`LEVEL`),
- and, for links between words, it is the links of this very sentence: links of other sentences of nearly its length are
  met less, at the same level. So a head that looks at places is not taken for one that looks at words, in languages of
  one order.

Where several types fit, the one with the largest share is named. With few sentences, none is.
"""

from collections import deque
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..config.names.inspection import HEAD_TYPES, SITES
from ..errors import DAMAGE, InputError
from ..statistics.significance import PermutedSums, drawn_sums, holm, p_at_most, permuted_sums
from ..text.corpora.word_links import GoldAlignment
from .measures import is_punctuation
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
            tokens are linked that are equal on both sides and stand once on each, such as names and numbers.
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
            weights = record.attention[site].astype(np.float64)
            allowed = np.ones(weights.shape[2:], bool)
            if SITES[site].axes == ("target", "target"):
                allowed = np.tril(allowed)
            for name in (name for name, row in HEAD_TYPES.items() if site in row.sites):
                places = PLACES[name](record, links, allowed.shape) & allowed
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

        `share` is the share of the weight of the rows that have such a place, `chance` the mean of the share over all
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
            return _equal_token_links(record)
        is_reference = record.mode == "forced" or record.hypothesis == record.reference
        sure = self._gold[record.id].sure if is_reference and record.id in self._gold else ()
        words = [[(i, j) in sure for i in record.source_words] for j in record.target_words]
        return np.array(words, bool).reshape(len(record.target_words), -1)

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

    Each row takes the links of the row at the same relative place, or of the nearest one that has some, as many keys
    before or after itself: what a head that looks at places knows is how far away a key is.
    """
    lent = np.zeros_like(links)
    scale = (len(links) - 1) / max(1, len(other) - 1)
    rows, linked = np.flatnonzero(links.any(axis=1)), np.flatnonzero(other.any(axis=1))
    nearest = linked[np.abs(linked * scale - rows[:, None]).argmin(axis=1)]
    at, columns = np.nonzero(other[nearest])
    lent[rows[at], (columns + rows[at] - nearest[at]).clip(0, links.shape[1] - 1)] = True
    return lent


TYPED_SITES = tuple(dict.fromkeys(site for row in HEAD_TYPES.values() for site in row.sites))
"""The attention whose heads are named."""

LINKED_TYPES = ("aligner", "input_aligner")
"""The types whose places are links between words."""


def _equal_token_links(record: Record) -> np.ndarray:
    links = np.zeros((len(record.target_output_tokens), len(record.source_tokens)), bool)
    target, source = record.target_output_tokens, record.source_tokens
    for token in {*target} & {*source}:
        if target.count(token) == source.count(token) == 1 and not is_punctuation(token):
            row, column = target.index(token), source.index(token)
            links[row, column] = record.target_words[row] is not None and record.source_words[column] is not None
    return links


def _at(offset: int) -> Callable[[Record, np.ndarray, tuple[int, ...]], np.ndarray]:
    return lambda record, links, shape: np.eye(shape[0], shape[1], offset, dtype=bool)


def _eos(record: Record, links: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    has_eos = record.source_words[-1] is None
    return np.broadcast_to(has_eos & (np.arange(shape[1]) == shape[1] - 1), shape)


PLACES: dict[str, Callable[[Record, np.ndarray, tuple[int, ...]], np.ndarray]] = {
    "previous": _at(-1),
    "same": _at(0),
    "next": _at(1),
    "aligner": lambda record, links, shape: links,
    "input_aligner": lambda record, links, shape: np.concatenate([np.zeros((1, shape[1]), bool), links[:-1]]),
    "eos": _eos,
    "bos": lambda record, links, shape: np.broadcast_to(np.arange(shape[1]) == 0, shape),
}
"""The places of each type, from the sentence, its links and the shape `(T, S)`."""


def describe_types(table: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Returns the types of the named heads of a table of `HeadTypesMeter` as pages hold them, by `SITE/LAYER/HEAD`."""
    return {
        f"{row['site']}/{row['layer']}/{row['head']}": {
            "label": HEAD_TYPES[row["type"]].label,
            "short": HEAD_TYPES[row["type"]].short,
            "meaning": HEAD_TYPES[row["type"]].meaning,
            "share": round(row["share"], 4),
        }
        for row in table[table["named"].astype(bool)].to_dict("records")
    }


def read_head_types(path: Path) -> pd.DataFrame:
    """Reads a table of `HeadTypesMeter` from its file; an empty one if there is no such file.

    Raises:
        InputError: it is damaged.
    """
    if not path.is_file():
        return pd.DataFrame(columns=list(COLUMNS))
    types = {"site": str, "layer": int, "head": int, "type": str, "share": float, "named": bool}
    try:
        table = pd.read_csv(path, keep_default_na=False, na_values={"share": "", "chance": "", "p": ""}).astype(types)
    except DAMAGE as error:
        raise InputError(f"{path}: not a table of types of heads ({error}); delete it, or evaluate anew") from None
    right = table["type"].isin(list(HEAD_TYPES)) & table["share"].between(0, 1)
    for row in table[table["named"] & ~right].itertuples():
        raise InputError(f"{path}: no such type or share: {row.type}, {row.share}; delete it, or evaluate anew")
    return table
