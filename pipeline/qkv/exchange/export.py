"""Exports a run to the format of another program, and checks the exported model against the run."""

import logging
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..config import RunConfig
from ..errors import InputError, did_you_mean
from ..files.atomic import write_atomically
from ..files.json import write_json
from ..files.paths import sha256
from ..files.run_directory import RunDirectory
from ..version import installed_versions

if TYPE_CHECKING:
    from ..run.trained_run import TrainedRun

CHECKED_SENTENCES = 100
"""The default number of sentences on which an export is checked."""

log = logging.getLogger(__name__)


class ExportRequest(NamedTuple):
    """A request to export a run.

    - format: a key of `EXPORT_FORMATS`.
    - quantization: with ctranslate2 and argos, one of `QUANTIZATIONS`; None for float32.
    - at: with saved_model, the attention from which `align` reads links, as `LAYER,HEAD,SIDE`. If it is None, links are
      read at the layer, head and side of the run's readout. If the run has no readout, they are read from the mean of
      the last layer's heads.
    - sentences: the number of sentences of the validation set on which the export is checked; 0 for no check.
    """

    format: str
    quantization: str | None = None
    at: str | None = None
    sentences: int = CHECKED_SENTENCES

    def check(self, config: RunConfig, root: Path, folder: Path) -> None:
        """Checks that the request is consistent, and that its format can hold the run.

        Args:
            config: the settings of the run, with the decoding settings of the export.
            root: the run's folder.
            folder: the folder to write.

        Raises:
            InputError: the request names an unknown format or quantization, has an option of another format, or the
                format cannot export this run to this folder.
        """
        if self.format not in EXPORT_FORMATS:
            names = [*EXPORT_FORMATS]
            hint = did_you_mean(self.format, names)
            raise InputError(f"format: expected one of {', '.join(names)}, found {self.format!r:.60}{hint}")
        for option, formats in (("quantization", ("ctranslate2", "argos")), ("at", ("saved_model",))):
            if getattr(self, option) is not None and self.format not in formats:
                raise InputError(f"--{option}: it has no effect with --format {self.format}; leave it out")
        if self.quantization not in (None, *QUANTIZATIONS):
            expected = ", ".join(QUANTIZATIONS)
            raise InputError(f"quantization: expected one of {expected}, found {self.quantization!r:.60}")
        if self.format in ("saved_model", "argos") and RunDirectory(root).has_imported_tokenizer:
            raise InputError(
                f"{root}: {self.format} does not support the tokenizer of an imported run; expected --format "
                "ctranslate2 or --format marian"
            )
        if config.decoding.tag is not None and self.format not in ("ctranslate2", "argos"):
            raise InputError(
                f"decoding.tag: {self.format} cannot put a tag before sentences; expected --tag null, or "
                "--format ctranslate2 or --format argos"
            )
        if self.format == "argos":
            _check_text_for_argos(config)
        if self.format == "saved_model" and set(folder.as_posix()) & set("*?[\\"):
            raise InputError(
                f"{folder}: TensorFlow cannot load a SavedModel from a path with *, ?, [ or \\; choose another folder"
            )


def _check_text_for_argos(config: RunConfig) -> None:
    """Checks that Argos Translate can read text as the run does.

    Raises:
        InputError: the training text was divided into words, the run changes the capitals of text that people type, or
            a language has no code that can name a package.
    """
    data = config.data
    if data.tokenized:
        raise InputError(
            "data.tokenized: argos translates text as people write it, and cannot divide it into words first; expected "
            "a run that was trained on plain text with tokenized: false, such as one of configs/own.yaml, or --format "
            "ctranslate2"
        )
    if data.normalize is not None and data.normalize.lowercase:
        raise InputError(
            "data.normalize.lowercase: argos cannot change the capitals of a text; expected false: train on text with "
            "capitals, or set it in the run's config.yaml if lower-case text alone is to be translated"
        )
    for key in ("source_language", "target_language"):
        code = getattr(data, key)
        if not re.fullmatch("[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*", code):
            raise InputError(
                f"data.{key}: argos needs the code of a language, such as en or pt-BR, found {code!r:.60}; train with "
                "such a code, or choose --format ctranslate2"
            )


