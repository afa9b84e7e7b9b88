"""Word alignments read off one matrix of attention."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ..inspection.record import SIDES, Record
from ..text.pharaoh import Link
from .links import as_links, link_words

ALIGNED_SITES = ("cross", "norms", "gradients")
"""What alignments can be read off: attention, attention times the length of what it weighs, gradient times input."""


MEAN_HEAD = "mean"
"""How the tables name the average of a layer's heads."""


@dataclass(frozen=True)
class AlignmentReadout:
    """Where alignments are read: a layer, a head (or `mean`), the label side, which words are linked (`LINKS`), and off
    which attention (`ALIGNED_SITES`)."""

    layer: int
    head: int | str
    side: str
    linked: str = "target"
    site: str = "cross"

    def weights(self, record: Record) -> np.ndarray:
        """The attention `(T, S)` of that site, layer and head."""
        heads = record.attention[self.site][self.layer]
        return heads.mean(axis=0) if self.head == MEAN_HEAD else heads[int(self.head)]

    def links(self, record: Record) -> set[Link]:
        """The word links of a record."""
        n_source, n_target = word_counts(record)
        rows = row_words(record.target_words, self.side)
        matrix = word_matrix(self.weights(record), record.source_words, rows, n_source, n_target)
        return as_links(link_words(matrix, self.linked))


def all_readouts(record: Record) -> list[AlignmentReadout]:
    """Everywhere that alignments can be read: sides, in each the layers, in each the heads, then their mean."""
    layers, heads = record.attention["cross"].shape[:2]
    return [
        AlignmentReadout(layer, head, side)
        for side in SIDES
        for layer in range(layers)
        for head in [*range(heads), MEAN_HEAD]
    ]


def word_counts(record: Record) -> tuple[int, int]:
    """How many words the source and the target have, as far as tokens go."""
    source, target = (
        1 + max((word for word in words if word is not None), default=-1)
        for words in (record.source_words, record.target_words)
    )
    return source, target


def heads_and_mean(record: Record, site: str = "cross") -> np.ndarray:
    """The attention of a site with the mean of each layer's heads as a further head: `(layer, heads + 1, T, S)`."""
    weights = record.attention[site]
    return np.concatenate([weights, weights.mean(axis=1, keepdims=True)], axis=1)


def row_words(target_words: Sequence[int | None], side: str) -> list[int | None]:
    """The target word that each of the T rows speaks for.

    Args:
        target_words: word of each *output* token, None for EOS (`Record.target_words`).
        side: `output`: row t speaks for output token t. `input`: row t speaks for input token t, which is output token
            t - 1; the first row's is BOS. The last token's row is then the one that predicts EOS; a truncated sentence
            lacks it, so its last token goes without.

    Raises:
        ValueError: unknown side.
    """
    if side == "output":
        return list(target_words)
    if side == "input":
        return [None, *target_words][: len(target_words)]
    raise ValueError(f"side must be one of {', '.join(SIDES)}. Received: {side!r}")


def word_matrix(
    weights: np.ndarray,
    source_words: Sequence[int | None],
    row_words: Sequence[int | None],
    n_source_words: int,
    n_target_words: int,
) -> np.ndarray:
    """Attention between words: the sum over a source word's pieces, the mean over a target word's pieces.

    Columns without a word (EOS) are left out and the rest is not renormalised, so a row may sum to less than 1.

    Args:
        weights: `(..., T, S)`.
        source_words: word of each of the S columns, or None.
        row_words: word of each of the T rows, or None; see `row_words`.
        n_source_words: words of the source sentence.
        n_target_words: words of the target sentence.

    Returns:
        `(..., target words, source words)`; the row of a target word that has no token is zero.

    Raises:
        ValueError: the lists do not fit the axes, or a word lies outside its sentence.
    """
    if weights.shape[-2:] != (len(row_words), len(source_words)):
        raise ValueError(
            f"weights must end in ({len(row_words)} rows, {len(source_words)} columns). Received: {weights.shape}"
        )
    rows = _membership(row_words, n_target_words, "target")
    columns = _membership(source_words, n_source_words, "source")
    pieces = np.maximum(rows.sum(axis=0), 1)
    return (rows / pieces).T @ (weights @ columns)


def eos_argmax_share(
    weights: np.ndarray, source_words: Sequence[int | None], row_words: Sequence[int | None]
) -> np.ndarray:
    """How often `word_matrix` hides the largest weight: of the words' rows, how many have their raw argmax on EOS.

    EOS stands for every column without a word. Rows without a word are not counted.

    Returns:
        `(...)`, 0 to 1; not-a-number if no row has a word.
    """
    hidden, rows = _eos_argmax_counts(weights, source_words, row_words)
    return hidden / rows if rows else np.full(hidden.shape, np.nan)


def links_of_heads(record: Record, side: str) -> np.ndarray:
    """What every layer and head of the cross-attention, and the mean of each layer's heads, links.

    Returns:
        bool `(layer, heads + 1, target words, source words)`, the mean last: the largest weight of each target word.
    """
    n_source, n_target = word_counts(record)
    rows = row_words(record.target_words, side)
    matrix = word_matrix(heads_and_mean(record), record.source_words, rows, n_source, n_target)
    return link_words(matrix, "target")


def _membership(words: Sequence[int | None], count: int, name: str) -> np.ndarray:
    """`(tokens, words)`: 1 where the token belongs to the word."""
    member = np.zeros((len(words), count), np.float32)
    for token, word in enumerate(words):
        if word is None:
            continue
        if not 0 <= word < count:
            raise ValueError(f"{name} token {token} belongs to word {word} of {count}")
        member[token, word] = 1
    return member


def _eos_argmax_counts(
    weights: np.ndarray, source_words: Sequence[int | None], row_words: Sequence[int | None]
) -> tuple[np.ndarray, int]:
    """`(...)`: rows of words whose argmax is a column without a word; and the number of rows of words."""
    with_word = np.array([word is not None for word in row_words], bool)
    wordless = np.array([word is None for word in source_words], bool)
    hidden = wordless[weights[..., with_word, :].argmax(axis=-1)].sum(axis=-1)
    return hidden, int(with_word.sum())


@dataclass(frozen=True)
class ChosenReadout(AlignmentReadout):
    """Where alignments are read, and what it was chosen on."""

    chosen_on: str = field(kw_only=True)
