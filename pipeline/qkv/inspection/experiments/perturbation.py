"""Ablations of single heads: the weights or the output of a head are replaced, and the rise of the loss is measured.

Two replacements of an output are `config.choices.inspection.OUTPUT_ABLATIONS`: the mean of the head's outputs, and the
output at a token of another sentence. The mean removes all that depends on the sentence. The output at another token
also keeps the variance (Chan et al. 2022, causal scrubbing). Outputs have no source axis, so they can be exchanged
between sentences of any length. Zeros would be a poor replacement: no head outputs zeros, so a model may fail on zeros
only because it misses a constant.

Letters: B batch, L layers, H heads, S source positions, T target positions, V value size of a head, N target tokens of
all pairs, P changes (a head with its replacement).
"""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ...attention.cross_attention import CrossAttention
from ...config.choices.inspection import OUTPUT_ABLATIONS
from ...decoding.forced import forced_decode
from ...errors import InputError
from ...layers.tap import tapped
from ...runtime.graphs import ModelGraph
from ...runtime.parallel import in_threads
from ...text.batch import Batch, forced_batch
from ...text.batch_plan import FORCED_BATCH_TOKENS, batches_by_length
from ...text.tokens.special_tokens import PAD
from .head_effects import EFFECTS, HeadEffects
from .intervention import CHANGES, Intervention, cross_attention_layers, intervene, one_head

NO_CHANGE = (-1, 0, 0)
"""The (layer, head, change) of the pass without a change: no layer has the index -1."""


def check_perturbable(model: keras.Model) -> None:
    """Checks that the heads of a model can be ablated.

    Raises:
        InputError: the model is not a Transformer.
    """
    if not cross_attention_layers(model):
        raise InputError("--perturb needs the cross-attention of a Transformer, which this model lacks; leave it out")


def perturbation_effects(
    model: keras.Model,
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
    *,
    batch_tokens: int = FORCED_BATCH_TOKENS,
    threads: int = 1,
) -> HeadEffects:
    """Changes one head of the cross-attention at a time and measures the rise of the targets' loss.

    Args:
        model: a Transformer.
        pairs: for each sentence the source ids without EOS, and the target ids, which end in EOS unless truncated.
        batch_tokens: the maximum number of positions of either side of a batch, padding included.
        threads: the number of batches that are read at the same time.

    Returns:
        First the effects of replacing weights, for each layer, head and one of `CHANGES`. Then the effects of replacing
        outputs, for each layer, head and one of `config.choices.inspection.OUTPUT_ABLATIONS`. With a single pair,
        `resampled` is left out: there is no other sentence to take an output from.
    """
    layers = cross_attention_layers(model)
    read_outputs, read_changed = _make_graphs(model, layers)
    lengths = np.array([len(target) for _, target in pairs], int)
    plan = batches_by_length(np.array([len(source) + 1 for source, _ in pairs], int), lengths, batch_tokens)  # EOS
    batches = [(rows, forced_batch([pairs[row] for row in rows])) for rows in plan]

    outputs: list[Any] = [None] * len(pairs)
    batch_outputs = in_threads(lambda batch: read_outputs(*batch[1].ids).numpy(), batches, threads)
    for rows, outputs_of_rows in zip(plan, batch_outputs, strict=True):
        for row, output in zip(rows, outputs_of_rows, strict=True):
            outputs[row] = output[: lengths[row]]
    replacements = _choose_replacements(np.concatenate(outputs), lengths)

    names = [*CHANGES, *list(OUTPUT_ABLATIONS)[: len(replacements)]]
    heads = [(layer, head) for layer, attention in enumerate(layers) for head in range(attention.num_heads)]
    changes = [(*head, change) for head in heads for change in range(len(CHANGES))]
    changes += [(*head, change) for head in heads for change in range(len(CHANGES), len(names))]
    firsts = np.cumsum(lengths) - lengths

    def measure(batch: tuple[np.ndarray, Batch]) -> np.ndarray:
        rows, ids = batch
        is_token = ids.target_output != PAD
        tokens = np.concatenate([firsts[row] + np.arange(lengths[row]) for row in rows])
        batch_replacements = np.zeros((len(replacements), *is_token.shape, *replacements.shape[2:]), np.float32)
        batch_replacements[:, is_token] = replacements[:, tokens]
        results = read_changed(*ids.ids, batch_replacements, [NO_CHANGE, *changes])
        log_probabilities, likeliest = (x.numpy() for x in results)
        return sum_effects(log_probabilities, likeliest, is_token)

    sums = np.zeros((len(pairs), len(changes), len(EFFECTS)))
    for rows, sums_of_rows in zip(plan, in_threads(measure, batches, threads), strict=True):
        sums[rows] = sums_of_rows
    return HeadEffects([(layer, head, names[change]) for layer, head, change in changes], sums, lengths)


