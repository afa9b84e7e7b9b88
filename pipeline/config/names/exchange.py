"""Formats of other programs."""

EXPORT_FORMATS = {
    "saved_model": "TensorFlow's SavedModel, strings in and out, for TensorFlow Serving",
    "ctranslate2": "CTranslate2, which needs the package ctranslate2",
    "marian": "a Marian model of Hugging Face",
}

QUANTIZATIONS = ("float32", "bfloat16", "float16", "int16", "int8")
"""The number formats of CTranslate2's weights."""
