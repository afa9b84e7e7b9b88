"""Config files to test with, and what people are told about them."""

from pathlib import Path

import pytest

from qkv.commands.train import parse_train_arguments
from qkv.config import RunConfig
from qkv.errors import InputError

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
