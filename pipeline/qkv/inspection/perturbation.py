"""How much the weights of each head matter: the change of the predictions when they are replaced."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import pandas as pd
import tensorflow as tf

from ..attention.cross_attention import CrossAttention
from ..decoding.forced import forced_decode
from ..errors import InputError
from ..runtime.parallel import in_order
from ..text.batch import forced_batch
from ..text.batch_plan import FORCED_BATCH_TOKENS, batches_by_length
from ..text.tokens.special_tokens import PAD
from .head_effects import EFFECTS, HeadEffects, sum_by_sentence
from .intervention import CHANGES, Intervention, intervene, one_head

NOWHERE = (-1, 0, 0)  # no layer


def cross_attention_layers(model: keras.Model) -> list[CrossAttention]:
    """Returns the cross-attention of each decoder layer of a Transformer; other architectures have none."""
    layers = [block.cross_attention for block in getattr(model, "decoder_blocks", ())]
    return [layer for layer in layers if isinstance(layer, CrossAttention)]


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
