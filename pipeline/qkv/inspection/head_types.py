"""Types of heads, such as "attends to the previous token"; a head gets one only if it passes permutation tests.

A type marks certain keys of each row: the previous token, the linked word, EOS. A head gets a type if

- at least `LEAST_SHARE` of its weight is on the marked keys, over all rows that have marked keys,
- fewer than 5 % (`LEVEL`) of the permutations of the weights within the rows put as much weight there, after Holm's
  correction over all heads and types,
- and, for links between words, the links of other sentences of similar length get less weight, at the same level. In
  languages of the same word order, this separates heads that attend to words from heads that attend to positions.

If several types pass, the head gets the one with the largest share. With few sentences, no type passes.
"""

from collections import deque
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..config.choices.inspection import HEAD_TYPES, SITES
from ..errors import DAMAGE, InputError
from ..statistics.significance import PermutedSums, RowMoments, holm, p_upper_bound, permuted_sums, resampled_sums
from ..text.corpora.word_links import GoldAlignment
from .measures import is_punctuation
from .record import Record

LEAST_SHARE = 0.5
LEVEL = 0.05
CONTROL_SENTENCES = 20
"""The number of other sentences whose links are the control for links between words."""

RECENT_SENTENCES = 200
"""The number of sentences, the last ones added, from which the control sentences are chosen."""

HEAD_TYPE_COLUMNS = ("site", "layer", "head", "type", "share", "chance", "p", "rows", "named")


