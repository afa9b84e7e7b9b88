"""Settings: those of runs that train in seconds (`configs/tiny.yaml` made smaller still, on the first lines of the demo
corpus), and config files."""

from pathlib import Path
from typing import Any

import pytest

from qkv.commands.train import parse_train_arguments
from qkv.config import RunConfig
from qkv.config.run import dump, make_run_config
from qkv.config.yaml import read_yaml
from qkv.errors import InputError
from tests.support import ROOT

PAIRS = {"train": 120, "validation": 10, "test": 10}
SMALLER = {
    "tokenizer.vocabulary_size": 90,
    "data.max_source_tokens": 60,
    "data.max_target_tokens": 60,
    "batches.batch_tokens": 1200,
    "batches.length_multiple": 16,
    "model.d_model": 8,
    "model.d_ff": 8,
    "model.encoder_layers": 1,
    "model.max_positions": 64,
    "training.max_updates": 6,
    "training.warmup_updates": 2,
    "training.validate_every_updates": 3,
    "training.log_every_updates": 1,
    "decoding.max_target_extra": 4,
    "decoding.max_target_ratio": 0.2,
    "inspection.probes": [],
}


def write_small_corpus(folder: Path) -> Path:
    """Writes the first lines of the demo corpus, gold alignments too, and says where they are."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, pairs in PAIRS.items():
        for suffix in ("en", "fr", "align"):
            lines = (ROOT / "data" / "demo" / f"{name}.{suffix}").read_text(encoding="utf-8").split("\n")
            (folder / f"{name}.{suffix}").write_text("\n".join(lines[:pairs]) + "\n", encoding="utf-8")
    return folder


def small_settings(corpus: Path, runs: Path, changes: dict[str, Any] | None = None) -> dict[str, Any]:
    """The sections of a config; `changes` are values of dotted keys."""
    values, _ = read_yaml(ROOT / "configs" / "tiny.yaml")
    files = {
        f"data.{name}.{key}": str(corpus / f"{name}.{suffix}")
        for name in PAIRS
        for key, suffix in (("source", "en"), ("target", "fr"), ("alignments", "align"))
    }
    for key, value in (files | SMALLER | {"run.directory": str(runs)} | (changes or {})).items():
        *sections, name = key.split(".")
        section = values
        for part in sections:
            section = section.setdefault(part, {})
        section[name] = value
    return values


def small_config(corpus: Path, runs: Path, name: str, changes: dict[str, Any] | None = None) -> RunConfig:
    """The settings of a run named `name` in the folder `runs`."""
    return make_run_config(small_settings(corpus, runs, changes), {}, default_name=name)


def write_stub(folder: Path, name: str, tokenizer: bytes = b"one", **changes: Any) -> Path:
    """Makes the folder of a run with weights that nobody reads; keys of `changes` have `__` for the dot."""
    root = folder / name
    (root / "tokenizer").mkdir(parents=True)
    dotted = {key.replace("__", "."): value for key, value in changes.items()}
    (root / "config.yaml").write_text(dump(small_config(folder, folder, name, dotted)), encoding="utf-8")
    (root / "tokenizer/sentencepiece.model").write_bytes(tokenizer)
    (root / "model.keras").touch()
    return root


MINIMAL = """\
data:
  source_language: en
  target_language: fr
  train: {source: train.en, target: train.fr}
  validation: {source: validation.en, target: validation.fr}
training:
  max_updates: 20
"""


def parsed(path: Path, *overrides: str) -> RunConfig:
    return parse_train_arguments(["--config", str(path), *overrides]).config


def problem(path: Path, *overrides: str, text: str | None = None) -> str:
    """What a person is told about a command line, and about `text` where it is the config file's."""
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError) as caught:
        parsed(path, *overrides)
    return str(caught.value).replace(str(path), path.name)


# Of a run with something to see; keep_checkpoints is large, so that runs can be compared in the middle too.
LIVELY = {
    "training.max_updates": 8,
    "training.keep_checkpoints": 9,
    "training.early_stopping.metric": "loss",
    "inspection.probes": [
        {"source": "Jane visits Africa .", "reference": "Jane visite l'Afrique ."},
        {"source": "a * star | and [brackets]"},
    ],
}


def held_out_config(corpus, folder, **sets):
    """The settings of a small run whose sets are held out from its training files."""
    values = small_settings(corpus, folder)
    sets = sets or {"validation": {"share": 0.1}, "test": {"pairs": 7}}
    return make_run_config(values | {"data": values["data"] | sets}, {}, default_name="run")


def lines_of(path):
    return path.read_text(encoding="utf-8").splitlines()


OF_EVERY = {"max_positions": 64, "dropout": 0.1}
RECURRENT = OF_EVERY | {"architecture": "recurrent", "embedding_dim": 8, "hidden_dim": 8, "attention_dim": 8}
# The section `model` of a run of each.
ARCHITECTURES = {
    "recurrent": RECURRENT | {"cross_attention": "dot", "decoder": "luong", "input_feeding": True},
    "context_vector": RECURRENT | {"cross_attention": "none"},
    "decoder_only": OF_EVERY
    | {"architecture": "decoder_only", "d_model": 8, "num_heads": 2, "d_ff": 8, "layers": 2, "source_loss": 0.2},
    "hashed": OF_EVERY
    | {
        "d_model": 8,
        "num_heads": 2,
        "d_ff": 8,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "positions_on": "queries_and_keys",
        "attention": {
            "encoder_self": {"mechanism": "lsh", "buckets": 2, "chunk_length": 4, "rounds": 2},
            "decoder_self": {"mechanism": "blockwise", "block_size": 4},
            "cross": {"mechanism": "one_hot", "score": "cosine"},
        },
    },
}
