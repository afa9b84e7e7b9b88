"""Reads the config of a run that was started, by this version or an earlier one."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..files.run_directory import refuse_newer
from .corpus import CorpusSettings
from .corpus_list import ListedCorpusSettings
from .names import bleu_tokenizer_of
from .renamed import replaced
from .run import RunConfig, make_run_config
from .yaml import Origins, read_yaml


def load_started_run(path: Path) -> RunConfig:
    """Reads the settings of a run from the `config.yaml` in its folder.

    Raises:
        InputError: the file is missing or is not a valid config.
    """
    values, origins = read_started_run(path)
    return make_run_config(values, origins, default_name=path.parent.name)


def read_started_run(path: Path) -> tuple[dict[str, Any], Origins]:
    """Reads the keys and values of a run's config; a key that its version did not have gets the value by which that
    version worked.

    Raises:
        InputError: the file cannot be read, or was written by a newer version.
    """
    refuse_newer(path)
    values, origins = read_yaml(path)
    data = values.get("data")
    if isinstance(data, Mapping) and "bleu_tokenizer" not in data and data.get("tokenized") is not True:
        before = "13a"  # whatever the language
        if bleu_tokenizer_of(str(data.get("target_language"))) != before:
            values = replaced(values, ["data", "bleu_tokenizer"], before)
    return values, origins


def settings_of_set(config: RunConfig, name: str, path: Path) -> CorpusSettings | Sequence[ListedCorpusSettings]:
    """Returns the settings of the `train`, `validation` or `test` set of a run; those of `train` may be several.

    Raises:
        InputError: the config, which was read from `path`, has no such set.
    """
    settings = getattr(config.data, name)
    if settings is None:
        raise InputError(f"{path}: data.{name} is null; give your own text with --source")
    return settings
