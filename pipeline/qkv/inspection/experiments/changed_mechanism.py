"""Measures how much a trained model depends on each part of its cross-attention: a part is changed without retraining.

A model fails under nearly any change, since it learnt with all its parts. So each change has controls: changes of the
same part that keep its size and lose what it has learnt. The accuracy under the change is compared with theirs.

Letters: N sentences, B sentences of a batch, L layers, H heads, T target positions, S source positions, D model width,
K key size, V value size of a head, R draws of random numbers.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import pandas as pd
from keras import ops

from ...errors import InputError
from ...layers.keras_layers import dynamic_shape
from ...layers.tap import Hook, tapped
from ...model.transformer import Transformer
from ...statistics.resampling import draw_over_seeds, interval, ratio, resample, sentence_counts
from ...text.batch import pad
from ...text.tokens.special_tokens import PAD
from .intervention import changeable_layers, permuted_by, uniform, zeroed
from .score_parts import copy_weights

DRAWS = 5
"""The number of random draws of each control. Draw r has the seed r, from 0."""


# Functions for `MechanismChange.weights`.


def _unchanged(weights, allowed, noise):
    """Returns the weights."""
    return weights


def _one_hot(weights, allowed, noise):
    """Returns 1 for the largest weight of each row and 0 for all other keys."""
    return ops.one_hot(ops.argmax(weights, axis=-1), dynamic_shape(weights)[-1])


def _uniform(weights, allowed, noise):
    """Returns equal weights for all allowed keys of each row."""
    return uniform(weights, allowed)


def _zeroed(weights, allowed, noise):
    """Returns zeros, so that every head adds nothing."""
    return zeroed(weights, allowed)


def _last(weights, allowed, noise):
    """Returns 1 for the last allowed key of each row, which is EOS, and 0 for all other keys."""
    last = ops.sum(ops.cast(allowed, "int32"), axis=-1) - 1
    return ops.one_hot(last, dynamic_shape(weights)[-1])


# Functions for `MechanismChange.projections`.


def _projections(layer: Any, *names: str) -> list[Any]:
    """Returns the projections of an attention layer by name; raises an `InputError` if the layer lacks one."""
    projections = [getattr(layer, f"{name}_projection", None) for name in names]
    if None in projections:
        raise InputError(f"the cross-attention has no projection of {' or '.join(names)}")
    return projections


def _copy_projection(source: str, target: str) -> Callable[[Any, np.random.Generator], None]:
    """Returns a function that copies the weights of the projection `source` of a layer to the projection `target`."""

    def copy(layer: Any, random: np.random.Generator) -> None:
        given, replaced = _projections(layer, source, target)
        if [x.shape for x in given.weights] != [x.shape for x in replaced.weights]:
            raise InputError(f"{source} and {target} have different sizes, so neither can stand for the other")
        replaced.set_weights(given.get_weights())

    return copy


def _make_identity(*names: str) -> Callable[[Any, np.random.Generator], None]:
    """Returns a function that sets the kernels of projections of a layer to the identity and their biases to 0."""

    def leave_out(layer: Any, random: np.random.Generator) -> None:
        for projection in _projections(layer, *names):
            rows, columns = projection.kernel.shape
            if rows != columns:
                raise InputError(f"a projection from {rows} to {columns} numbers cannot be left out")
            projection.set_weights([np.eye(rows), *(np.zeros(x.shape) for x in projection.weights[1:])])

    return leave_out


def _draw_same_spectrum(*names: str) -> Callable[[Any, np.random.Generator], None]:
    """Returns a function that replaces projections of a layer by random ones with the same singular values.

    The matrix of each head keeps its singular values and gets random orthonormal bases on both sides. Biases stay.
    """

    def draw(layer: Any, random: np.random.Generator) -> None:
        for name, projection in zip(names, _projections(layer, *names), strict=True):
            heads = layer.key_value_heads if name in ("key", "value") else layer.num_heads
            axis = 0 if name == "output" else 1
            matrices = np.split(ops.convert_to_numpy(projection.kernel), heads, axis)
            projection.kernel.assign(np.concatenate([random_of_same_spectrum(x, random) for x in matrices], axis))

    return draw


def random_of_same_spectrum(matrix: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Returns a random matrix with the singular values of `matrix`.

    Its two bases are uniformly distributed: each is the orthonormal basis, by Gram and Schmidt, of the columns of a
    matrix of normal random numbers (Mezzadri 2007, section 5), first on the left, then on the right.

    Args:
        matrix: `(M, N)`.
        random: the generator of random numbers.
    """
    singular_values = np.linalg.svd(matrix, compute_uv=False)
    bases = []
    for size in matrix.shape:
        basis, triangle = np.linalg.qr(random.normal(size=(size, len(singular_values))))
        bases.append(basis * np.sign(np.diag(triangle)))
    left, right = bases
    return (left * singular_values) @ right.T


