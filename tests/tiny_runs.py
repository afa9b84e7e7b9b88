"""Runs that train in seconds: `configs/tiny.yaml` made smaller still, on the first lines of the demo corpus."""

from pathlib import Path
from typing import Any

from qkv.config import RunConfig
from qkv.config.run import make_run_config
from qkv.config.yaml import read_yaml

ROOT = Path(__file__).parents[1]
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
