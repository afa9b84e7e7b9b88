"""Checks what `make demo` left: scores, one matrix per layer and head for every sentence, pictures, TensorBoard."""

import json
import sys
from pathlib import Path

import numpy as np

run = Path(sys.argv[1])
evaluation = run / "evaluations" / "test"
metrics = json.loads((evaluation / "metrics.json").read_text(encoding="utf-8"))
assert metrics["bleu"] >= 98, metrics["bleu"]
assert metrics["alignment"]["aer"] <= 5 < metrics["alignment"]["diagonal_aer"], metrics["alignment"]
manifest = json.loads((evaluation / "attention" / "manifest.json").read_text(encoding="utf-8"))
assert manifest["complete"] and manifest["sentences"] == metrics["sentences"] == 500, manifest
sentences = [json.loads(line) for line in (evaluation / "attention" / "sentences.jsonl").open(encoding="utf-8")]
assert [sentence["id"] for sentence in sentences] == list(range(500))
for sentence in sentences:
    with np.load(evaluation / "attention" / sentence["shard"]) as shard:
        weights = shard[f"cross/{sentence['id']:06d}"]
    assert weights.shape[2:] == (len(sentence["target_output_tokens"]), len(sentence["source_tokens"]))
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
assert len(list((evaluation / "heatmaps").glob("*.png"))) == 4  # of the probes
assert all(list(folder.glob("events.out.tfevents.*")) for folder in (run, run / "validation"))
print(f"demo: BLEU {metrics['bleu']:.2f}, AER {metrics['alignment']['aer']:.2f}; 1 passed, 0 failed")