def sum_effects(log_probabilities: np.ndarray, likeliest: np.ndarray, is_token: np.ndarray) -> np.ndarray:
    """Sums the effects of changes over the tokens of each target.

    Args:
        log_probabilities: the natural logarithms of the probabilities of the target tokens, `(1 + P, B, T)`, first
            without a change, then with each change.
        likeliest: the ids of the likeliest tokens, `(1 + P, B, T)`, in the same order.
        is_token: bool `(B, T)`, False for padding.

    Returns:
        float64 `(B, P, 2)`: the rise of the loss in nats, and the number of positions with another likeliest token.
    """
    rises = log_probabilities[0] - log_probabilities[1:]
    effects = np.stack([rises, likeliest[0] != likeliest[1:]], axis=-1, dtype=np.float64)
    return np.moveaxis(np.where(is_token[..., None], effects, 0).sum(axis=2), 1, 0)


def _choose_replacements(outputs: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Returns the replacements of the heads' outputs at each target token.

    Args:
        outputs: `(N, L, H, V)`, the outputs of all target tokens, sentence by sentence.
        lengths: the number of target tokens of each sentence, which sum to N.

    Returns:
        `(2, N, L, H, V)`, in the order of `OUTPUT_ABLATIONS`; `(1, N, L, H, V)`, the mean alone, if only one sentence
        has tokens.
    """
    mean = np.broadcast_to(outputs.mean(axis=0), outputs.shape)
    in_sentence = np.repeat(lengths, lengths)
    in_other_sentences = len(outputs) - in_sentence
    if not in_other_sentences.all():
        return mean[None]
    # A number among the tokens of the other sentences; numbers from the sentence's first token on skip its tokens.
    number = np.random.default_rng(0).integers(in_other_sentences)
    first = np.repeat(np.cumsum(lengths) - lengths, lengths)
    return np.stack([mean, outputs[np.where(number < first, number, number + in_sentence)]])


def _make_graphs(model: keras.Model, layers: Sequence[CrossAttention]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Makes the two graphs of a batch: source ids `(B, S)`, target inputs `(B, T)` and target outputs `(B, T)`.

    Returns:
        `(read_outputs, read_changed)`. Both take the ids of the batch.

        - read_outputs: returns the outputs of all heads, `(B, T, L, H, V)`.
        - read_changed: takes also the replacements of the outputs by kind, `(kinds, B, T, L, H, V)`, and P changes, int
          `(P, 3)`. A change is a layer, a head, and an index into the joined list of `CHANGES` and `OUTPUT_ABLATIONS`.
          Returns the log-probability of each target token and the likeliest token at its position, both `(P, B, T)`.
          The source is encoded once for all changes.
    """

    def read_outputs(source, target_input, target_output):
        outputs: list[Any] = []

        def collect_output(layer, part, value, **inputs):
            if part == "heads" and layer in layers:
                outputs.append(value)
            return value

        with tapped(collect_output):
            model.decode(target_input, model.encode(source, training=False), training=False)
        return tf.transpose(tf.stack(outputs, axis=1), (0, 3, 1, 2, 4))

    def read_changed(source, target_input, target_output, replacements, changes):
        memory = model.encode(source, training=False)
        heads = tf.range(layers[0].num_heads)[:, None, None]

        def read_target(layer_head_change):
            layer, head, change = tf.unstack(layer_head_change)
            kind = change - len(CHANGES)

            def replace_output(attention, part, value, **inputs):
                if part != "heads" or attention not in layers:
                    return value
                number = layers.index(attention)
                replacement = tf.transpose(replacements[tf.maximum(kind, 0)][:, :, number], (0, 2, 1, 3))
                is_replaced = (kind >= 0) & (layer == number) & (heads == head)
                return tf.where(is_replaced, tf.cast(replacement, value.dtype), value)

            # An index beyond `CHANGES` leaves all weights unchanged.
            intervention = Intervention(one_head(len(layers), layers[0].num_heads, layer, head, change))
            with intervene(layers, intervention), tapped(replace_output):
                forced = forced_decode(model, memory, target_input, target_output)
            return forced.log_probabilities, forced.likeliest

        results = tf.TensorSpec([None, None], tf.float32), tf.TensorSpec([None, None], tf.int32)
        return tf.map_fn(read_target, changes, fn_output_signature=results, parallel_iterations=1)

    ids = (tf.TensorSpec([None, None], tf.int32),) * 3
    replacements_and_changes = (tf.TensorSpec([None] * 6, tf.float32), tf.TensorSpec([None, 3], tf.int32))
    return (ModelGraph(model, read_outputs, ids), ModelGraph(model, read_changed, ids + replacements_and_changes))