class HeadTypesMeter:
    """Finds the types of heads over sentences whose records have the same layers and heads.

    Args:
        gold: gold alignments by the id of the sentence. They are used only if the target is the reference. None links
            equal tokens that occur once on each side, such as names and numbers.
    """

    def __init__(self, gold: Mapping[int, GoldAlignment] | None = None) -> None:
        self._gold = gold
        self._sums: dict[tuple[str, str], PermutedSums] = {}
        self._control_sums: dict[tuple[str, str], PermutedSums] = {}
        self._recent_links: deque[tuple[np.ndarray, np.ndarray]] = deque(maxlen=RECENT_SENTENCES)

    def add(self, record: Record) -> None:
        """Adds a sentence with all attention that its record holds. A sentence with an empty side is ignored."""
        if record.has_empty_side:
            return
        links = self._links(record)
        linked_rows = np.flatnonzero(links.any(axis=1))
        control_links = [_transfer_links(*other, links, linked_rows) for other in self._control_sentences(links)]
        for site in TYPED_SITES:
            if site not in record.attention or not record.attention[site].size:
                continue
            weights = record.attention[site].astype(np.float64)
            allowed = np.ones(weights.shape[2:], bool)
            if SITES[site].axes == ("target", "target"):
                allowed = np.tril(allowed)
            moments = RowMoments.of(weights, allowed)
            for name in (name for name, sites in HEAD_TYPES.items() if site in sites):
                marked = MARKED_KEYS[name](record, links, allowed.shape) & allowed
                sums = permuted_sums(moments, marked)
                if sums is None:
                    continue
                _add_sums(self._sums, (site, name), sums)
                if name in LINKED_TYPES and control_links:
                    controls = [MARKED_KEYS[name](record, other, allowed.shape) for other in control_links]
                    masks = np.array([marked, *controls], np.float64).reshape(len(controls) + 1, -1)
                    weight_on = np.einsum("lhn,mn->mlh", weights.reshape(*weights.shape[:2], -1), masks)
                    control_sums = resampled_sums(weight_on[0], weight_on[1:], sums.rows)
                    _add_sums(self._control_sums, (site, name), control_sums)
        if linked_rows.size:
            self._recent_links.append((links, linked_rows))

    def table(self) -> pd.DataFrame:
        """Returns a row for each head and type of its site, with these `HEAD_TYPE_COLUMNS`:

        - share: the share of the weight on marked keys, over the rows that have marked keys.
        - chance: the mean of the share over all permutations.
        - p: an upper bound of the p-value, after Holm's correction over the table.
        - rows: the number of rows that have marked keys.
        - named: True if the head gets this type.
        """
        rows = []
        for (site, name), sums in self._sums.items():
            p = p_upper_bound(sums)
            if name in LINKED_TYPES:  # both tests must pass; without control sentences the second one cannot
                control_sums = self._control_sums.get((site, name))
                p = np.maximum(p, p_upper_bound(control_sums)) if control_sums else np.ones_like(p)
            for layer, head in product(*map(range, p.shape)):
                share = float(sums.observed[layer, head] / sums.rows)
                chance = float(sums.expected[layer, head] / sums.rows)
                rows.append((site, layer, head, name, share, chance, float(p[layer, head]), sums.rows, False))
        table = pd.DataFrame(rows, columns=list(HEAD_TYPE_COLUMNS))
        if rows:
            table["p"] = holm(table["p"].to_numpy())
            passing = table[(table["share"] >= LEAST_SHARE) & (table["p"] < LEVEL)]
            best = passing.groupby(["site", "layer", "head"])["share"].idxmax()
            table.loc[best.to_numpy(), "named"] = True
        order = {name: position for position, name in enumerate((*TYPED_SITES, *HEAD_TYPES))}
        columns = ["site", "layer", "head", "type"]
        return table.sort_values(
            columns,
            key=lambda column: column.map(order) if column.name in ("site", "type") else column,
            ignore_index=True,
        )

    def _links(self, record: Record) -> np.ndarray:
        """Returns the links between output tokens and source tokens, bool `(T, S)`, True for linked tokens."""
        if self._gold is None:
            return _equal_token_links(record)
        is_reference = record.mode == "forced" or record.hypothesis == record.reference
        sure = self._gold[record.id].sure if is_reference and record.id in self._gold else ()
        words = [[(i, j) in sure for i in record.source_words] for j in record.target_words]
        return np.array(words, bool).reshape(len(record.target_words), -1)

    def _control_sentences(self, links: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Returns the recent sentences that are nearest in length: their links, bool `(T', S')`, and the linked rows.

        Args:
            links: the links of the present sentence, bool `(T, S)`. If it has none, the result is an empty list.
        """
        if not links.any():
            return []
        shapes = np.array([other.shape for other, _ in self._recent_links], int).reshape(-1, 2)
        nearest = np.abs(shapes - links.shape).sum(axis=1).argsort(kind="stable")[:CONTROL_SENTENCES]
        return [self._recent_links[index] for index in nearest]


def _add_sums(table: dict[tuple[str, str], PermutedSums], key: tuple[str, str], sums: PermutedSums) -> None:
    table[key] = table[key].plus(sums) if key in table else sums


def _transfer_links(other: np.ndarray, other_rows: np.ndarray, links: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Transfers the links of another sentence to the rows of a sentence that have links.

    Each such row gets the links of the other sentence's row at the same relative position, or of the nearest row that
    has links. The offset between row and key is kept, since a head that attends to positions knows only offsets.

    Args:
        other: the links of the other sentence, bool `(T', S')`.
        other_rows: the numbers of its rows that have links, at least one.
        links: the links of this sentence, bool `(T, S)`.
        rows: the numbers of its rows that have links.

    Returns:
        bool `(T, S)`.
    """
    transferred = np.zeros_like(links)
    scale = (len(links) - 1) / max(1, len(other) - 1)
    nearest = other_rows[np.abs(other_rows * scale - rows[:, None]).argmin(axis=1)]
    index, keys = np.nonzero(other[nearest])
    transferred[rows[index], (keys + rows[index] - nearest[index]).clip(0, links.shape[1] - 1)] = True
    return transferred


TYPED_SITES = tuple(dict.fromkeys(site for sites in HEAD_TYPES.values() for site in sites))
"""The sites of attention whose heads can have a type."""

LINKED_TYPES = ("aligner", "input_aligner")
"""The types that mark the links between words."""


def _equal_token_links(record: Record) -> np.ndarray:
    """Returns links between equal tokens that occur once on each side and are not punctuation, bool `(T, S)`."""
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


MARKED_KEYS: dict[str, Callable[[Record, np.ndarray, tuple[int, ...]], np.ndarray]] = {
    "previous": _at(-1),
    "same": _at(0),
    "next": _at(1),
    "aligner": lambda record, links, shape: links,
    "input_aligner": lambda record, links, shape: np.concatenate([np.zeros((1, shape[1]), bool), links[:-1]]),
    "eos": _eos,
    "bos": lambda record, links, shape: np.broadcast_to(np.arange(shape[1]) == 0, shape),
}
"""For each type, a function of the sentence, its links and the shape `(T, S)` that returns the marked keys."""


def describe_types(table: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Returns the types of heads for pages, from the rows of `HeadTypesMeter.table` that are named.

    Returns:
        For each head, by `SITE/LAYER/HEAD`: its `type`, a key of `HEAD_TYPES`, and the `share` of its weight.
    """
    return {
        f"{row['site']}/{row['layer']}/{row['head']}": {"type": row["type"], "share": round(row["share"], 4)}
        for row in table[table["named"].astype(bool)].to_dict("records")
    }


def read_head_types(path: Path) -> pd.DataFrame:
    """Reads a table that `HeadTypesMeter.table` made. Returns an empty table if there is no file.

    Raises:
        InputError: the file is damaged, or has an unknown type or a share outside 0 to 1.
    """
    if not path.is_file():
        return pd.DataFrame(columns=list(HEAD_TYPE_COLUMNS))
    types = {"site": str, "layer": int, "head": int, "type": str, "share": float, "named": bool}
    try:
        table = pd.read_csv(path, keep_default_na=False, na_values={"share": "", "chance": "", "p": ""}).astype(types)
    except DAMAGE as error:
        raise InputError(f"{path}: not a table of types of heads ({error}); delete it, or evaluate again") from None
    is_valid = table["type"].isin(list(HEAD_TYPES)) & table["share"].between(0, 1)
    for row in table[table["named"] & ~is_valid].itertuples():
        raise InputError(f"{path}: no such type or share: {row.type}, {row.share}; delete it, or evaluate again")
    return table
