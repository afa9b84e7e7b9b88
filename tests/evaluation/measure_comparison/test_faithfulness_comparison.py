"""Faithfulness of several runs: side by side with matched heads, and how far they order scorers alike."""

import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from qkv.errors import InputError
from qkv.evaluation.measure_comparison import compare_faithfulness, read_faithfulness
from qkv.files.run_directory import EvaluationDirectory
from qkv.inspection import Sentence, write_archive

SOURCE, TARGET = [f"▁s{i}" for i in range(5)], ["▁t0", "▁t1", "▁t2", "</s>"]
HEADS = 3
SCORERS = [*(("weights", 0, head) for head in range(HEADS)), ("gradients", "", ""), ("random", "", "")]
WORTH = dict(zip(SCORERS, (0.9, 0.2, 0.6, 0.4, 0.1), strict=True))


@pytest.fixture
def make(tmp_path):
    def system(name, order=(0, 1, 2), target=TARGET, ids=range(20), worth=WORTH):
        """An evaluation whose head `order[h]` is what head h is in the first one."""
        folder = EvaluationDirectory(tmp_path / name)
        generator = np.random.default_rng(0)
        weights = generator.dirichlet([0.3] * 5, size=(20, 1, HEADS, 4)).astype("float32")
        own = np.empty_like(weights)
        own[:, :, list(order)] = weights
        own = own[:, :, :, : len(target)]
        write_archive(folder.attention, [Sentence(SOURCE, target) for _ in range(20)], own)
        rows = []
        for number in ids:
            noise = np.random.default_rng((number, 3)).normal(0, 0.02, size=(len(SCORERS), 3))
            for place, (scorer, layer, head) in enumerate(SCORERS):
                value = worth[scorer, layer, head]
                key = {"id": number, "scorer": scorer, "layer": layer}
                key["head"] = order[head] if scorer == "weights" else head
                for k, (removal, share) in enumerate((("hard", 0.1), ("hard", 0.5), ("soft", np.nan))):
                    sums = {"comprehensiveness": 3 * (value + noise[place, k]), "sufficiency": 3 * (1 - value)}
                    rows.append(key | {"removal": removal, "share": share, "tokens": 3, **sums, "taken": 0.9})
        folder.root.mkdir(exist_ok=True)
        pd.DataFrame(rows).to_csv(folder.faithfulness_sentences, index=False)
        return SimpleNamespace(name=name, evaluation=folder)

    return system


def test_heads_of_another_seed_are_shown_as_those_that_they_stand_for(make):
    table, line = compare_faithfulness([make("first"), make("second", order=(2, 0, 1), ids=range(4, 20))], 100)
    assert table.startswith("faithfulness on 16 sentences")
    rows = [re.split(r"  +", row.strip()) for row in table.splitlines()[3:]]
    assert [row[0] for row in rows] == [
        "weights, layer 0, head 0",
        "weights, layer 0, head 2",
        "gradients",
        "weights, layer 0, head 1",
        "random",
    ]
    for name, *values in rows:
        middles = np.array([float(value.split()[0]) for value in values])
        np.testing.assert_allclose(middles[:2], middles[2:], atol=0.01, err_msg=name)
    assert float(rows[0][1].split()[0]) == pytest.approx(0.9, abs=0.02)
    assert "second orders 5 scorers as first does: Kendall's tau 1.00 (1.00 to 1.00)" in line
    assert "matched on 20 sentences, where 100% of their weights overlap" in line


def test_an_order_that_differs_has_a_smaller_tau(make):
    other = dict(zip(SCORERS, (0.9, 0.2, 0.3, 0.4, 0.1), strict=True))  # exchanges one pair of ten
    _, line = compare_faithfulness([make("first"), make("second", worth=other)], 100)
    assert "Kendall's tau 0.80" in line


def test_without_a_common_target_heads_are_left_out(make):
    _, line = compare_faithfulness([make("first"), make("second", target=["▁t0", "▁u1", "</s>"])], 100)
    assert "orders 2 scorers" in line and "evaluate with --forced" in line


def test_runs_that_were_not_measured_are_not_compared(make):
    second = make("second")
    second.evaluation.faithfulness_sentences.unlink()
    first = make("first")
    assert compare_faithfulness([first, second], 100) == []
    assert compare_faithfulness([first, make("third", ids=range(20, 30))], 100) == []


@pytest.mark.parametrize("damage", [("comprehensiveness", "x"), ("tokens,", "t,"), ("hard,0.1", "hard,y")])
def test_a_damaged_file_is_named(make, damage):
    file = make("first").evaluation.faithfulness_sentences
    file.write_text(file.read_text().replace(*damage))
    with pytest.raises(InputError, match=r"faithfulness_sentences\.csv: not the table that evaluate"):
        read_faithfulness(file)
