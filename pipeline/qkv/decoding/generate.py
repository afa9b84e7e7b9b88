"""The searches of `model.generate`: from source ids to target ids, without a tokenizer and without a run.

Importing this module makes `TranslationModel.generate` work, which cannot import the searches itself: they are made
for models, so they come later. Importing an architecture from `qkv` imports this module.

Letters: B sentences, S source positions, N hypotheses of a sentence, T target positions.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import keras
import numpy as np

from ..model.interface import TranslationModel, register_generate
from ..text.batch import pad
from ..text.tokens.special_tokens import EOS, PAD
from .beam import BeamSearch, BeamSettings
from .greedy import GreedySearch
from .sampling import Sampling
from .search import Search, padded_width

BATCH_SENTENCES = 64
"""The number of sentences that are searched at once, as in `decoding.translator` on a processor."""
LENGTH_RATIO = 2
LENGTH_EXTRA = 10
"""A target has at most `LENGTH_RATIO` times the tokens of its source, without EOS, and `LENGTH_EXTRA` more. These are
the defaults of `decoding.max_target_ratio` and `decoding.max_target_extra`."""
NAMED_SEARCHES: dict[str, Any] = {"greedy": GreedySearch(), "beam": BeamSearch(BeamSettings()), "sampling": Sampling()}
"""The searches that `model.generate` knows by name."""


@register_generate
def generate(
    model: TranslationModel,
    source_ids: Any,
    search: str | Search = "greedy",
    max_length: int | None = None,
    seed: int | None = None,
    n_best: int | None = None,
    return_scores: bool = False,
) -> Any:
    """Generates target ids. The arguments, result and errors are those of `TranslationModel.generate`.

    Sentences are searched in batches of similar length, the longest first. `decoding.translator` does the same, so
    sampling draws the same tokens.
    """
    rows = _read_rows(source_ids, model.output_embedding.vocabulary_size)
    chosen = _choose_search(search, seed, n_best)
    count = n_best or 1
    limits = [_max_length(model, len(row) - 1, max_length) for row in rows]
    targets = [[[EOS], *[[]] * (count - 1)] for _ in rows]  # of a source without tokens
    scores = np.full((len(rows), count), -np.inf, np.float32)
    scores[:, :1] = 0.0
    order = sorted((i for i, row in enumerate(rows) if len(row) > 1), key=lambda i: -len(rows[i]))
    drawn = chosen.drawn if isinstance(chosen, Sampling) else 0
    for first in range(0, len(order), BATCH_SENTENCES):
        batch = order[first : first + BATCH_SENTENCES]
        width = padded_width(max(len(rows[i]) for i in batch), model.max_positions)
        source = pad([rows[i] for i in batch], width)
        max_lengths = np.array([limits[i] for i in batch], np.int32)
        if isinstance(chosen, Sampling):
            chosen = replace(chosen, drawn=drawn)
        ids, batch_scores = _search(model, chosen, source, max_lengths)
        if ids.shape[1] < count:
            raise ValueError(f"n_best: expected at most the {ids.shape[1]} hypotheses of the search, found {count}")
        _check_scores(batch_scores)
        drawn += int((ids != PAD).sum(axis=-1).max())
        scores[batch] = batch_scores[:, :count]
        for i, hypotheses in zip(batch, ids, strict=True):
            targets[i] = [[int(token) for token in tokens if token != PAD] for tokens in hypotheses[:count]]
    longest = max((len(tokens) for hypotheses in targets for tokens in hypotheses), default=0)
    padded = pad([tokens for hypotheses in targets for tokens in hypotheses], longest)
    if n_best is None:
        return (padded, scores[:, 0]) if return_scores else padded
    padded = padded.reshape(len(rows), count, longest)
    return (padded, scores) if return_scores else padded


def _read_rows(source_ids: Any, vocabulary_size: int) -> list[list[int]]:
    """Returns the ids of each source up to EOS, without padding. A row of padding alone becomes `[EOS]`.

    Raises:
        TypeError: the ids are neither an array `(B, S)` nor a list of lists, or are not whole numbers.
        ValueError: a row does not end in EOS, or has an id outside the vocabulary.
    """
    expected = "source_ids: expected an array (B, S) of whole numbers, or a list of lists"
    if hasattr(source_ids, "shape"):
        array = keras.ops.convert_to_numpy(source_ids)
        if array.ndim != 2:
            raise TypeError(f"{expected}; found the shape {array.shape}; a single sentence is source_ids[None]")
        source_ids = array
    elif not isinstance(source_ids, Sequence) or isinstance(source_ids, str | bytes):
        raise TypeError(f"{expected}, found {source_ids!r:.60}")
    rows = []
    for i, row in enumerate(source_ids):
        numbers = np.asarray(row)
        if numbers.ndim != 1 or numbers.dtype.kind not in "iuf" or (numbers != np.trunc(numbers)).any():
            raise TypeError(f"{expected}; found {row!r:.60} in row {i}")
        ids = [int(number) for number in numbers]
        while ids and ids[-1] == PAD:
            ids.pop()
        if outside := [token for token in ids if not 0 <= token < vocabulary_size]:
            raise ValueError(f"source_ids: row {i}: expected ids from 0 to {vocabulary_size - 1}, found {outside[0]}")
        if ids and ids[-1] != EOS:
            raise ValueError(
                f"source_ids: row {i}: expected EOS ({EOS}) as the last id, as in training, found {ids[-1]}; add it"
            )
        rows.append(ids or [EOS])
    return rows


def _choose_search(search: Any, seed: int | None, n_best: int | None) -> Any:
    """Returns the search that a name stands for, or a search with another seed or number of hypotheses.

    Raises:
        ValueError: there is no search of this name, or the search has no seed or no n-best list.
        TypeError: `search` is neither a name nor a search.
    """
    if n_best is not None and n_best < 1:
        raise ValueError(f"n_best: expected at least 1, found {n_best}")
    names = ", ".join(NAMED_SEARCHES)
    if isinstance(search, str):
        if search not in NAMED_SEARCHES:
            raise ValueError(f"search: expected one of {names}, or a search, found {search!r:.60}")
        named = NAMED_SEARCHES[search]
        if isinstance(named, BeamSearch) and n_best is not None:  # a beam that is large enough
            named = replace(named, settings=replace(named.settings, size=max(named.settings.size, n_best)))
        search = named
    elif not callable(search) or isinstance(search, type):
        raise TypeError(f"search: expected one of {names}, or a search such as GreedySearch(), found {search!r:.60}")
    if seed is not None:
        if not isinstance(search, Sampling):
            raise ValueError("seed: only sampling draws at random; leave it out, or use search='sampling'")
        search = replace(search, seed=seed)
    if n_best is None:
        return search
    if isinstance(search, BeamSearch):
        if n_best > 2 * search.settings.size - 1:
            raise ValueError(f"n_best: expected less than twice the beam size {search.settings.size}, found {n_best}")
        return replace(search, settings=replace(search.settings, best=n_best))
    if isinstance(search, Sampling):
        return replace(search, count=n_best)
    if isinstance(search, GreedySearch) and n_best > 1:
        raise ValueError(f"n_best: greedy search has one hypothesis, found {n_best}; use beam or sampling")
    return search


def _max_length(model: TranslationModel, source_tokens: int, max_length: int | None) -> int:
    """Returns the maximum number of tokens of a target, EOS included.

    Args:
        model: the model.
        source_tokens: the number of tokens of the source, without EOS.
        max_length: the limit that the user has set; None for the default.

    Raises:
        ValueError: the limit is not a whole number of at least 1, or the source is too long for the model.
    """
    if max_length is not None and (not isinstance(max_length, int) or max_length < 1):
        raise ValueError(f"max_length: expected a whole number of at least 1, found {max_length!r:.60}")
    length = LENGTH_RATIO * source_tokens + LENGTH_EXTRA if max_length is None else max_length
    if model.max_positions is None:
        return length
    if source_tokens + 1 > model.max_positions:
        raise ValueError(
            f"source_ids: expected at most max_positions = {model.max_positions} ids in a row, EOS included, found "
            f"{source_tokens + 1}; cut the sentence"
        )
    return min(length, model.max_positions)


def _search(
    model: TranslationModel, search: Search, source: np.ndarray, max_lengths: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Searches for the targets of a batch: in a graph on TensorFlow, step by step on other backends.

    Args:
        model: the model.
        search: the search.
        source: the padded ids, int32 `(B, S)`.
        max_lengths: the maximum number of tokens of each target, int32 `(B,)`.

    Returns:
        `(ids, scores)`: int32 `(B, N, L)`, L at least the largest of `max_lengths`, and float32 `(B, N)`.
    """
    length = padded_width(int(max_lengths.max()), model.max_positions)
    if keras.backend.backend() == "tensorflow":
        from ..runtime.graphs import GraphCache
        from .translator import search_graph

        graphs = model.search_graphs(GraphCache)
        outputs = search_graph(model, search, (), graphs)(source, max_lengths, length, search.numbers, {})
    else:
        with _without_gradients():
            memory = model.encode(keras.ops.convert_to_tensor(source), training=False)._replace(self_attention=())
            outputs = search(model, memory, keras.ops.convert_to_tensor(max_lengths), length)
    ids, _, scores = map(keras.ops.convert_to_numpy, outputs)
    return ids, scores


def _without_gradients() -> AbstractContextManager[Any]:
    """Returns a context in which PyTorch stores nothing for gradients; without effect on other backends."""
    if keras.backend.backend() != "torch":
        return nullcontext()
    import torch

    return torch.no_grad()


def _check_scores(scores: np.ndarray) -> None:
    """Raises a `ValueError` if a score of a batch `(B, N)` is NaN, or if a sentence has no hypothesis."""
    if np.isnan(scores).any():
        raise ValueError("generate: the model gives scores that are not numbers: its weights have diverged")
    if not np.isfinite(scores).any(axis=1).all():
        raise ValueError("generate: no target meets all constraints of the search; lower min_length or the like")
