"""What every contestant of decoding is given: a run, the source sentences, how they are searched, and the device."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from qkv.run.trained_run import TrainedRun, load_run
from qkv.text.lines.text_file import read_lines


def leave_gpu(settings: Mapping[str, Any]) -> None:
    """Hides the GPU from TensorFlow, which reads the run, where another program translates on it."""
    if settings.get("device") == "cuda":
        import tensorflow as tf

        tf.config.set_visible_devices([], "GPU")


def load(settings: Mapping[str, Any]) -> tuple[TrainedRun, list[str]]:
    """The run, and the sentences."""
    return load_run(Path(settings["run"])), list(read_lines(Path(settings["source"])))


def write(settings: Mapping[str, Any], translations: list[str]) -> None:
    """Leaves the translations for the comparison, if that is asked for."""
    if settings.get("output"):
        Path(settings["output"]).write_text(json.dumps(translations), encoding="utf-8")
