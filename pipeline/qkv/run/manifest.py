"""The manifest of a run: its origin, the digests of its files, and a golden output that checks a loaded model."""

import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
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
LOGITS = 8
"""The number of logits in a golden output."""
GOLDEN_TOLERANCE = 1e-2
"""The largest difference of a golden output, relative to its largest logit if that is above 1. Another processor or
number format changes logits by less; other weights change them by whole units."""


def write_manifest(
    config: RunConfig, run: RunDirectory, model: keras.Model, tokenizer: Tokenizer, origin: Mapping[str, Any]
) -> None:
    """Writes `manifest.json`: versions, commit, seed, command line, SHA-256 of the files, and a golden output.

    Args:
        config: the settings of the run.
        run: the folder of the run, whose model and tokenizer are written already.
        model: the model of the run.
        tokenizer: the tokenizer of the run.
        origin: further entries, values for JSON by key: the origin of the weights, and their score on validation.
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
    """Returns the golden output of a model: a few logits for fixed ids. They change if the weights change."""
    ids = 4 + np.arange(5)[None] % (vocabulary_size - 4)
    target = np.array([[BOS, 4, 5]])
    logits = keras.ops.convert_to_numpy(model(ids.astype("int32"), target.astype("int32"), training=False))
    return [float(value) for value in logits[0, -1, :LOGITS]]


def check_golden(run: RunDirectory, model: keras.Model, vocabulary_size: int) -> None:
    """Compares the golden output of a loaded model with the one in the run's manifest.

    Args:
        run: the folder of the run.
        model: the loaded model.
        vocabulary_size: the vocabulary size of the model.

    Raises:
        InputError: the manifest is missing or damaged, or the two outputs differ by more than rounding.
    """
    manifest = read_json_if_whole(run.manifest)
    try:
        expected = np.array(manifest["golden_logits"], float).reshape(LOGITS)
        tolerance = _tolerance(expected, manifest["precision"])
    except (ValueError, KeyError, TypeError):
        raise _manifest_error(run) from None
    logits = golden_logits(model, vocabulary_size)
    if not np.allclose(logits, expected, atol=tolerance):
        raise InputError(
            f"{run.model}: the model gives other numbers than when it was saved (expected {expected[0]:.4f}, "
            f"found {logits[0]:.4f}); the file or the config was changed: restore them, or train again"
        )


def same_logits(expected: Sequence[float], logits: Sequence[float], precision: str) -> bool:
    """Returns whether two golden outputs differ by no more than rounding.

    Args:
        expected, logits: the two outputs.
        precision: the name of the dtype policy in which `expected` was computed.
    """
    return np.allclose(logits, expected, atol=_tolerance(np.array(expected), precision))


def _tolerance(expected: np.ndarray, precision: str) -> float:
    """Returns the largest difference from a golden output that was computed in a dtype policy of this name."""
    return GOLDEN_TOLERANCE * max(1.0, float(np.abs(expected).max())) * (10 if "bfloat16" in precision else 1)


def check_digests(run: RunDirectory, *names: str) -> None:
    """Compares files of a run with the SHA-256 that they had when training ended.

    Args:
        run: the folder of the run.
        names: the files to compare: `model`, `tokenizer` or both.

    Raises:
        InputError: the manifest is missing or damaged, or a file has another SHA-256.
    """
    manifest = read_json_if_whole(run.manifest)
    for name in names:
        path: Path = getattr(run, name)
        recorded = manifest.get(f"{name}_sha256")
        if not isinstance(recorded, str):
            raise _manifest_error(run)
        if recorded != sha256(path):
            raise InputError(
                f"{path}: not the file that training wrote: its SHA-256 is not the {name}_sha256 of "
                f"{run.manifest.name}; restore the file of this run, or train again"
            )


def _manifest_error(run: RunDirectory) -> InputError:
    """Returns the error of a manifest that is missing or damaged."""
    return InputError(
        f"{run.manifest}: missing or damaged; delete the file if it exists, and let this command write it again: "
        f"{invocation('train', '--resume', run.root)}"
    )


def _git_commit() -> Any:
    """Returns the commit of this repository as text; None without git or outside a repository."""
    try:
        folder = Path(__file__).parent
        output = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False, cwd=folder)
    except OSError:
        return None
    return output.stdout.strip() or None


def archive_manifest(run: Any) -> dict[str, Any]:
    """Returns the entries about a run in the manifest of an attention archive, values for JSON by key.

    - run: the name of the run.
    - signed: the sites whose weights may be negative or do not sum to 1; missing if there are none.
    - versions, git_commit, model_sha256, tokenizer_sha256: copied from the manifest of the run; missing if the run has
      no manifest. If the weights were changed in memory, `model_sha256` is their digest.

    Args:
        run: a `TrainedRun`.
    """
    facts: dict[str, Any] = {"run": run.directory.root.name}
    attention = getattr(run.config.model, "attention", None)
    signed = []
    for name, site in SITES.items():
        settings = getattr(attention, site.weighed_at, None) if site.weighed_at else None
        if settings and not MECHANISM_INFO[settings.mechanism].gives_shares:
            signed.append(name)
    if signed:
        facts["signed"] = signed
    manifest = read_json_if_whole(run.directory.manifest)  # empty during training
    names = ("versions", "git_commit", "model_sha256", "tokenizer_sha256")
    facts |= {name: manifest.get(name) for name in names if manifest}
    return facts | ({"model_sha256": run.weights_sha256()} if run.is_changed else {})
