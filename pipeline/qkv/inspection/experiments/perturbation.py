"""Heads changed one at a time: their weights replaced, or their output by an ordinary one, and what predictions lose.

A head never gives zeros, so a model may fail on them though the head says little: what it misses may be a constant. The
mean of the head's outputs keeps the constant and drops what depends on the sentence; the output at a token of another
sentence also keeps the spread (Chan et al. 2022, causal scrubbing). Outputs have no source axis, so sentences of any
length can stand for each other.

Letters: B batch, L layers, H heads, T target positions, V value size of a head, N target tokens.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
import pandas as pd
import tensorflow as tf

from ...attention.cross_attention import CrossAttention
from ...config.names.inspection import OUTPUT_ABLATIONS
from ...decoding.forced import forced_decode
from ...errors import InputError
from ...layers.tap import Visit, tapped
from ...runtime.parallel import in_order
from ...text.batch import Batch, forced_batch
from ...text.batch_plan import FORCED_BATCH_TOKENS, batches_by_length
from ...text.tokens.special_tokens import PAD
from .head_effects import EFFECTS, HeadEffects, sum_by_sentence
from .intervention import CHANGES, Intervention, cross_attention_layers, intervene, one_head

NOWHERE = (-1, 0, 0)  # no layer


def check_perturbable(model: keras.Model) -> None:
    """Refuses models whose heads cannot be changed one by one.

    Raises:
        InputError: the model has no cross-attention of that kind.
    """
    if not cross_attention_layers(model):
        raise InputError(
            "--perturb needs the cross-attention of a Transformer, which this model does not have; leave it out"
        )


def perturbation_table(
    model: keras.Model,
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
    *,
    batch_tokens: int = FORCED_BATCH_TOKENS,
    workers: int = 1,
) -> pd.DataFrame:
    """Returns the table of `perturbation_effects`, whose arguments it takes: one row per layer, head and change, the
    largest loss first; see `HeadEffects.table`."""
    return perturbation_effects(model, pairs, batch_tokens=batch_tokens, workers=workers).table()


def perturbation_effects(
    model: keras.Model,
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
    *,
    batch_tokens: int = FORCED_BATCH_TOKENS,
    workers: int = 1,
) -> HeadEffects:
    """Replaces the weights of one head at a time and measures what that costs on given targets.

    Args:
        model: a Transformer.
        pairs: source ids without EOS, and target ids ending in EOS unless truncated.
        batch_tokens: the maximum number of positions of either side of a batch, padding included.
        workers: number of batches read in parallel.

    Raises:
        InputError: see `check_perturbable`.
    """
    check_perturbable(model)
    layers = cross_attention_layers(model)
    graph = _make_graph(model, layers)
    names = list(CHANGES)
    places = [
        (layer, head, change)
        for layer, attention in enumerate(layers)
        for head in range(attention.num_heads)
        for change in range(len(CHANGES))
    ]

    def measure_batch(rows):
        batch = forced_batch([pairs[row] for row in rows])
        return measure_changes(graph(*batch.ids, [NOWHERE, *places]), batch.target_output != PAD)

    source, target = (np.array([len(pair[side]) for pair in pairs], int) for side in (0, 1))
    batches = batches_by_length(source + 1, target, batch_tokens)  # EOS
    sums = np.zeros((len(pairs), len(places), len(EFFECTS)))
    for rows, found in zip(batches, in_order(measure_batch, batches, workers), strict=True):
        sums[rows] = found
    return HeadEffects([(layer, head, names[change]) for layer, head, change in places], sums, target)


def measure_changes(outputs: Sequence[Any], real: np.ndarray) -> np.ndarray:
    """Measures what changes in the outputs of `_make_graph`, of which the first place is `NOWHERE`: `(B, P, 2)`.

    Args:
        outputs: log-probabilities and likeliest tokens, both `(1 + P, B, T)`.
        real: bool `(B, T)`, where there are target tokens.
    """
    likelihoods, likeliest = (output.numpy() for output in outputs)
    changes = np.stack([likelihoods[0] - likelihoods[1:], likeliest[0] != likeliest[1:]], axis=-1, dtype=np.float64)
    return sum_by_sentence(changes, real)


def _make_graph(model: keras.Model, layers: Sequence[CrossAttention]) -> Callable[..., Any]:
    """Makes a graph of a batch and of places (layer, head, change). For each place it returns the log-probability of
    every target token and the likeliest token there. The source is encoded once for all places."""

    def read(source, target_input, target_output, places):
        memory = model.encode(source, training=False)

        def read_target(place):
            changes = one_head(len(layers), layers[0].num_heads, *tf.unstack(place))
            with intervene(layers, Intervention(changes)):
                forced = forced_decode(model, memory, target_input, target_output)
            return forced.log_probabilities, forced.likeliest

        outputs = tf.TensorSpec([None, None], tf.float32), tf.TensorSpec([None, None], tf.int32)
        return tf.map_fn(read_target, places, fn_output_signature=outputs, parallel_iterations=1)

    ids, numbers = tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None, 3], tf.int32)
    return tf.function(read, input_signature=(ids,) * 3 + (numbers,), autograph=False)


def ablation_effects(
    model: keras.Model,
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
    *,
    batch_tokens: int = FORCED_BATCH_TOKENS,
    workers: int = 1,
    seed: int = 0,
) -> HeadEffects:
    """Replaces the output of one head of the cross-attention at a time, and measures what that costs on given targets.

    Args:
        model: a Transformer.
        pairs: source ids without EOS, and target ids ending in EOS unless truncated.
        batch_tokens: the maximum number of positions of either side of a batch, padding included.
        workers: number of batches read in parallel.
        seed: of the tokens of other sentences, one for each target token, the same for all heads.

    Returns:
        The effects of each layer, head and one of `names.inspection.OUTPUT_ABLATIONS`. A single sentence has none to be
        resampled from, so it has no such effect.

    Raises:
        InputError: see `check_perturbable`.
    """
    check_perturbable(model)
    layers = cross_attention_layers(model)
    record, measure = _make_graphs(model, layers)
    source, lengths = (np.array([len(pair[side]) for pair in pairs], int) for side in (0, 1))
    plan = batches_by_length(source + 1, lengths, batch_tokens)  # EOS
    batches = [(rows, forced_batch([pairs[row] for row in rows])) for rows in plan]
    found = in_order(lambda batch: record(*batch[1].ids).numpy(), batches, workers)
    replacements = _choose_replacements(_in_order_of_sentences(batches, found, lengths), lengths, seed)
    firsts = np.cumsum(lengths) - lengths
    kinds = range(len(replacements))
    places = [(i, head, kind) for i, layer in enumerate(layers) for head in range(layer.num_heads) for kind in kinds]

    def measure_batch(batch: tuple[np.ndarray, Batch]) -> np.ndarray:
        rows, ids = batch
        real = ids.target_output != PAD
        tokens = np.concatenate([firsts[row] + np.arange(lengths[row]) for row in rows])
        given = np.zeros((len(replacements), *real.shape, *replacements.shape[2:]), np.float32)
        given[:, real] = replacements[:, tokens]
        return measure_changes(measure(*ids.ids, given, [NOWHERE, *places]), real)

    sums = np.zeros((len(pairs), len(places), len(EFFECTS)))
    for rows, effects in zip(plan, in_order(measure_batch, batches, workers), strict=True):
        sums[rows] = effects
    names = list(OUTPUT_ABLATIONS)
    return HeadEffects([(layer, head, names[kind]) for layer, head, kind in places], sums, lengths)


def _in_order_of_sentences(
    batches: Sequence[tuple[np.ndarray, Batch]], found: Iterator[np.ndarray], lengths: np.ndarray
) -> np.ndarray:
    """Returns the outputs of all target tokens, `(N, L, H, V)`."""
    of_sentence: dict[int, np.ndarray] = {}
    for (rows, _), outputs in zip(batches, found, strict=True):
        of_sentence |= {row: output[: lengths[row]] for row, output in zip(rows.tolist(), outputs, strict=True)}
    return np.concatenate([of_sentence[row] for row in range(len(lengths))])


def _choose_replacements(outputs: np.ndarray, lengths: np.ndarray, seed: int) -> np.ndarray:
    """Returns what replaces the outputs of each target token, one for each of `OUTPUT_ABLATIONS` that there is:
    `(1 or 2, N, L, H, V)`."""
    mean = np.broadcast_to(outputs.mean(axis=0), outputs.shape)
    own = np.repeat(lengths, lengths)
    others = len(outputs) - own
    if not others.all():
        return mean[None]
    # Of the tokens of all other sentences, as if those of the own one were not there.
    drawn = np.random.default_rng(seed).integers(others)
    first = np.repeat(np.cumsum(lengths) - lengths, lengths)
    return np.stack([mean, outputs[np.where(drawn < first, drawn, drawn + own)]])


def _make_graphs(model: keras.Model, layers: Sequence[CrossAttention]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Makes two graphs of a batch. The first returns the outputs of all heads, `(B, T, L, H, V)`. The second also takes
    such outputs, `(kinds, B, T, L, H, V)`, and places (layer, head, kind) where they replace those of the model; it
    returns what that of `perturbation_table` returns."""

    def record(source, target_input, target_output):
        outputs: list[Any] = []

        def keep(number, context):
            outputs.append(context)
            return context

        with tapped(_change_outputs(layers, keep)):
            model.decode(target_input, model.encode(source, training=False), training=False)
        return tf.transpose(tf.stack(outputs, axis=1), (0, 3, 1, 2, 4))

    def measure(source, target_input, target_output, given, places):
        memory = model.encode(source, training=False)

        def read_target(place):
            layer, head, kind = tf.unstack(place)
            heads = tf.range(layers[0].num_heads)[:, None, None]

            def change(number, context):
                other = tf.transpose(given[kind][:, :, number], (0, 2, 1, 3))
                return tf.where((heads == head) & (layer == number), tf.cast(other, context.dtype), context)

            with tapped(_change_outputs(layers, change)):
                forced = forced_decode(model, memory, target_input, target_output)
            return forced.log_probabilities, forced.likeliest

        outputs = tf.TensorSpec([None, None], tf.float32), tf.TensorSpec([None, None], tf.int32)
        return tf.map_fn(read_target, places, fn_output_signature=outputs, parallel_iterations=1)

    ids = (tf.TensorSpec([None, None], tf.int32),) * 3
    further = tf.TensorSpec([None] * 6, tf.float32), tf.TensorSpec([None, 3], tf.int32)
    graphs = [
        tf.function(function, input_signature=signature, autograph=False)
        for function, signature in ((record, ids), (measure, ids + further))
    ]
    return graphs[0], graphs[1]


def _change_outputs(layers: Sequence[CrossAttention], change: Callable[[int, Any], Any]) -> Visit:
    """Makes the visit that passes the outputs of the heads of each layer, `(B, H, T, V)`, through a function of the
    layer's number and the outputs."""

    def visit(layer, part, value, **seen):
        return change(layers.index(layer), value) if part == "heads" and layer in layers else value

    return visit
