"""The manifest of a run: its origin, the digests of its files, and a few outputs that check a loaded model."""

import platform
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np

from ..config import RunConfig
from ..config.choices.inspection import SITES
from ..config.choices.model import MECHANISM_INFO
from ..errors import InputError, invocation
from ..files.json import read_json_if_whole, write_json
from ..files.paths import sha256
from ..files.run_directory import RunDirectory
from ..text.tokens.special_tokens import BOS
from ..text.tokens.tokenizer import Tokenizer
from ..version import installed_versions

PACKAGES = ("tensorflow", "keras", "tensorflow-text", "sentencepiece", "numpy", "pandas", "sacrebleu")
LOGITS = 8  # how many are recorded
TOLERANCE = 1e-2  # other processors and number formats change logits by less, other weights by whole units


def write_manifest(
    config: RunConfig, run: RunDirectory, model: keras.Model, tokenizer: Tokenizer, origin: Mapping[str, Any]
) -> None:
    """Writes `manifest.json`: versions, commit, seed, command line, SHA-256 of the files, a golden output.

    Args:
        config: the settings of the run.
        run: the run, whose model and tokenizer are written already.
        model: the model.
        tokenizer: the tokenizer.
        origin: what the weights were made from, and how good they are on validation.
    """
    manifest = {
        "versions": installed_versions(PACKAGES) | {"python": platform.python_version()},
        "git_commit": _git_commit(),
        "command_line": sys.argv,
        "seed": config.run.seed,
        "precision": model.dtype_policy.name,
        "parameters": model.count_params(),
        **origin,
        "tokenizer_sha256": sha256(run.tokenizer),
        "model_sha256": sha256(run.model),
        "golden_logits": golden_logits(model, tokenizer.vocabulary_size),
    }
    write_json(run.manifest, manifest)


def golden_logits(model: keras.Model, vocabulary_size: int) -> list[float]:
    """Computes a few logits for fixed ids; they differ between any two sets of weights."""
    ids = 4 + np.arange(5)[None] % (vocabulary_size - 4)
    target = np.array([[BOS, 4, 5]])
    logits = keras.ops.convert_to_numpy(model(ids.astype("int32"), target.astype("int32"), training=False))
    return [float(value) for value in logits[0, -1, :LOGITS]]


def check_golden(run: RunDirectory, model: keras.Model, vocabulary_size: int) -> None:
    """Compares the outputs of a loaded model with those that were recorded when it was saved.

    Raises:
        InputError: the manifest is missing or damaged, or the outputs differ.
    """
    manifest = read_json_if_whole(run.manifest)
    try:
        expected = np.array(manifest["golden_logits"], float).reshape(LOGITS)
        bfloat16 = "bfloat16" in manifest["precision"]
    except (ValueError, KeyError, TypeError):
        raise _damaged(run) from None
    found = golden_logits(model, vocabulary_size)
    tolerance = TOLERANCE * max(1.0, float(np.abs(expected).max())) * (10 if bfloat16 else 1)
    if not np.allclose(found, expected, atol=tolerance):
        raise InputError(
            f"{run.model}: the model gives other numbers than when it was saved (expected {expected[0]:.4f}, "
            f"found {found[0]:.4f}); the file or the config was changed: train anew or restore them"
        )


def check_digests(run: RunDirectory, *names: str) -> None:
    """Compares files of a run, `model`, `tokenizer` or both, with the SHA-256 that they had when training ended.

    Raises:
        InputError: the manifest is missing or damaged, or a file is another.
    """
    manifest = read_json_if_whole(run.manifest)
    for name in names:
        path: Path = getattr(run, name)
        recorded = manifest.get(f"{name}_sha256")
        if not isinstance(recorded, str):
            raise _damaged(run)
        if recorded != sha256(path):
            raise InputError(
                f"{path}: not the file that training wrote: its SHA-256 is not the {name}_sha256 of "
                f"{run.manifest.name}; restore the run's own file, or train anew"
            )


def _damaged(run: RunDirectory) -> InputError:
    return InputError(
        f"{run.manifest}: missing or damaged; delete the file if it is there, then have it written again: "
        f"{invocation('train', '--resume', run.root)}"
    )


def _git_commit() -> Any:
    try:
        folder = Path(__file__).parent
        answer = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False, cwd=folder)
    except OSError:
        return None
    return answer.stdout.strip() or None


def archive_manifest(run: Any) -> dict[str, Any]:
    """Returns the facts about a `TrainedRun` that the manifest of an attention archive holds."""
    facts: dict[str, Any] = {"run": run.directory.root.name}
    attention = getattr(run.config.model, "attention", None)
    mechanisms = {name: getattr(attention, site.weighed_at, None) for name, site in SITES.items() if site.weighed_at}
    # The weights of these sites are no shares of a row, but mixed with weights of any sign.
    if signed := [name for name, at in mechanisms.items() if at and not MECHANISM_INFO[at.mechanism].gives_shares]:
        facts["signed"] = signed
    manifest = read_json_if_whole(run.directory.manifest)
    names = ("versions", "git_commit", "model_sha256", "tokenizer_sha256")
    return facts | {name: manifest.get(name) for name in names if manifest}  # a run that still trains has none