def write_export(run: "TrainedRun", folder: Path, request: ExportRequest) -> None:
    """Writes a run in the format of another program, checks the exported model, and writes `manifest.json`.

    A model card, `README.md`, describes the run; see `exchange.model_card`. The check compares translations and
    log-probabilities with the run's, see `exchange.parity.check_parity`.

    Args:
        run: the run, with the decoding settings of the export.
        folder: an empty folder.
        request: a request that has passed its `check`.

    Raises:
        InputError: the format does not support a setting of the model, a package that it needs is not installed, `at`
            names no layer or head of the model, the run has no validation set for the check, or the log-probabilities
            of the exported model differ from the run's.
    """
    from .model_card import write_model_card
    from .parity import check_parity, read_check_sentences

    manifest: dict[str, Any] = {
        "format": request.format,
        "run": run.config.run.name,
        "weights": Path(run.weights_name).name,
        "weights_sha256": run.weights_sha256(),
        "tokenizer_sha256": sha256(run.directory.tokenizer),
        "languages": [run.config.data.source_language, run.config.data.target_language],
        "versions": installed_versions(EXPORT_FORMATS[request.format].packages),
        "decoding": run.config.decoding.model_dump(),
        "max_positions": run.config.model.max_positions,
    }
    write_atomically(folder / "README.md", write_model_card(run, request.format).encode())
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
            "this format needs the package tensorflow-text, in the version of TensorFlow; install it (there is no "
            "wheel for Windows), or choose another --format"
        )
    from ..alignment.readout_selection import find_readout, last_layer_readout
    from .saved_model import LoadedSavedModel, SavedTranslator, write_saved_model

    readout = find_readout(run, request.at) or (
        last_layer_readout(run) if run.config.model.has_cross_attention else None
    )
    if readout and not request.at:  # the run's readout may need more than one row of weights; `align` reads one
        readout = replace(readout, site="cross", extraction="target", likely=False)
    write_saved_model(SavedTranslator(run, readout), folder)
    manifest["links"] = readout and readout.to_json()
    return LoadedSavedModel(folder)


def _write_ctranslate2(run: "TrainedRun", folder: Path, request: "ExportRequest", manifest: dict[str, Any]) -> Any:
    from .ctranslate2_model import LoadedCTranslate2, write_ctranslate2

    manifest["quantization"] = request.quantization or "float32"
    write_ctranslate2(run, folder, manifest["quantization"])
    return LoadedCTranslate2(folder, run)


def _write_argos(run: "TrainedRun", folder: Path, request: "ExportRequest", manifest: dict[str, Any]) -> Any:
    from .argos_package import LoadedArgos, write_argos

    manifest["quantization"] = request.quantization or "float32"
    package = write_argos(run, folder, manifest["quantization"])
    manifest["package"] = package.name
    return LoadedArgos(package)


def _write_marian(run: "TrainedRun", folder: Path, request: "ExportRequest", manifest: dict[str, Any]) -> Any:
    from .marian_export import LoadedMarian, write_marian

    write_marian(run, folder)
    try:
        return LoadedMarian(folder)
    except ImportError:
        log.warning("the export was not checked: the check needs the packages torch and transformers")
        return None


class ExportFormat(NamedTuple):
    """A format to which a run can be exported.

    - meaning: a description, for help texts.
    - packages: the Python packages that load the format.
    - write: a function with the arguments run, folder, `ExportRequest` and manifest. It writes the model into the
      folder and adds its options to the manifest. Then it returns the model as loaded by the other program, an
      `exchange.parity.ExportedModel`; or None if the other program is not installed.
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
    "argos": ExportFormat(
        "a package for Argos Translate and LibreTranslate; needs the package ctranslate2",
        ("ctranslate2",),
        _write_argos,
    ),
}
QUANTIZATIONS = ("float32", "bfloat16", "float16", "int16", "int8")
"""The number formats of CTranslate2's weights."""

BEAM = {"search": "beam", "temperature": "1.0", "top_k": "0", "top_p": "1.0"}
"""The decoding settings of every export: the other programs search with a beam, and do not sample."""