def _exchange_value_heads(layer: Any, random: np.random.Generator) -> None:
    """Gives each head the values of another one, by a random permutation that leaves no head in its place."""
    (projection,) = _projections(layer, "value")
    heads = layer.key_value_heads
    if heads == 1:
        raise InputError("a single head of values has no other head to take them from")
    order = np.arange(heads)
    while (order == np.arange(heads)).any():
        order = random.permutation(heads)
    exchanged = [np.stack(np.split(ops.convert_to_numpy(x), heads, -1))[order] for x in projection.weights]
    projection.set_weights([np.concatenate(list(x), -1) for x in exchanged])


class MechanismChange(NamedTuple):
    """A change of the cross-attention of all layers.

    - meaning: the change in a few words.
    - controls: the names of its controls in `CONTROLS`.
    - weights: a function of the weights, of the allowed keys (bool) and of random numbers from 0 to 1, all
      `(B, H, T, S)`, that returns the new weights. By default they are unchanged. The random numbers are None for
      changes of `MECHANISM_CHANGES`.
    - projections: a function of an attention layer and a generator of random numbers that changes the projections in
      place. It raises an `InputError` if the layer lacks one, or if their shapes do not allow the change. By default
      it changes nothing.
    - of_another_sentence: "keys" or "values" if these are of another source sentence, see `draw_other_sentences`.
    """

    meaning: str
    controls: tuple[str, ...] = ()
    weights: Callable[[Any, Any, Any], Any] = _unchanged
    projections: Callable[[Any, np.random.Generator], None] = lambda layer, random: None
    of_another_sentence: str = ""


AS_IT_IS = "as it is"
MECHANISM_CHANGES = {
    AS_IT_IS: MechanismChange("the trained model"),
    "one-hot": MechanismChange("the largest weight becomes 1: no mixing", ("weights permuted",), _one_hot),
    "uniform": MechanismChange("equal weights: the mean of states in context", ("weights permuted",), _uniform),
    "last word": MechanismChange("all weight on the end of the source", ("weights permuted",), _last),
    "raw vectors": MechanismChange(
        "no W_Q and W_K: states are compared", ("random W_Q, W_K",), projections=_make_identity("query", "key")
    ),
    "keys := values": MechanismChange(
        "W_K becomes W_V: found by what they say",
        ("random W_K", "another sentence's keys"),
        projections=_copy_projection("value", "key"),
    ),
    "values := keys": MechanismChange(
        "W_V becomes W_K: the keys are read",
        ("random W_V", "another head's values", "another sentence's values"),
        projections=_copy_projection("key", "value"),
    ),
    "raw values": MechanismChange(
        "no W_V and W_O: states are read", ("random W_V, W_O",), projections=_make_identity("value", "output")
    ),
    "without W_O": MechanismChange(
        "the heads' contexts side by side", ("random W_O",), projections=_make_identity("output")
    ),
    "nothing read": MechanismChange("no source: only the words before count", weights=_zeroed),
}
"""The changes by name."""

CONTROLS = {
    "weights permuted": MechanismChange("each row's weights, on random tokens", weights=permuted_by),
    "random W_Q, W_K": MechanismChange(
        "random matrices, same singular values", projections=_draw_same_spectrum("query", "key")
    ),
    "random W_K": MechanismChange("a random matrix, same singular values", projections=_draw_same_spectrum("key")),
    "another sentence's keys": MechanismChange("of a sentence with as many tokens", of_another_sentence="keys"),
    "random W_V": MechanismChange("a random matrix, same singular values", projections=_draw_same_spectrum("value")),
    "another head's values": MechanismChange("right words, wrong directions", projections=_exchange_value_heads),
    "another sentence's values": MechanismChange("right directions, wrong words", of_another_sentence="values"),
    "random W_V, W_O": MechanismChange(
        "random matrices, same singular values", projections=_draw_same_spectrum("value", "output")
    ),
    "random W_O": MechanismChange("a random matrix, same singular values", projections=_draw_same_spectrum("output")),
}
"""The controls by name. Each depends on random numbers, and its accuracy is the mean of several draws."""

PairArrays = tuple[Any, Any, Any]
"""The ids of sentence pairs, with padding: source `(B, S)`, target from BOS on `(B, T)`, target up to EOS `(B, T)`."""


