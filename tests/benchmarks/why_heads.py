"""Checks parts of scores and types of heads on a run that was evaluated.

    python -m tests.benchmarks.why_heads runs/demo [--draws 50]

It prints how far the parts are from adding up to the scores, the named heads with the share of their weight, how many
are named when the keys of each sentence are permuted, and processor time.
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from qkv.inspection import AttentionArchive
from qkv.inspection.experiments.activations import read_activations
from qkv.inspection.experiments.score_parts import shared_float64, split_score
from qkv.inspection.head_types import HeadTypesMeter, describe_types
from qkv.run.trained_run import load_run
from qkv.text.corpora.word_links import read_pharaoh
from tests.benchmarks.contest import machine

PAIRS, PERMUTED = 10, 100  # sentences


def errors_of(run, records):
    """The largest difference of the parts' sums from the scores in float64 and in float32, over the largest of the row,
    and the seconds of a row."""
    largest, seconds, rows = np.zeros(2), 0.0, 0
    for record in records:
        pair = [
            run.tokenizer.encode([record.source])[0] + [3],
            [2] + run.tokenizer.of_target.encode([record.hypothesis])[0],
        ]
        models = shared_float64(run.model, run.graphs), run.model
        exact, usual = (read_activations(model, pair, ["*.scores"])[0] for model in models)
        for name, scores in exact.items():
            row = scores.shape[1] - 2
            for head in range(len(scores)):
                started = time.process_time()
                model = shared_float64(run.model, run.graphs)
                parts = split_score(model, pair, name.removesuffix(".scores"), head, row)
                seconds, rows = seconds + time.process_time() - started, rows + 1
                expected = [found[name][head, row, : len(parts.keys)] for found in (exact, usual)]
                found = [np.abs(parts.scores - one).max() / np.abs(one).max() for one in expected]
                largest = np.maximum(largest, found)
    return *largest, seconds / rows, rows


def permute(record, random):
    """The same sentence with the keys of its cross-attention in another order."""
    weights = record.attention["cross"]
    return replace(record, attention={"cross": weights[..., random.permutation(weights.shape[-1])]})


def main() -> None:
    """Prints what it finds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--draws", type=int, default=50, help="of permuted sentences (default: 50)")
    options = parser.parse_args()
    run, archive = load_run(options.run), AttentionArchive(options.run / "evaluations/test/attention")
    settings = run.config.data.test
    gold = dict(enumerate(read_pharaoh(settings.alignments))) if settings and settings.alignments else None
    records = list(archive)
    exact, usual, seconds, rows = errors_of(run, records[:PAIRS])
    print(f"parts of {rows} rows: {exact:.1e} from float64, {usual:.1e} from float32; {seconds:.2f} s a row")
    started, meter = time.process_time(), HeadTypesMeter(gold)
    for record in records:
        meter.add(record)
    table = meter.table()
    seconds = time.process_time() - started
    named = {place: f"{head['type']} {head['share']:.2f}" for place, head in describe_types(table).items()}
    print(f"types: {named}; {1000 * seconds / len(records):.1f} ms a sentence")
    found = 0
    for seed in range(options.draws):
        random, meter = np.random.default_rng(seed), HeadTypesMeter(gold)
        for record in records[:PERMUTED]:
            meter.add(permute(record, random))
        found += len(describe_types(meter.table()))
    print(f"permuted: {found} heads named in {options.draws} draws of {PERMUTED} sentences")
    print(machine())


if __name__ == "__main__":
    main()
