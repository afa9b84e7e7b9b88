"""docs/use/archive.md: its tables are those of the format, and its recipes give what a model says."""

import json
import re
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from qkv.config.choices.inspection import SITES
from qkv.config.choices.text import WORD_MARKS
from qkv.inspection import AttentionArchive
from qkv.inspection.archive import METADATA, OPTIONAL
from tests.support import ROOT
from tests.support.documents import ARCHIVE, recipe
from tests.support.oracles import softmax

KEPT = ROOT / "tests" / "kept_archives"


def keys_of_table(after):
    """The names in the first column of the table that follows a line."""
    table = ARCHIVE.read_text(encoding="utf-8").split(after)[1].split("\n\n")[1]
    rows = [row.split("|")[1] for row in table.splitlines()[2:]]
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row)]


def test_the_page_lists_every_key_of_the_format():
    assert sorted(keys_of_table("Keys of a line of")) == sorted(["shard", *METADATA, *OPTIONAL])
    manifest = json.loads((KEPT / "t5" / "manifest.json").read_text(encoding="utf-8"))
    assert sorted(keys_of_table("Keys of `manifest.json`")) == sorted(manifest)
    files = keys_of_table("## The format, version 1")
    assert {path.name for path in (KEPT / "t5").iterdir()} == set(files)


def test_the_page_lists_every_way_to_mark_words():
    assert keys_of_table("without them the marks in the tokens' spelling tell:") == [*WORD_MARKS]
    text = ARCHIVE.read_text(encoding="utf-8")
    for meaning in WORD_MARKS.values():
        mark, rest = meaning.split(" ", 1)
        assert f"| {meaning}" in text or f"| `{mark}` {rest}".replace("\u0120", "Ġ") in text, meaning


def test_the_page_names_every_site():
    text = ARCHIVE.read_text(encoding="utf-8").split("A shard holds")[1].split("## ")[0]
    assert set(SITES) <= set(re.findall(r"`(\w+)`", text))


class Replayed:
    """A tensor of PyTorch as far as the recipe uses it."""

    def __init__(self, array):
        self.array = np.asarray(array)

    def __getitem__(self, place):
        return Replayed(self.array[place])

    def tolist(self):
        return self.array.tolist()

    def numpy(self):
        return self.array

    def log_softmax(self, axis):
        return self

    def gather(self, axis, ids):
        return Replayed(np.take_along_axis(self.array, ids.array, axis))


class Replay:
    """A Hugging Face model and tokenizer that say again what a kept archive holds."""

    def __init__(self, archive, special):
        self.records = {(record.source, record.hypothesis): record for record in archive}
        tokens = {token for record in archive for token in (*record.source_tokens, *record.target_output_tokens)}
        self.tokens = sorted(tokens | {record.target_input_tokens[0] for record in archive})
        self.config = SimpleNamespace(decoder_start_token_id=self.tokens.index(archive[0].target_input_tokens[0]))
        self.all_special_tokens, self.unk_token = special, "<unk>"

    def __call__(self, source=None, text_target=None, *, output_attentions=False, **others):
        if output_attentions:
            return self.attend()
        self.asked = record = self.records[source, text_target]
        ids = (record.source_tokens, record.target_output_tokens)
        return dict(
            zip(("input_ids", "labels"), (Replayed([[self.tokens.index(t) for t in one]]) for one in ids), strict=True)
        )

    def attend(self):
        logits = np.full((1, len(self.asked.target_output_tokens), len(self.tokens)), -99.0)
        for row, token in enumerate(self.asked.target_output_tokens):
            logits[0, row, self.tokens.index(token)] = self.asked.token_log_probabilities[row]
        return SimpleNamespace(logits=Replayed(logits), cross_attentions=self.asked.attention["cross"][:, None])

    def convert_ids_to_tokens(self, ids):
        return [self.tokens[i] for i in ids] if isinstance(ids, list) else self.tokens[ids]


@pytest.mark.parametrize("name", ["bart", "marian", "t5"])
def test_the_recipe_of_hugging_face_writes_the_kept_archive_again(name, tmp_path, monkeypatch):
    """With the outputs of a model replayed; `tests/kept_archives/keep.py --check` runs it with the models."""
    kept = AttentionArchive(KEPT / name)
    replay = Replay(kept, ["<pad>", "<s>", "</s>", "<unk>"])
    torch = SimpleNamespace(no_grad=nullcontext, cat=lambda layers: Replayed(np.concatenate(list(layers))))
    monkeypatch.setitem(sys.modules, "torch", torch)
    names = {
        "model": replay,
        "tokenizer": replay,
        "pairs": [*replay.records],
        "folder": tmp_path / name,
        "marks": "byte_level" if name == "bart" else "sentencepiece",
        "gold": KEPT / name / "gold.pharaoh",
    }
    exec(recipe("import torch"), names)
    for path in (KEPT / name).iterdir():
        assert (tmp_path / name / path.name).read_bytes() == path.read_bytes(), path.name


def test_the_recipe_of_keras_stores_what_the_layer_returns(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(recipe("import keras"), names)
    archive = AttentionArchive("attention_of_keras")
    assert archive.manifest["sites"] == {"cross": [1, 2]} and len(archive) == 2
    for record, scores in zip(archive, names["weights"], strict=True):
        np.testing.assert_array_equal(record.attention["cross"], scores)
    assert archive[0].target_words == [0, 1, 2, 3, None]


def test_the_recipe_of_transformer_lens_takes_the_rows_that_predict_the_target(tmp_path):
    tokens, source_length, layer_count = ["<|endoftext|>", "The", " cat", ":", " Le", " chat"], 4, 2
    generator = np.random.default_rng(0)
    patterns = softmax(generator.normal(size=(layer_count, 1, 3, 6, 6)), np.tri(6) > 0).astype("float32")
    cache = {f"blocks.{layer}.attn.hook_pattern": patterns[layer] for layer in range(layer_count)}
    names = {"tokens": tokens, "source_length": source_length, "layer_count": layer_count, "cache": cache}
    exec(recipe("hook_pattern"), names | {"folder": tmp_path / "a"})
    record = AttentionArchive(tmp_path / "a")[0]
    assert record.source_tokens == tokens[:4] and record.target_output_tokens == [" Le", " chat"]
    assert record.target_input_tokens == [":", " Le"]
    assert record.attention["cross"].shape == (2, 3, 2, 4)
    for layer, head, row in np.ndindex(2, 3, 2):
        predicting = cache[f"blocks.{layer}.attn.hook_pattern"][0, head, 3 + row]
        np.testing.assert_array_equal(record.attention["cross"][layer, head, row], predicting[:4])
    assert (record.attention["cross"][:, :, 1].sum(-1) < 1).all()


def test_recipes_are_short():
    for word in ("import torch", "import keras", "hook_pattern"):
        assert len(recipe(word).strip().splitlines()) <= 20
