"""Heads changed one at a time: their weights replaced, or their output by an ordinary one, and what predictions lose.

A head never gives zeros, so a model may fail on them though the head says little: what it misses may be a constant. The
mean of the head's outputs keeps the constant and drops what depends on the sentence; the output at a token of another
sentence also keeps the spread (Chan et al. 2022, causal scrubbing). Outputs have no source axis, so sentences of any
length can stand for each other.

Letters: B batch, L layers, H heads, T target positions, V value size of a head, N target tokens, P changes.
"""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ...attention.cross_attention import CrossAttention
from ...config.names.inspection import OUTPUT_ABLATIONS
from ...decoding.forced import forced_decode
from ...errors import InputError
from ...layers.tap import tapped
from ...runtime.graphs import ModelGraph
from ...runtime.parallel import in_order
from ...text.batch import Batch, forced_batch
from ...text.batch_plan import FORCED_BATCH_TOKENS, batches_by_length
from ...text.tokens.special_tokens import PAD
from .head_effects import EFFECTS, HeadEffects
from .intervention import CHANGES, Intervention, cross_attention_layers, intervene, one_head

NOWHERE = (-1, 0, 0)  # no layer


def check_perturbable(model: keras.Model) -> None:
    """Refuses models whose heads cannot be changed one by one.

    Raises:
        InputError: the model is no Transformer.
    """
    if not cross_attention_layers(model):
        raise InputError("--perturb needs the cross-attention of a Transformer, which this model lacks; leave it out")


def perturbation_effects(
    model: keras.Model,
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
    *,
    batch_tokens: int = FORCED_BATCH_TOKENS,
    workers: int = 1,
) -> HeadEffects:
    """Changes one head of the cross-attention at a time and measures what that costs on given targets.

    Args:
        model: a Transformer.
        pairs: source ids without EOS, and target ids ending in EOS unless truncated.
        batch_tokens: the maximum number of positions of either side of a batch, padding included.
        workers: number of batches read in parallel.

    Returns:
        The effects of each layer, head and one of `CHANGES` of its weights; then of each layer, head and one of
        `names.inspection.OUTPUT_ABLATIONS`, which replaces its output. A single sentence has none to be resampled from,
        so it has no such effect.
    """
    layers = cross_attention_layers(model)
    read_outputs, read_changed = _make_graphs(model, layers)
    lengths = np.array([len(target) for _, target in pairs], int)
    plan = batches_by_length(np.array([len(source) + 1 for source, _ in pairs], int), lengths, batch_tokens)  # EOS
    batches = [(rows, forced_batch([pairs[row] for row in rows])) for rows in plan]

    outputs: list[Any] = [None] * len(pairs)
    found = in_order(lambda batch: read_outputs(*batch[1].ids).numpy(), batches, workers)
    for rows, of_batch in zip(plan, found, strict=True):
        for row, output in zip(rows, of_batch, strict=True):
            outputs[row] = output[: lengths[row]]
    replacements = _choose_replacements(np.concatenate(outputs), lengths)

    names = [*CHANGES, *list(OUTPUT_ABLATIONS)[: len(replacements)]]
    heads = [(layer, head) for layer, attention in enumerate(layers) for head in range(attention.num_heads)]
    places = [(*head, change) for head in heads for change in range(len(CHANGES))]
    places += [(*head, change) for head in heads for change in range(len(CHANGES), len(names))]
    firsts = np.cumsum(lengths) - lengths

    def measure(batch: tuple[np.ndarray, Batch]) -> np.ndarray:
        rows, ids = batch
        real = ids.target_output != PAD
        given = np.zeros((len(replacements), *real.shape, *replacements.shape[2:]), np.float32)
        given[:, real] = replacements[:, np.concatenate([firsts[row] + np.arange(lengths[row]) for row in rows])]
        likelihoods, likeliest = (x.numpy() for x in read_changed(*ids.ids, given, [NOWHERE, *places]))
        return sum_changes(likelihoods, likeliest, real)

    sums = np.zeros((len(pairs), len(places), len(EFFECTS)))
    for rows, of_batch in zip(plan, in_order(measure, batches, workers), strict=True):
        sums[rows] = of_batch
    return HeadEffects([(layer, head, names[change]) for layer, head, change in places], sums, lengths)


