"""A run written for another program: `EXPORT_FORMATS`, each checked against the run."""

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..config import RunConfig
from ..errors import InputError, did_you_mean
from ..files.json import write_json
from ..files.paths import sha256
from ..version import installed_versions

if TYPE_CHECKING:
    from ..run.trained_run import TrainedRun

CHECKED_SENTENCES = 100
log = logging.getLogger(__name__)


class ExportRequest(NamedTuple):
    """The request of an export.

    - format: a key of `EXPORT_FORMATS`.
    - quantization: one of `QUANTIZATIONS`, for ctranslate2; None for float32.
    - at: the place where the links of saved_model are read, as `LAYER,HEAD,SIDE`; None to choose it.
    - sentences: how many sentences of the validation set it is checked on.
    """

    format: str
    quantization: str | None = None
    at: str | None = None
    sentences: int = CHECKED_SENTENCES

    def check(self, config: RunConfig, root: Path, folder: Path) -> None:
        """Raises an `InputError` if the run in `root` cannot be exported so to `folder`, searched as `config` says."""
        if self.format not in EXPORT_FORMATS:
            names = [*EXPORT_FORMATS]
            hint = did_you_mean(self.format, names)
            raise InputError(f"format: expected one of {', '.join(names)}, found {self.format!r:.60}{hint}")
        for option, of in (("quantization", "ctranslate2"), ("at", "saved_model")):
            if getattr(self, option) is not None and self.format != of:
                raise InputError(f"--{option}: no effect with --format {self.format}; leave it out")
        if self.quantization not in (None, *QUANTIZATIONS):
            expected = ", ".join(QUANTIZATIONS)
            raise InputError(f"quantization: expected one of {expected}, found {self.quantization!r:.60}")
        if config.tokenizer.kind == "given":
            raise InputError(f"{root}: an imported run; export the model from where it was imported")
        if config.decoding.tag is not None and self.format != "ctranslate2":
            raise InputError(
                f"decoding.tag: {self.format} puts none before sentences; expected --tag null, or --format ctranslate2"
            )
        if self.format == "saved_model" and set(folder.as_posix()) & set("*?[\\"):
            raise InputError(f"{folder}: TensorFlow loads no SavedModel from a path with *, ?, [ or \\; choose another")


def write_export(run: "TrainedRun", folder: Path, request: ExportRequest) -> None:
    """Writes a run into a folder, checks what it has written, and writes `manifest.json`.

    Raises:
        InputError: the format cannot follow a setting, needs a package that is not here, or gives other translations.
    """
    from .parity import check_parity, read_check_sentences

    manifest: dict[str, Any] = {
        "format": request.format,
        "run": run.config.run.name,
        "weights": run.weights.name,
        "weights_sha256": sha256(run.weights),
        "tokenizer_sha256": sha256(run.directory.tokenizer),
        "languages": [run.config.data.source_language, run.config.data.target_language],
        "versions": installed_versions(EXPORT_FORMATS[request.format].packages),
        "decoding": run.config.decoding.model_dump(),
        "max_positions": run.config.model.max_positions,
    }
    exported = EXPORT_FORMATS[request.format].write(run, folder, request, manifest)
    sentences = read_check_sentences(run, request.sentences) if request.sentences else []
    manifest["checked"] = bool(sentences) and exported is not None
    if manifest["checked"]:
        exact = request.quantization in (None, "float32")
        manifest["check"] = check_parity(run, exported, sentences, exact)
    write_json(folder / "manifest.json", manifest)


def _write_saved_model(run: "TrainedRun", folder: Path, request: "ExportRequest", manifest: dict[str, Any]) -> Any:
    from ..text.tokens.subword_models import has_tensorflow_text

    if not has_tensorflow_text():
        raise InputError(
            "this format needs the package tensorflow-text, in the version of TensorFlow; install it where it has "
            "a wheel, which Windows has not, or choose another --format"
        )
    from ..alignment.readout_selection import find_readout, last_layer_readout
    from .saved_model import LoadedSavedModel, SavedTranslator, write_saved_model

    readout = find_readout(run, request.at) or (
        last_layer_readout(run) if run.config.model.has_cross_attention else None
    )
    if readout and not request.at:  # what the gold alignments choose may need more than one row of weights
        readout = replace(readout, site="cross", extraction="target", likely=False)
    write_saved_model(SavedTranslator(run, readout), folder)
    manifest["links"] = readout and readout.to_json()
    return LoadedSavedModel(folder)


def _write_ctranslate2(run: "TrainedRun", folder: Path, request: "ExportRequest", manifest: dict[str, Any]) -> Any:
    from .ctranslate2_model import LoadedCTranslate2, write_ctranslate2

    manifest["quantization"] = request.quantization or "float32"
    write_ctranslate2(run, folder, manifest["quantization"])
    return LoadedCTranslate2(folder, run)


def _write_marian(run: "TrainedRun", folder: Path, request: "ExportRequest", manifest: dict[str, Any]) -> Any:
    from .marian_export import LoadedMarian, write_marian

    write_marian(run, folder)
    try:
        return LoadedMarian(folder)
    except ImportError:
        log.warning("not checked: that needs torch and transformers")
        return None


class ExportFormat(NamedTuple):
    """A format in which a run can be exported.

    - meaning: what it is.
    - packages: those that load it.
    - write: writes the model into a folder, and what it was told into the manifest; returns the model as the other
      program loads it, or None where that is not there.
    """

    meaning: str
    packages: tuple[str, ...]
    write: Callable[["TrainedRun", Path, "ExportRequest", dict[str, Any]], Any]


EXPORT_FORMATS = {
    "saved_model": ExportFormat(
        "TensorFlow's SavedModel, strings in and out, also for TensorFlow Serving",
        ("tensorflow", "tensorflow-text"),
        _write_saved_model,
    ),
    "ctranslate2": ExportFormat(
        "CTranslate2, which needs the package ctranslate2", ("ctranslate2",), _write_ctranslate2
    ),
    "marian": ExportFormat(
        "a MarianMTModel of Hugging Face with its tokenizer", ("transformers", "torch"), _write_marian
    ),
}
QUANTIZATIONS = ("float32", "bfloat16", "float16", "int16", "int8")
"""The number formats of CTranslate2's weights."""

BEAM = {"search": "beam", "temperature": "1.0", "top_k": "0", "top_p": "1.0"}
"""What every other program searches with, whatever the run samples with."""