def measure_changes(model: keras.Model, batches: Iterable[PairArrays], *, draws: int = DRAWS) -> pd.DataFrame:
    """Measures the accuracy of a model's next-token predictions under each of `MECHANISM_CHANGES` and its controls.

    The model reads the reference (teacher forcing). Changes are made in a copy of the model.

    Intervals are 95 % bootstrap intervals over sentences. The intervals of controls and of differences cover their
    random draws, too, see `statistics.resampling.draw_over_seeds`.

    Args:
        model: a Transformer whose cross-attention computes contexts from weights.
        batches: the sentence pairs.
        draws: R, the number of draws of each control; 0 for no controls.

    Returns:
        A row for each change that the projections allow, and below it a row for each of its controls:

        - change: the name of the change.
        - control: the name of the control, "" in the row of the change itself.
        - meaning: the change or control in a few words.
        - tokens: the number of target tokens, without padding.
        - right: the share of them to which the model gives the highest probability; the mean over the draws of a
          control.
        - low, high: the interval of `right`.
        - difference: `right` of the change minus `right` of the control, NaN in the row of the change itself.
        - difference_low, difference_high: the interval of `difference`, paired by sentences.

    Raises:
        InputError: the model is not a Transformer, the weights of its cross-attention cannot be replaced (see
            `inspection.experiments.intervention.changeable_layers`), or `batches` have no target tokens.
    """
    if not isinstance(model, Transformer) or "cross" not in changeable_layers(model):
        raise InputError("expected a Transformer whose cross-attention computes contexts from weights")
    batches = list(batches)  # read once for each change
    tokens = np.concatenate([np.zeros(0), *((output != PAD).sum(axis=1) for _, _, output in batches)])
    if not tokens.sum():
        raise InputError("expected sentence pairs with target tokens, found none")
    counts = sentence_counts(len(tokens))
    changed_model = type(model).from_config(model.get_config())
    changed_model.build()
    sources = [row[row != PAD] for source, _, _ in batches for row in np.asarray(source)]

    def measure(change: MechanismChange, seeds: Iterable[int]) -> tuple[float, np.ndarray] | None:
        """Returns the share of right predictions and its bootstrap samples; None if the projections forbid the change.

        Several seeds give the mean share.
        """
        try:
            right = [_count_right(model, changed_model, change, batches, sources, seed) for seed in seeds]
        except InputError:
            return None
        shares = np.array([ratio(row, tokens) for row in right])
        samples = np.array([resample(row, tokens, counts) for row in right])
        return float(shares.mean()), draw_over_seeds(samples, shares)

    results = {name: measure(change, [0]) for name, change in MECHANISM_CHANGES.items()}
    changes = {name: result for name, result in results.items() if result is not None}
    needed = dict.fromkeys(control for name in changes for control in MECHANISM_CHANGES[name].controls)
    controls = {name: measure(CONTROLS[name], range(draws)) if draws else None for name in needed}
    rows: list[tuple[Any, ...]] = []
    for name, (right, samples) in changes.items():
        change = MECHANISM_CHANGES[name]
        rows.append((name, "", change.meaning, right, *interval(samples), np.nan, np.nan, np.nan))
        for control in change.controls:
            control_result = controls[control]
            if control_result is None:
                continue
            control_right, control_samples = control_result
            differences = right - control_right, *interval(samples - control_samples)
            meaning = CONTROLS[control].meaning
            rows.append((name, control, meaning, control_right, *interval(control_samples), *differences))
    columns = ["change", "control", "meaning", "right", "low", "high"]
    table = pd.DataFrame(rows, columns=[*columns, "difference", "difference_low", "difference_high"])
    table.insert(3, "tokens", int(tokens.sum()))
    return table


def draw_other_sentences(lengths: Sequence[int], random: np.random.Generator) -> np.ndarray:
    """Draws another sentence of the same length for each sentence; for a sentence that has no equal, a neighbour.

    The sentences of each length are put into a random order, and each gets the next one, the last the first. A sentence
    that is alone with its length gets one of the next smaller length, or of the next larger one if it is the shortest.

    Args:
        lengths: the number of tokens of each sentence.
        random: the generator of random numbers.

    Returns:
        The index of the other sentence, int `(N,)`. A single sentence gets itself.
    """
    order = random.permutation(len(lengths))
    order = order[np.argsort(np.asarray(lengths)[order], kind="stable")]
    sorted_lengths = np.asarray(lengths)[order]
    others = np.empty(len(order), int)
    for length in np.unique(sorted_lengths):
        (places,) = np.nonzero(sorted_lengths == length)
        neighbour = places[0] - 1 if places[0] else min(1, len(order) - 1)
        others[order[places]] = order[np.roll(places, -1)] if len(places) > 1 else order[neighbour]
    return others


