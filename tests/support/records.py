"""Records of attention with random weights."""

import numpy as np

from qkv.alignment.head_scores import HeadCounts
from qkv.alignment.link_probabilities import Calibration
from qkv.inspection.measures import MEASURES, SiteWeights
from qkv.inspection.record import Record
from qkv.text.corpora.word_links import GoldAlignment
from tests.support.oracles import softmax

EMPTY_SIDES: list[tuple[tuple[int | None, ...], ...]] = [
    ((None,), (0, 1, None)),
    ((0, 1, None), (None,)),
    ((None,), (None,)),
]
"""Words of source and target tokens where source, target or both are empty."""


def build_record(
    id: int = 0,  # noqa: A002 - the name of the field
    source_words: tuple[int | None, ...] = (0, 0, 1, 2, None),
    target_words: tuple[int | None, ...] = (0, 1, 1, None),
    layers: int = 2,
    heads: int = 3,
    seed: int | None = None,
    **changes: object,
) -> Record:
    """Random weights; source and target differ in length unless a test says otherwise."""
    generator = np.random.default_rng(id if seed is None else seed)
    S, T = len(source_words), len(target_words)
    target = [f"▁t{i}" if word is not None else "</s>" for i, word in enumerate(target_words)]
    values: dict[str, object] = {
        "id": id,
        "source": f"source {id}",
        "reference": None,
        "hypothesis": 'a "quoted"\u2028 hypothesis, é漢',
        "source_tokens": [f"▁s{i}" if word is not None else "</s>" for i, word in enumerate(source_words)],
        "target_input_tokens": ["<s>", *target[:-1]],
        "target_output_tokens": target,
        "source_words": list(source_words),
        "target_words": list(target_words),
        "token_log_probabilities": (-generator.random(T)).tolist(),
        "mode": "forced",
        "truncated": False,
        "attention": {
            "cross": softmax(generator.normal(size=(layers, heads, T, S))).astype(np.float32),
            "encoder": softmax(generator.normal(size=(layers, heads, S, S))).astype(np.float32),
            "decoder": softmax(generator.normal(size=(layers, heads, T, T)), np.tri(T) > 0).astype(np.float32),
        },
    }
    return Record(**(values | changes))


def score_heads(records, gold, word_counts):
    """The table of every layer and head against gold links."""
    counts = HeadCounts(gold, word_counts)
    for record in records:
        counts.add(record)
    return counts.table()


def measure(weights, keys=None, sinks=None):
    """Every measure of weights `(layer, head, query, key)`."""
    site = SiteWeights(weights.astype(np.float64), keys or {}, sinks)
    return {name: row.function(site) for name, row in MEASURES.items()}


def number_of_features(heads):
    """The features that tell links apart in a layer of so many heads."""
    return 2 * (3 * (heads + 1) + 8)


def make_calibration(layers, coefficients, threshold=0.5):
    """A calibration that was measured on nothing."""
    return Calibration(layers, tuple(coefficients), threshold, 0.0, (), 0, "")


def noisy_pairs(make_record, count):
    """Records of 4 source and 3 target words, each target word linked with one source word: the head looks there
    mostly, and elsewhere otherwise."""
    generator = np.random.default_rng(1)
    records, gold = [], []
    for number in range(count):
        true = generator.integers(4, size=3)
        scores = generator.normal(size=(1, 1, 4, 5))
        scores[0, 0, np.arange(3), true] += 2.5
        record = make_record(number, (0, 1, 2, 3, None), (0, 1, 2, None), layers=1, heads=1)
        record.attention["cross"][:] = softmax(scores)
        links = frozenset((int(i), j) for j, i in enumerate(true))
        records.append(record)
        gold.append(GoldAlignment(links - {(int(true[0]), 0)}, links))  # the first word's link is only possible
    return records, gold
