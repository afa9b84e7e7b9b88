"""The table of a stack and its runs; tests/benchmarks/test_stacked.py has the training."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qkv.config.run import dump, make_run_config
from qkv.files.run_directory import RunDirectory
from qkv.run.trained_run import load_run
from qkv.text.tokens.run_tokenizer import load_tokenizer, train_tokenizer
from qkv.text.tokens.special_tokens import EOS
from tests.benchmarks.racers.run import read_lines
from tests.benchmarks.stacked import table
from tests.benchmarks.stacked.buckets import padded
from tests.benchmarks.stacked.candidates import CANDIDATES
from tests.benchmarks.stacked.transformer import decode, encode, logits, shift_right
from tests.benchmarks.stacked.weights import initial_weights, to_keras
from tests.support.tiny_runs import small_settings, write_small_corpus

pytestmark = pytest.mark.minutes

LAYERS, HEADS, VOCABULARY = 2, 2, 120
SIZES = {"d_model": 32, "num_heads": HEADS, "d_ff": 48, "encoder_layers": LAYERS, "decoder_layers": LAYERS}


def sides_of(folder):
    """The lines of the validation set: targets, then sources."""
    return [read_lines(folder / "corpus" / f"validation.{side}") for side in ("fr", "en")]


@pytest.fixture
def text_run(tmp_path):
    """A run of the best preset's kind that has only begun."""
    changes = {f"model.{key}": value for key, value in SIZES.items()} | {"tokenizer.vocabulary_size": VOCABULARY}
    changes |= {"model.norm": "post", "model.positions": "rotary", "model.tie_embeddings": "all"}
    settings = small_settings(write_small_corpus(tmp_path / "corpus"), tmp_path, changes)
    for files in settings["data"].values():
        if isinstance(files, dict):
            files.pop("alignments", None)
    run = RunDirectory(tmp_path / "text")
    run.root.mkdir()
    run.config.write_text(dump(make_run_config(settings, {}, default_name="text")), encoding="utf-8")
    model = run.root / "tokenizer" / "sentencepiece.model"
    model.parent.mkdir()
    lines = [line for side in sides_of(tmp_path) for line in side]
    train_tokenizer(lines, model, kind="bpe", vocabulary_size=VOCABULARY, character_coverage=1.0)
    return run


def test_the_table_scores_translations_and_the_runs_have_the_weights(text_run, tmp_path):
    """A model in reverse is scored on the sources, and its run translates the other way; once more is no error."""
    names = ["best preset 1", "German to English 1"]
    weights = initial_weights(1, 32, 48, LAYERS, VOCABULARY)
    folder = tmp_path / "stack"
    (folder / "weights").mkdir(parents=True)
    for name in names:
        np.savez(folder / "weights" / name, **to_keras(jax.tree.map(np.float16, weights)))
    rows = [{"name": n, "updates": 5, **CANDIDATES[n]._asdict(), "validation loss": 1.23456} for n in names]
    (folder / "results.json").write_text(json.dumps(rows))
    tokenizer = load_tokenizer(text_run.tokenizer)
    encoded = [tokenizer.encode(side) for side in sides_of(tmp_path)]
    longest = max(len(ids) for side in encoded for ids in side) + 1
    ids = [padded(side, longest) for side in encoded]
    np.savez(folder / "translations.npz", **dict(zip(names, ids, strict=True)))
    for _ in range(2):
        assert table.main([str(text_run.root), str(folder)]) == 0
    lines = (folder / "table.csv").read_text().splitlines()
    assert [line.split(",")[:3] for line in lines[1:]] == [[name, "5", "1.2346"] for name in names]
    assert [float(line.split(",")[3]) for line in lines[1:]] == pytest.approx([100, 100])
    forward, reverse = (load_run(folder / "runs" / name) for name in ("best_preset_1", "german_to_english_1"))
    data = reverse.config.data
    assert (data.source_language, data.target_language) == ("fr", "en")
    assert Path(data.test.source).suffix == ".fr" and Path(data.test.target).suffix == ".en"
    source, target = np.array([[5, 6, 7, EOS]]), np.array([[8, 9]])
    stored = jax.tree.map(lambda array: jnp.asarray(np.float16(array), jnp.float32), weights)
    memory, mask = encode(stored, source, HEADS, dtype=jnp.float32)
    expected = logits(stored, decode(stored, jnp.asarray(shift_right(target)), memory, mask, HEADS))
    for run in (forward, reverse):
        found = run.model(source, np.asarray(shift_right(target)), training=False)
        np.testing.assert_allclose(np.asarray(found), expected, atol=1e-4)
