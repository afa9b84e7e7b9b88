"""Formats of other programs."""

from typing import NamedTuple


class ExportFormat(NamedTuple):
    """A format in which a run can be exported.

    - meaning: what it is.
    - packages: those that load it.
    """

    meaning: str
    packages: tuple[str, ...]


EXPORT_FORMATS = {
    "saved_model": ExportFormat(
        "TensorFlow's SavedModel, strings in and out, also for TensorFlow Serving", ("tensorflow", "tensorflow-text")
    ),
    "ctranslate2": ExportFormat("CTranslate2, which needs the package ctranslate2", ("ctranslate2",)),
    "marian": ExportFormat("a MarianMTModel of Hugging Face with its tokenizer", ("transformers", "torch")),
}

QUANTIZATIONS = ("float32", "bfloat16", "float16", "int16", "int8")
"""The number formats of CTranslate2's weights."""
