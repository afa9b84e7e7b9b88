"""The inside of a run by name, for sentences as text."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import keras
import numpy as np

from ..decoding.translator import Translator
from ..errors import InputError
from ..inspection.inside import Pair, patch_inside, read_inside
from ..inspection.score_parts import ScoreParts
from ..inspection.split_score import split_score
from ..text.tokenizer import BOS, EOS, Tokenizer

Sentence = str | tuple[str, str]
"""A source, whose translation is searched and then read; or a source and the target that is read."""


class Inside(NamedTuple):
    """What a model computes while it reads a sentence pair.

    - source_tokens: with EOS at the end, S of them.
    - target_input_tokens: with BOS at the beginning, T of them; row t of every array is computed from token t.
    - target_output_tokens: the tokens that are predicted, T of them.
    - log_probabilities: of these, in nats, `(T,)`.
    - logits: `(T, V)`.
    - arrays: the values by name, see pipeline/qkv/inspection/INSIDE.md.
    """

    source_tokens: list[str]
    target_input_tokens: list[str]
    target_output_tokens: list[str]
    log_probabilities: np.ndarray
    logits: np.ndarray
    arrays: Mapping[str, np.ndarray]


def cache(
    model: keras.Model, translator: Translator, sentences: Sequence[Sentence], names: Sequence[str]
) -> list[Inside]:
    """See `TrainedRun.cache`."""
    found = []
    if isinstance(sentences, str):
        raise InputError(f"sentences: expected a list, found the text {sentences!r:.60}: put it in [ ]")
    for sentence in sentences:
        pair, predicted = _ids(translator, sentence)
        arrays, logits = read_inside(model, pair, names)
        found.append(_describe(translator.tokenizer, pair, predicted, logits, arrays))
    return found


def patch(
    model: keras.Model, translator: Translator, clean: Sentence, corrupted: Sentence, names: Sequence[str]
) -> Inside:
    """See `TrainedRun.patch`."""
    given, _ = _ids(translator, clean)
    pair, predicted = _ids(translator, corrupted)
    return _describe(translator.tokenizer, pair, predicted, patch_inside(model, given, pair, names), {})


def explain_score(
    model: keras.Model, translator: Translator, sentence: Sentence, layer: str, head: int, row: int
) -> ScoreParts:
    """See `TrainedRun.explain_score`; the model is in float64."""
    pair, predicted = _ids(translator, sentence)
    parts = split_score(model, pair, layer, head, row)
    name = translator.tokenizer.pieces
    return replace(
        parts,
        query=name([int(parts.query)])[0],
        predicted=name([predicted[row]])[0] if layer.startswith("decoder") else "",
        keys=name([int(key) for key in parts.keys]),
    )


def _ids(translator: Translator, sentence: Sentence) -> tuple[Pair, list[int]]:
    """Returns what the model reads, and the target ids that it predicts."""
    if isinstance(sentence, str):
        translation = translator.translate([sentence])[0]
        source, target = list(translation.source_ids), list(translation.ids)
    else:
        longest = translator.max_positions
        source = translator.encode([sentence[0]])[0][: longest - 1]
        target = [*translator.encode([sentence[1]], "target")[0], EOS][:longest]
    return ([*source, EOS], [BOS, *target[:-1]]), target


def _describe(
    tokenizer: Tokenizer, pair: Pair, predicted: list[int], logits: np.ndarray, arrays: Mapping[str, np.ndarray]
) -> Inside:
    largest = logits.max(axis=-1, keepdims=True)
    log_probabilities = logits - largest - np.log(np.exp(logits - largest).sum(axis=-1, keepdims=True))
    return Inside(
        tokenizer.pieces(pair[0]),
        tokenizer.pieces(pair[1]),
        tokenizer.pieces(predicted),
        log_probabilities[np.arange(len(predicted)), predicted],
        logits,
        arrays,
    )
