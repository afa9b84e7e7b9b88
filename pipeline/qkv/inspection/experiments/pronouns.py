"""Encoder heads that attend from a pronoun to its noun, and the translation of the pronoun when heads are ablated.

Letters: H heads, S source positions.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice, product
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np
import pandas as pd
from keras import ops

from ...errors import InputError
from ...text.batch import pad
from ...text.tokens.special_tokens import BOS, EOS
from ...text.tokens.tokenizer import Tokenizer
from .intervention import CHANGES, UNCHANGED, ChangedModel, Intervention, changeable_layers

PRONOUN_COLUMNS = ("source", "target", "pronoun", "noun", "right", "wrong")
MOST_CONTROLS = 20

LayerAndHead = tuple[int, int]
"""The indices of a layer and of one of its heads."""


@dataclass(frozen=True)
class PronounCase:
    """A sentence pair with a pronoun.

    Args:
        source_ids: the ids of the source, up to EOS.
        target_ids: the ids of the target, from BOS to the token before the pronoun's translation.
        pronoun: the position of the pronoun's last token in the source.
        noun: the positions of the noun's tokens in the source.
        right: the id of the first token of the right translation of the pronoun.
        wrong: the id of the first token of the wrong translation of the pronoun.
    """

    source_ids: list[int]
    target_ids: list[int]
    pronoun: int
    noun: range
    right: int
    wrong: int


def read_cases(path: Path, tokenizer: Tokenizer) -> list[PronounCase]:
    """Reads the cases of a table.

    Args:
        path: a file of tab-separated values with a header line. Its columns are `source` and `target` (a sentence pair
            as the model reads it), `pronoun` and `noun` (each occurs once in the source), and `right` and `wrong` (the
            right translation of the pronoun, which occurs once in the target, and a wrong one). Other columns are
            ignored.
        tokenizer: the tokenizer of the run.

    Raises:
        InputError: the file cannot be read, lacks a column or has no rows; a pronoun, noun or right translation does
            not occur exactly once; or both translations begin with the same token.
    """
    try:
        table = pd.read_csv(path, sep="\t", quoting=3, dtype=str, keep_default_na=False, usecols=list(PRONOUN_COLUMNS))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: expected a table with the columns {', '.join(PRONOUN_COLUMNS)}: {error}") from error
    if table.empty:
        raise InputError(f"{path}: expected a line for each sentence below the names of the columns, found none")
    return [_read_case(f"{path}:{number + 2}", row, tokenizer) for number, row in enumerate(table.to_dict("records"))]


def _read_case(line: str, row: Mapping[Hashable, str], tokenizer: Tokenizer) -> PronounCase:
    """Reads a row of the table; `line` is its file and line number, for messages."""
    source, pronoun, noun = tokenizer.encode([row["source"], row["pronoun"], row["noun"]])
    target, right, wrong = tokenizer.of_target.encode([row["target"], row["right"], row["wrong"]])
    pronoun_positions = _find(line, source, pronoun, row["pronoun"])
    noun_positions = _find(line, source, noun, row["noun"])
    translation_positions = _find(line, target, right, row["right"])
    if right[0] == wrong[0]:
        raise InputError(f"{line}: expected translations that begin differently, found {row['right']}, {row['wrong']}")
    return PronounCase(
        source_ids=[*source, EOS],
        target_ids=[BOS, *target[: translation_positions.start]],
        pronoun=pronoun_positions.stop - 1,
        noun=noun_positions,
        right=right[0],
        wrong=wrong[0],
    )


def _find(line: str, ids: Sequence[int], word: Sequence[int], text: str) -> range:
    """Returns the positions of a word's ids in a sentence's ids; raises an `InputError` unless it occurs once."""
    starts = [i for i in range(len(ids) - len(word) + 1) if list(ids[i : i + len(word)]) == list(word)]
    if len(starts) != 1 or not word:
        raise InputError(f"{line}: expected the word {text!r} once in its sentence, found it {len(starts)} times")
    return range(starts[0], starts[0] + len(word))


def find_pointing_heads(model: keras.Model, cases: Sequence[PronounCase]) -> pd.DataFrame:
    """Counts for each encoder head the sentences in which the pronoun's row has its largest weight on the noun.

    Returns:
        A row for each head, with the columns `layer`, `head`, `points` (the number of such sentences), `weight` (the
        weight of the pronoun's row on all tokens of the noun, a mean over the sentences) and `sentences` (the number of
        cases). Heads with many points come first, then those with a high weight.

    Raises:
        InputError: the model is not a Transformer, or its encoder's weights cannot be replaced (`changeable_layers`).
    """
    if "encoder_self" not in changeable_layers(model):
        raise InputError("expected a Transformer whose encoder computes contexts from weights")
    memory = model.encode(_pad([case.source_ids for case in cases]), training=False)
    weights = np.stack([ops.convert_to_numpy(layer) for layer in memory.self_attention], axis=1)
    rows = [weights[i, :, :, case.pronoun] for i, case in enumerate(cases)]  # (layers, H, S)
    points = sum(np.isin(row.argmax(axis=-1), case.noun) for row, case in zip(rows, cases, strict=True))
    mean_weights = np.mean([row[..., case.noun].sum(axis=-1) for row, case in zip(rows, cases, strict=True)], axis=0)
    heads = pd.MultiIndex.from_product([range(size) for size in mean_weights.shape], names=["layer", "head"])
    table = pd.DataFrame({"points": np.ravel(points), "weight": mean_weights.ravel(), "sentences": len(cases)}, heads)
    return table.sort_values(["points", "weight"], ascending=False).reset_index()


def measure_without(model: keras.Model, cases: Sequence[PronounCase], heads: Sequence[LayerAndHead]) -> float:
    """Computes the mean probability of the right translation of the pronoun if some encoder heads output zeros.

    The probability is relative to the right and the wrong translation: p(right) / (p(right) + p(wrong)). Only the first
    token of each translation counts.
    """
    layers = changeable_layers(model)["encoder_self"]
    changes = np.full((len(layers), layers[0].num_heads), UNCHANGED, "int32")
    for layer, head in heads:
        changes[layer, head] = [*CHANGES].index("zeroed")
    changed_model = ChangedModel(model, {"encoder_self": Intervention(changes)})
    memory = changed_model.encode(_pad([case.source_ids for case in cases]), training=False)
    logits = changed_model.decode(_pad([case.target_ids for case in cases]), memory, training=False).logits
    logits = ops.convert_to_numpy(logits).astype("float64")
    rows = [logits[i, len(case.target_ids) - 1] for i, case in enumerate(cases)]
    differences = np.array([row[case.right] - row[case.wrong] for row, case in zip(rows, cases, strict=True)])
    return float(np.mean(1 / (1 + np.exp(-differences))))


class PointingEffect(NamedTuple):
    """The effect of the heads that point at the noun, as mean probabilities of `measure_without`.

    - heads: the pairs `(layer, head)` that point at the noun in more than half of the sentences.
    - whole: the probability with all heads.
    - without: the probability without `heads`.
    - controls: the probability without each set of other heads, see `control_sets`.
    """

    heads: list[LayerAndHead]
    whole: float
    without: float
    controls: list[float]


def measure_effect(model: keras.Model, cases: Sequence[PronounCase], table: pd.DataFrame) -> PointingEffect | None:
    """Measures how the translation of the pronoun depends on the heads that point at the noun.

    Args:
        model: the Transformer.
        cases: the sentences.
        table: the result of `find_pointing_heads` for them.

    Returns:
        The effect, or None if no head points at the noun in more than half of the sentences.
    """
    pointing = table[table["points"] > len(cases) / 2]
    heads = list(zip(pointing["layer"].to_list(), pointing["head"].to_list(), strict=True))
    if not heads:
        return None
    layers = model.attention_layers()["encoder"]
    sets = control_sets(heads, len(layers), layers[0].num_heads)
    controls = [measure_without(model, cases, others) for others in sets]
    return PointingEffect(heads, measure_without(model, cases, []), measure_without(model, cases, heads), controls)


def _pad(rows: Sequence[Sequence[int]]) -> np.ndarray:
    """Returns rows of ids, padded to the length of the longest row, int `(rows, length)`."""
    return pad(rows, max(map(len, rows)))


def control_sets(heads: Sequence[LayerAndHead], layers: int, heads_per_layer: int) -> list[tuple[LayerAndHead, ...]]:
    """Returns sets of other heads, whose ablation is compared with the ablation of `heads`.

    Args:
        heads: the pairs `(layer, head)` to compare with.
        layers: the number of layers.
        heads_per_layer: the number of heads of each layer.

    Returns:
        At most `MOST_CONTROLS` sets. Each set has the same number of heads in each layer as `heads`, and contains none
        of `heads`.
    """
    choices = []
    for layer in range(layers):
        heads_in_layer = [head for head_layer, head in heads if head_layer == layer]
        other_heads = [(layer, head) for head in range(heads_per_layer) if head not in heads_in_layer]
        choices.append(combinations(other_heads, len(heads_in_layer)))
    return [tuple(head for part in parts for head in part) for parts in islice(product(*choices), MOST_CONTROLS)]
