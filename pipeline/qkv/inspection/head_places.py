"""Where the weight of a typical head lies in one sentence: the places after which types of heads are named."""

from collections.abc import Callable

import numpy as np

from ..config.names.inspection import HEAD_TYPES, SITES
from ..text.corpora.word_links import GoldAlignment
from .measures import is_punctuation
from .record import Record

TYPED_SITES = tuple(dict.fromkeys(site for row in HEAD_TYPES.values() for site in row.sites))
"""The attention whose heads are named."""

LINKED_TYPES = ("aligner", "input_aligner")
"""The types whose places are links between words."""


def gold_links(record: Record, gold: GoldAlignment) -> np.ndarray:
    """Returns the links between the tokens of words that have a sure link, bool `(T, S)`."""
    source, target = (
        np.array([-1 if word is None else word for word in words])
        for words in (record.source_words, record.target_words)
    )
    links = np.zeros((len(target), len(source)), bool)
    for i, j in gold.sure:
        links |= np.outer(target == j, source == i)
    return links


def equal_token_links(record: Record) -> np.ndarray:
    """Returns the links between equal tokens that stand once in the source and once in the target, such as names and
    numbers, bool `(T, S)`; those of punctuation and of special tokens are left out."""
    links = np.zeros((len(record.target_output_tokens), len(record.source_tokens)), bool)
    target, source = (_single_tokens(tokens) for tokens in (record.target_output_tokens, record.source_tokens))
    for token in target.keys() & source.keys():
        row, column = target[token], source[token]
        links[row, column] = record.target_words[row] is not None and record.source_words[column] is not None
    return links


def find_places(record: Record, site: str, links: np.ndarray) -> dict[str, np.ndarray]:
    """Returns the keys at the places of each type that the site has, bool `(T, S)`.

    Args:
        record: the sentence.
        site: `cross`, `encoder` or `decoder`.
        links: bool `(T, S)`, which source tokens each predicted token is linked to.
    """
    allowed = allowed_keys(record, site)
    types = [name for name, row in HEAD_TYPES.items() if site in row.sites]
    return {name: PLACES[name](record, links, allowed.shape) & allowed for name in types}


def allowed_keys(record: Record, site: str) -> np.ndarray:
    """Returns the keys that each row may look at, bool `(T, S)`."""
    shape = record.attention[site].shape[2:]
    return np.tri(*shape, dtype=bool) if SITES[site].axes == ("target", "target") else np.ones(shape, bool)


def _at(offset: int) -> Callable[[Record, np.ndarray, tuple[int, ...]], np.ndarray]:
    return lambda record, links, shape: np.eye(shape[0], shape[1], offset, dtype=bool)


def _input_links(record: Record, links: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return np.concatenate([np.zeros((1, shape[1]), bool), links[:-1]])


def _eos(record: Record, links: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    has_eos = record.source_words[-1] is None
    return np.broadcast_to(has_eos & (np.arange(shape[1]) == shape[1] - 1), shape)


PLACES: dict[str, Callable[[Record, np.ndarray, tuple[int, ...]], np.ndarray]] = {
    "previous": _at(-1),
    "same": _at(0),
    "next": _at(1),
    "aligner": lambda record, links, shape: links,
    "input_aligner": _input_links,
    "eos": _eos,
    "bos": lambda record, links, shape: np.broadcast_to(np.arange(shape[1]) == 0, shape),
}
"""The places of each type, from the sentence, its links and the shape `(T, S)`."""


def _single_tokens(tokens: list[str]) -> dict[str, int]:
    """Returns the positions of the tokens that stand once."""
    return {
        token: position
        for position, token in enumerate(tokens)
        if tokens.count(token) == 1 and not is_punctuation(token)
    }
