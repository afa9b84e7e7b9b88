"""Exports a run for other programs: `qkv export RUN FOLDER --format saved_model`."""

import argparse
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..config.names import describe
from ..config.run import load_started_run, with_decoding
from ..errors import InputError
from ..files.atomic import new_folder
from ..files.json import write_json
from ..files.paths import sha256
from ..runtime.import_tensorflow import importing_tensorflow
from ..version import installed_versions
from .cli import (
    ArgumentParser,
    add_checkpoint_option,
    add_decoding_options,
    add_run_argument,
    exit_cleanly,
    folder_to_write,
    log_to_output,
    whole_number,
)

if TYPE_CHECKING:
    from ..run.trained_run import TrainedRun

CHECKED_SENTENCES = 100
log = logging.getLogger(__name__)


def _write_saved_model(run: "TrainedRun", folder: Path, options: argparse.Namespace, manifest: dict[str, Any]) -> Any:
    from ..text.tokens.subword_models import has_tensorflow_text

    if not has_tensorflow_text():
        raise InputError(
            "this format needs the package tensorflow-text, in the version of TensorFlow; install it where it has "
            "a wheel, which Windows has not, or choose another --format"
        )
    from ..alignment.readout_choice import find_readout, last_layer
    from ..exchange.saved_model import LoadedSavedModel, SavedTranslator, write_saved_model

    readout = find_readout(run, options.at) or last_layer(run)
    if not options.at:  # what the gold alignments choose may need more than one row of weights
        readout = replace(readout, site="cross", extraction="target")
    write_saved_model(SavedTranslator(run, readout), folder)
    manifest["links"] = readout.to_json()
    return LoadedSavedModel(folder)


def _write_ctranslate2(run: "TrainedRun", folder: Path, options: argparse.Namespace, manifest: dict[str, Any]) -> Any:
    from ..exchange.ctranslate2_model import LoadedCTranslate2, write_ctranslate2

    manifest["quantization"] = options.quantization or "float32"
    write_ctranslate2(run, folder, manifest["quantization"])
    return LoadedCTranslate2(folder, run)


def _write_marian(run: "TrainedRun", folder: Path, options: argparse.Namespace, manifest: dict[str, Any]) -> Any:
    from ..exchange.marian_export import LoadedMarian, write_marian

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
    write: Callable[["TrainedRun", Path, argparse.Namespace, dict[str, Any]], Any]


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


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    parser = ArgumentParser(
        "export",
        description="Exports a trained run for another program, into a new folder. Both then translate sentences: a "
        "model that gives other log-probabilities is not written, and the folder's manifest.json says how many "
        "translations are equal. Settings that the other program cannot follow are refused by their names.",
    )
    add_run_argument(parser)
    parser.add_argument("folder", type=folder_to_write, metavar="FOLDER", help="folder to write; it must not exist yet")
    parser.add_argument(
        "--format", choices=EXPORT_FORMATS, required=True, help=f"write this format. {describe(EXPORT_FORMATS)}"
    )
    add_checkpoint_option(parser)
    parser.add_argument(
        "--quantization",
        choices=QUANTIZATIONS,
        help="with ctranslate2: store the weights in this number format (default: float32)",
    )
    parser.add_argument(
        "--at",
        metavar="LAYER,HEAD,SIDE",
        help="with saved_model: read the links of its function align here, such as at 1,mean,output (default: chosen "
        "on the run's gold alignments, or else the last layer's mean)",
    )
    parser.add_argument(
        "--sentences",
        type=whole_number(0, 1_000_000),
        default=CHECKED_SENTENCES,
        metavar="NUMBER",
        help="check the export on the first NUMBER sentences of the run's validation set "
        f"(default: {CHECKED_SENTENCES}; 0: no check)",
    )
    add_decoding_options(parser, without=BEAM)
    return parser


@exit_cleanly
def main(arguments: list[str]) -> None:
    """Exports the run, checks it, writes the manifest."""
    options = make_parser().parse_args(arguments)
    for option, of in (("quantization", "ctranslate2"), ("at", "saved_model")):
        if getattr(options, option) is not None and options.format != of:
            raise InputError(f"--{option}: no effect with --format {options.format}; leave it out")
    options.run.check_weights(options.checkpoint)
    config = with_decoding(load_started_run(options.run.config), vars(options) | BEAM)
    if config.tokenizer.kind == "given":
        raise InputError(
            f"{options.run.root}: an imported run, whose tokenizer is two models and a list; export the model from "
            "where it was imported"
        )
    if config.decoding.tag is not None and options.format != "ctranslate2":
        raise InputError(
            f"decoding.tag is {config.decoding.tag!r}, and {options.format} puts no tag before sentences; expected "
            "--tag null, or --format ctranslate2, whose tokens can begin with it"
        )
    if options.format == "saved_model" and set(options.folder.as_posix()) & set("*?[\\"):
        raise InputError(
            f"{options.folder}: TensorFlow loads no SavedModel from a path with *, ?, [ or \\; choose another"
        )
    log_to_output()
    with new_folder(options.folder, "writes this folder") as folder:
        with importing_tensorflow():
            from ..exchange.parity import check_parity, read_check_sentences
            from ..run.trained_run import load_run

        run = load_run(options.run.root, options.checkpoint).with_config(config)
        manifest: dict[str, Any] = _describe(run, options)
        exported = EXPORT_FORMATS[options.format].write(run, folder, options, manifest)
        sentences = read_check_sentences(run, options.sentences) if options.sentences else []
        manifest["checked"] = bool(sentences) and exported is not None
        if manifest["checked"]:
            exact = options.quantization in (None, "float32")
            manifest["check"] = check_parity(run, exported, sentences, exact)
        write_json(folder / "manifest.json", manifest)
    log.info("%s: written for %s", options.folder, options.format)


def _describe(run: "TrainedRun", options: argparse.Namespace) -> dict[str, Any]:
    return {
        "format": options.format,
        "run": run.config.run.name,
        "weights": run.weights.name,
        "weights_sha256": sha256(run.weights),
        "tokenizer_sha256": sha256(run.directory.tokenizer),
        "languages": [run.config.data.source_language, run.config.data.target_language],
        "versions": installed_versions(EXPORT_FORMATS[options.format].packages),
        "decoding": run.config.decoding.model_dump(),
        "max_positions": run.config.model.max_positions,
    }
