"""The heads of the encoder that look from a pronoun at its noun, and what the translation of the pronoun loses without
them.

Letters: H heads, S source positions, T target positions.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice, product
from pathlib import Path

import keras
import numpy as np
import pandas as pd
from keras import ops

from ...errors import InputError
from ...text.batch import pad
from ...text.tokens.special_tokens import BOS, EOS
from ...text.tokens.tokenizer import Tokenizer
from .intervention import CHANGES, UNCHANGED, ChangedModel, Intervention, changeable_layers

COLUMNS = ("source", "target", "pronoun", "noun", "right", "wrong")
MOST_CONTROLS = 20
Head = tuple[int, int]
"""A layer and a head, from 0."""


@dataclass(frozen=True)
class PronounCase:
    """A sentence pair with a pronoun.

    Args:
        source_ids: up to EOS.
        target_ids: from BOS to the token before the pronoun's translation.
        pronoun: the position of the source token whose row is read.
        noun: the positions of the noun's tokens.
        right: the id of the first token of the right translation of the pronoun.
        wrong: the id of the first token of the wrong one.
    """

    source_ids: list[int]
    target_ids: list[int]
    pronoun: int
    noun: range
    right: int
    wrong: int


def read_cases(path: Path, tokenizer: Tokenizer) -> list[PronounCase]:
    """Reads sentences with pronouns.

    Args:
        path: a table with tabs between its columns `COLUMNS`: a source and its target as the model reads them, the
            pronoun and its noun, each once in the source, and its right and its wrong translation, of which the first
            stands once in the target.
        tokenizer: the run's.

    Raises:
        InputError: the file is no such table, or a word is not found once.
    """
    try:
        table = pd.read_csv(path, sep="\t", quoting=3, dtype=str, keep_default_na=False, usecols=list(COLUMNS))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: expected a table with the columns {', '.join(COLUMNS)}: {error}") from error
    if table.empty:
        raise InputError(f"{path}: expected a sentence a line below the names of the columns, found none")
    return [_read_case(f"{path}:{number + 2}", row, tokenizer) for number, row in enumerate(table.to_dict("records"))]


def _read_case(place: str, row: Mapping[Hashable, str], tokenizer: Tokenizer) -> PronounCase:
    source, pronoun, noun = tokenizer.encode([row["source"], row["pronoun"], row["noun"]])
    target, right, wrong = tokenizer.of_target.encode([row["target"], row["right"], row["wrong"]])
    at_pronoun, at_noun = (_find(place, source, ids, row[name]) for ids, name in ((pronoun, "pronoun"), (noun, "noun")))
    translated = _find(place, target, right, row["right"])
    if right[0] == wrong[0]:
        raise InputError(f"{place}: expected translations that begin differently, found {row['right']}, {row['wrong']}")
    return PronounCase(
        [*source, EOS], [BOS, *target[: translated.start]], at_pronoun.stop - 1, at_noun, right[0], wrong[0]
    )


def _find(place: str, ids: Sequence[int], word: Sequence[int], text: str) -> range:
    starts = [i for i in range(len(ids) - len(word) + 1) if list(ids[i : i + len(word)]) == list(word)]
    if len(starts) != 1 or not word:
        raise InputError(f"{place}: expected the word {text!r} once in its sentence, found it {len(starts)} times")
    return range(starts[0], starts[0] + len(word))


def find_pointing_heads(model: keras.Model, cases: Sequence[PronounCase]) -> pd.DataFrame:
    """Counts for each head of the encoder in how many sentences the pronoun's row has its largest weight on the noun.

    Returns:
        A row for each head, the best first: `layer`, `head`, `points` (sentences), `weight` (mean on the noun's tokens)
        and `sentences`.

    Raises:
        InputError: the model is no Transformer whose encoder has weights that can be changed.
    """
    if "encoder_self" not in changeable_layers(model):
        raise InputError("expected a Transformer whose encoder computes contexts from weights")
    memory = model.encode(_pad([case.source_ids for case in cases]), training=False)
    weights = np.stack([ops.convert_to_numpy(layer) for layer in memory.self_attention], axis=1)
    rows = [weights[i, :, :, case.pronoun] for i, case in enumerate(cases)]  # (layers, H, S)
    points = sum(np.isin(row.argmax(axis=-1), case.noun) for row, case in zip(rows, cases, strict=True))
    mean = np.mean([row[..., case.noun].sum(axis=-1) for row, case in zip(rows, cases, strict=True)], axis=0)
    heads = pd.MultiIndex.from_product([range(size) for size in mean.shape], names=["layer", "head"])
    table = pd.DataFrame({"points": np.ravel(points), "weight": mean.ravel(), "sentences": len(cases)}, heads)
    return table.sort_values(["points", "weight"], ascending=False).reset_index()


def measure_without(model: keras.Model, cases: Sequence[PronounCase], heads: Sequence[Head]) -> float:
    """Computes the mean probability of the right translation of the pronoun, of the right and the wrong one together,
    when some heads of the encoder add nothing."""
    layers = changeable_layers(model)["encoder_self"]
    changes = np.full((len(layers), layers[0].num_heads), UNCHANGED, "int32")
    for layer, head in heads:
        changes[layer, head] = [*CHANGES].index("zeroed")
    changed = ChangedModel(model, {"encoder_self": Intervention(changes)})
    memory = changed.encode(_pad([case.source_ids for case in cases]), training=False)
    logits = changed.decode(_pad([case.target_ids for case in cases]), memory, training=False).logits
    logits = ops.convert_to_numpy(logits).astype("float64")
    rows = [logits[i, len(case.target_ids) - 1] for i, case in enumerate(cases)]
    leads = np.array([row[case.right] - row[case.wrong] for row, case in zip(rows, cases, strict=True)])
    return float(np.mean(1 / (1 + np.exp(-leads))))


def _pad(rows: Sequence[Sequence[int]]) -> np.ndarray:
    return pad(rows, max(map(len, rows)))


def control_sets(heads: Sequence[Head], layers: int, per_layer: int) -> list[tuple[Head, ...]]:
    """Returns sets of other heads, with as many in each layer as `heads`, at most `MOST_CONTROLS`."""
    choices = []
    for layer in range(layers):
        taken = [head for at, head in heads if at == layer]
        others = [(layer, head) for head in range(per_layer) if head not in taken]
        choices.append(combinations(others, len(taken)))
    return [tuple(head for part in parts for head in part) for parts in islice(product(*choices), MOST_CONTROLS)]