def sum_changes(likelihoods: np.ndarray, likeliest: np.ndarray, real: np.ndarray) -> np.ndarray:
    """Sums over each target the rise of the loss and the number of positions with another likeliest token: `(B, P, 2)`.

    Args:
        likelihoods: `(1 + P, B, T)`, the log-probabilities of the target tokens, first without a change.
        likeliest: `(1 + P, B, T)`, the likeliest tokens.
        real: bool `(B, T)`, where there are target tokens.
    """
    changes = np.stack([likelihoods[0] - likelihoods[1:], likeliest[0] != likeliest[1:]], axis=-1, dtype=np.float64)
    return np.moveaxis(np.where(real[..., None], changes, 0).sum(axis=2), 1, 0)


def _choose_replacements(outputs: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Returns what replaces the outputs of each target token, `(N, L, H, V)`, one for each of `OUTPUT_ABLATIONS` that
    there is: `(1 or 2, N, L, H, V)`."""
    mean = np.broadcast_to(outputs.mean(axis=0), outputs.shape)
    own = np.repeat(lengths, lengths)
    others = len(outputs) - own
    if not others.all():
        return mean[None]
    # Of the tokens of all other sentences, as if the sentence's own tokens were not there.
    drawn = np.random.default_rng(0).integers(others)
    first = np.repeat(np.cumsum(lengths) - lengths, lengths)
    return np.stack([mean, outputs[np.where(drawn < first, drawn, drawn + own)]])


def _make_graphs(model: keras.Model, layers: Sequence[CrossAttention]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Makes two graphs of a batch.

    The first returns the outputs of all heads, `(B, T, L, H, V)`. The second also takes what may replace them,
    `(kinds, B, T, L, H, V)`, and places (layer, head, change); for each place it returns the log-probability of every
    target token and the likeliest token there. The source is encoded once for all places.
    """

    def read_outputs(source, target_input, target_output):
        outputs: list[Any] = []

        def keep(layer, part, value, **seen):
            if part == "heads" and layer in layers:
                outputs.append(value)
            return value

        with tapped(keep):
            model.decode(target_input, model.encode(source, training=False), training=False)
        return tf.transpose(tf.stack(outputs, axis=1), (0, 3, 1, 2, 4))

    def read_changed(source, target_input, target_output, given, places):
        memory = model.encode(source, training=False)
        heads = tf.range(layers[0].num_heads)[:, None, None]

        def read_target(place):
            layer, head, change = tf.unstack(place)
            kind = change - len(CHANGES)

            def replace_output(attention, part, value, **seen):
                if part != "heads" or attention not in layers:
                    return value
                number = layers.index(attention)
                other = tf.transpose(given[tf.maximum(kind, 0)][:, :, number], (0, 2, 1, 3))
                here = (kind >= 0) & (layer == number) & (heads == head)
                return tf.where(here, tf.cast(other, value.dtype), value)

            # A change beyond `CHANGES` leaves all weights as they are.
            changes = one_head(len(layers), layers[0].num_heads, layer, head, change)
            with intervene(layers, Intervention(changes)), tapped(replace_output):
                forced = forced_decode(model, memory, target_input, target_output)
            return forced.log_probabilities, forced.likeliest

        outputs = tf.TensorSpec([None, None], tf.float32), tf.TensorSpec([None, None], tf.int32)
        return tf.map_fn(read_target, places, fn_output_signature=outputs, parallel_iterations=1)

    ids = (tf.TensorSpec([None, None], tf.int32),) * 3
    further = tf.TensorSpec([None] * 6, tf.float32), tf.TensorSpec([None, 3], tf.int32)
    return ModelGraph(model, read_outputs, ids), ModelGraph(model, read_changed, ids + further)