def _count_right(
    model: Transformer,
    changed_model: Transformer,
    change: MechanismChange,
    batches: Sequence[PairArrays],
    sources: Sequence[np.ndarray],
    seed: int,
) -> np.ndarray:
    """Returns the number of right predictions in each sentence under a change, `(N,)`.

    Args:
        model: the Transformer.
        changed_model: a copy of it, whose weights are overwritten.
        change: the change.
        batches: the sentence pairs.
        sources: the source ids of each sentence, without padding.
        seed: the seed of the change's random numbers.
    """
    copy_weights(model, changed_model)
    layers = changed_model.attention_layers()["cross"]
    random = np.random.default_rng(seed)
    for layer in layers:
        change.projections(layer, random)
    others = draw_other_sentences([len(source) for source in sources], random)
    right = []
    first = 0
    for source, target_input, target_output in batches:
        sentences = range(first, first + len(source))
        first = sentences.stop
        noise = None
        if change.weights is permuted_by:
            noise = _draw_noise(seed, sentences, (source, target_output), (len(layers), layers[0].num_heads))
        other_values = []
        if change.of_another_sentence:
            other_sources = [sources[others[sentence]] for sentence in sentences]
            other_values = _read_memory(changed_model, layers, change.of_another_sentence, other_sources, source)
        with tapped(_make_hook(layers, change, noise, other_values)):
            memory = changed_model.encode(source, training=False)
            output = changed_model.decode(target_input, memory, training=False)
        likeliest = ops.convert_to_numpy(ops.argmax(output.logits, axis=-1))
        right.append(((likeliest == target_output) & (target_output != PAD)).sum(axis=1))
    return np.concatenate(right)


def _draw_noise(seed: int, sentences: range, ids: tuple[Any, Any], sizes: tuple[int, int]) -> np.ndarray:
    """Draws random numbers from 0 to 1, which do not depend on the batches, with zeros for padding.

    Args:
        seed: the seed of the draw.
        sentences: the indices of the sentences in all batches.
        ids: the source and target ids of these sentences, `(B, S)` and `(B, T)`, with padding.
        sizes: L and H.

    Returns:
        `(L, B, H, T, S)`.
    """
    source, target = ids
    noise = np.zeros((sizes[0], len(source), sizes[1], target.shape[1], source.shape[1]), np.float32)
    lengths = zip((target != PAD).sum(axis=1), (source != PAD).sum(axis=1), strict=True)
    for row, (sentence, (targets, keys)) in enumerate(zip(sentences, lengths, strict=True)):
        generator = np.random.default_rng([seed, sentence])
        noise[:, row, :, :targets, :keys] = generator.random((*sizes, targets, keys))
    return noise


def _read_memory(
    model: Transformer, layers: Sequence[Any], part: str, others: Sequence[np.ndarray], source: Any
) -> list[np.ndarray]:
    """Returns the keys or values of other sentences in the cross-attention, in the places of the sentences of a batch.

    A longer sentence is cropped, a shorter one is repeated from its beginning.

    Args:
        model: the Transformer.
        layers: its layers of cross-attention.
        part: "keys" or "values".
        others: the source ids of each other sentence, without padding.
        source: the source ids of the batch, `(B, S)`.

    Returns:
        For each layer `(B, H, S, K or V)`.
    """
    read = {}

    def collect(layer, name, value, **inputs):
        if name == part and layer in layers:
            read[layer] = ops.convert_to_numpy(value)
        return value

    lengths = np.array([len(ids) for ids in others])
    with tapped(collect):
        model.encode(pad(others, lengths.max()), training=False)
    places = np.arange(source.shape[1]) % lengths[:, None]
    return [np.take_along_axis(read[layer], places[:, None, :, None], axis=2) for layer in layers]


def _make_hook(
    layers: Sequence[Any], change: MechanismChange, noise: np.ndarray | None, other_values: Sequence[np.ndarray]
) -> Hook:
    """Makes the hook that replaces weights, keys or values.

    Args:
        layers: the layers of cross-attention.
        change: the change.
        noise: the result of `_draw_noise`, or None.
        other_values: the result of `_read_memory`; empty if nothing is of another sentence.
    """

    def hook(layer, part, value, mask=None, **inputs):
        if layer not in layers:
            return value
        number = layers.index(layer)
        if other_values and part == change.of_another_sentence:
            return ops.convert_to_tensor(other_values[number])
        if change.weights is _unchanged or part != "weights":
            return value
        allowed = ops.broadcast_to(True if mask is None else mask, dynamic_shape(value))
        return change.weights(value, allowed, None if noise is None else noise[number])

    return hook
