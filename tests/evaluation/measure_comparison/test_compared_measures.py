"""All measures of several evaluations side by side: intervals, matched heads, corrected tests, the level of seeds."""

import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from qkv.evaluation.measure_comparison import compare_heads, compare_measures, compare_seeds
from qkv.evaluation.systems import match_to_first
from qkv.files.run_directory import EvaluationDirectory
from qkv.inspection import Sentence, write_archive
from qkv.metrics.bleu import CorpusScore, make_bleu

SOURCE, TARGET = [f"▁s{i}" for i in range(5)], ["▁t0", "▁t1", "▁t2", "</s>"]
COUNT, HEADS = 60, 3
ENTROPY = np.array([0.5, 1.0, 1.5])


@pytest.fixture
def make(tmp_path):
    def system(name, order=(0, 1, 2), shift=0.0, noise=0.05, seed=0, target=TARGET, rank=5.0):
        """An evaluation whose head `order[h]` is what head h is in the first one; `shift` is added to head 0."""
        folder = EvaluationDirectory(tmp_path / name)
        weights = np.random.default_rng(0).dirichlet([0.3] * 5, size=(COUNT, 1, HEADS, 4)).astype("float32")
        own = np.empty_like(weights)
        own[:, :, list(order)] = weights
        write_archive(folder.attention, [Sentence(SOURCE, target) for _ in range(COUNT)], own[:, :, :, : len(target)])
        random = np.random.default_rng(seed + 100)
        rows, effects = [], []
        for number in range(COUNT):
            hard = np.random.default_rng(number).normal(0, 0.2)
            for head in range(HEADS):
                key = {"id": number, "layer": 0, "head": order[head]}
                value = ENTROPY[head] + hard + random.normal(0, noise) + (shift if head == 0 else 0)
                rows.append(key | {"rows": 4, "entropy": value})
                effects.append(key | {"change": "zeroed", "tokens": 4, "loss_change": value / 2})
        pd.DataFrame(rows).to_csv(folder.sentence_heads, index=False)
        pd.DataFrame(effects).to_csv(folder.perturbation_sentences, index=False)
        pd.DataFrame({"effective_rank": [rank, rank]}).to_csv(folder.spectra, index=False)
        return SimpleNamespace(name=name, evaluation=folder, metrics={})

    return system


def rows_of(block):
    """The columns of each row of a block by its name."""
    lines = block.split("\n\n", 1)[1].splitlines()[1:]
    cells = [re.split(r"  +", line.strip()) for line in lines]
    return {name: values for name, *values in cells}


def numbers(cell):
    return [float(text) for text in re.findall(r"-?\d+\.\d+", cell)]


def compared(systems, samples=200):
    return compare_measures(systems, [{} for _ in systems], samples)


def test_means_over_heads_have_intervals_over_sentences_and_p_against_the_first(make):
    (block,) = compared([make("first"), make("same", order=(1, 2, 0), seed=1), make("other", shift=0.3, seed=2)])
    rows = rows_of(block)
    assert set(rows) == {"entropy", "loss_change zeroed", "effective_rank"}
    first, same, p_same, other, p_other = (numbers(cell) for cell in rows["entropy"])
    assert first[0] == pytest.approx(1.0, abs=0.06) and other[0] == pytest.approx(1.1, abs=0.06)
    for value, low, high in (first, same, other):
        assert low < value < high and high - low == pytest.approx(4 * 0.2 / np.sqrt(COUNT), rel=0.35)
    assert p_same[0] > 0.05 > 0.02 > p_other[0]
    assert rows["effective_rank"] == ["5.000", "5.000", "5.000"]


def test_heads_are_matched_and_their_p_is_corrected_for_their_number(make):
    systems = [make("first"), make("other", order=(2, 0, 1), shift=0.3, seed=1)]
    title, *blocks = compare_heads(systems, match_to_first(systems), 200)
    assert "corrected for all heads" in title and [block.split("\n")[0] for block in blocks] == [
        "entropy",
        "loss_change zeroed",
    ]
    rows = rows_of(blocks[0])
    assert list(rows) == ["layer 0 head 0", "layer 0 head 1", "layer 0 head 2"]
    for head, (first, other, p) in enumerate(rows.values()):
        assert numbers(first)[0] == pytest.approx(ENTROPY[head], abs=0.06)
        assert numbers(other)[0] == pytest.approx(ENTROPY[head] + (0.3 if head == 0 else 0), abs=0.06)
        assert (numbers(p)[0] < 0.01) == (head == 0)
    # With 1,000 exchanges the least p is 0.001; of three tests it is multiplied by three.
    assert numbers(rows["layer 0 head 0"][2])[0] == pytest.approx(0.003)


def test_heads_that_cannot_be_matched_are_left_out_with_a_line(make):
    systems = [make("first"), make("other", target=["▁t0", "▁u1", "</s>"])]
    *_, line = compare_heads(systems, match_to_first(systems), 100)
    assert line.startswith("other: its heads are left out") and "evaluate with --forced" in line


def test_over_seeds_intervals_hold_what_other_seeds_would_give(make):
    seeds = [make(f"seed {i}", shift=shift, seed=i, rank=5.0 + i) for i, shift in enumerate((0.0, 0.3, 0.6))]
    single = make("single", shift=0.3, seed=7)
    systems, scores = [*seeds, single], [{}] * 4
    assert not compare_seeds([("a", [0]), ("b", [3])], systems, scores, 200)
    (block,) = compare_seeds([("a", [0, 1, 2]), ("b", [3])], systems, scores, 1000)
    assert "a (3)" in block and "b (1)" in block
    over_seeds, alone, p = rows_of(block)["entropy"]
    value, low, high = numbers(over_seeds)
    assert value == pytest.approx(1.1, abs=0.06)
    # Student's t with two degrees of freedom, times the standard error of the three means, and sentences.
    expected = np.hypot(4.303 * 0.1 / np.sqrt(3), 1.96 * 0.2 / np.sqrt(COUNT))
    assert (high - low) / 2 == pytest.approx(expected, rel=0.2)
    width = np.diff(numbers(alone)[1:])[0]
    assert width < (high - low) / 2 and numbers(p)[0] > 0.3
    value, low, high = numbers(rows_of(block)["effective_rank"][0])
    assert value == 6 and high - low == pytest.approx(2 * 4.303 / np.sqrt(3), rel=0.2)


def test_scores_of_translations_stand_beside_the_heads(make):
    references = [f"a b c d e{i}" for i in range(COUNT)]
    found = [[text if i % every else "a b c d" for i, text in enumerate(references)] for every in (2, 3)]
    scores = [{"BLEU": CorpusScore.of(make_bleu("none"), one, references)} for one in found]
    (block,) = compare_measures([make("first"), make("other")], scores, 200)
    first, other, p = rows_of(block)["BLEU"]
    for cell, one in ((first, found[0]), (other, found[1])):
        assert numbers(cell)[0] == pytest.approx(make_bleu("none").corpus_score(one, [references]).score, abs=1e-3)
    assert 0 < numbers(p)[0] < 1


def test_evaluations_of_older_versions_have_no_table(make):
    old = make("old")
    old.evaluation.sentence_heads.unlink()
    old.evaluation.perturbation_sentences.unlink()
    assert not compared([old, old])
    assert "evaluate again" in compare_heads([old, old], match_to_first([old, old]), 100)[0]
    (block,) = compared([make("first"), old])
    assert rows_of(block)["entropy"][1:] == []
