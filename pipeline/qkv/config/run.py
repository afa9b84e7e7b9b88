"""The settings of a run: what each means, its unit, its range and its default.

`load_run_config` reads them from YAML, `qkv.config.command_line` adds overrides from the command line. Relative
paths are relative to the working directory.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from ..files.paths import name_problem
from .base import Settings
from .batches import BatchSettings
from .checks import (
    check_coverage,
    check_freeze,
    check_guided_attention,
    check_has_text,
    check_inspected_attention,
    check_measured_total,
    check_normalize,
    check_positions,
    check_tag,
    check_xla,
)
from .data import DataSettings
from .decoding import DecodingSettings
from .inspection import InspectionSettings
from .messages import validate
from .model import ModelSettings, TransformerSettings
from .renamed import rename_keys
from .tokenizer import TokenizerSettings
from .training import TrainingSettings
from .yaml import Origins, dump_yaml, read_yaml


class RunSettings(Settings):
    """The run as a whole."""

    name: str | None = Field(default=None, description="Name of the run's folder; null: the name of the config file.")
    directory: Path = Field(default=Path("runs"), description="Folder in which run folders are made.")
    seed: int = Field(default=1, ge=0, lt=2**31, description="Seed of initial weights, batch order and dropout.")
    devices: int | None = Field(
        default=None,
        ge=0,
        le=1024,
        description="Number of GPUs of this machine to train on, the first ones; 0: none, the processor; null: all. "
        "--devices is short for it.",
    )
    deterministic: bool = Field(
        default=False,
        description="Make a GPU add numbers in the same order every time, so that the seed determines all results, as "
        "on a processor; it is slower.",
    )

    @field_validator("name")
    @classmethod
    def _check_name(cls, value: str | None) -> str | None:
        if value is not None and (problem := name_problem(value)):
            raise ValueError(problem)
        return value


class RunConfig(Settings):
    """All settings of a run."""

    run: RunSettings = Field(default=RunSettings(), description="The run as a whole.")
    data: DataSettings = Field(description="The parallel text, and what happens to unsuitable pairs.")
    tokenizer: TokenizerSettings = Field(
        default=TokenizerSettings(),
        description="The subword model that source and target share; it is trained on the training pairs.",
    )
    batches: BatchSettings = Field(default=BatchSettings(), description="How sentences are grouped into batches.")
    model: ModelSettings = Field(
        default=TransformerSettings(), description="The model: its architecture, sizes and attention."
    )
    training: TrainingSettings = Field(
        description="The optimiser, and when training ends: at the first of max_updates, max_epochs and max_minutes."
    )
    decoding: DecodingSettings = Field(default=DecodingSettings(), description="How translations are searched.")
    inspection: InspectionSettings = Field(
        default=InspectionSettings(), description="Which attention is written and shown."
    )

    @model_validator(mode="after")
    def _sections_fit_together(self) -> Self:
        check_has_text(self.data, self.tokenizer, self.training)
        check_positions(self.data, self.model)
        check_normalize(self.data)
        check_tag(self.decoding, self.data)
        check_coverage(self.decoding, self.model)
        check_guided_attention(self.training, self.data, self.model)
        check_freeze(self.training, self.model)
        check_xla(self.training, self.model)
        check_inspected_attention(self.inspection, self.model)
        check_measured_total(self.training, self.batches)
        return self


def load_run_config(path: str | Path) -> RunConfig:
    """Reads a config file; `run.name` defaults to the name of the file.

    Raises:
        InputError: the file is missing or is not a valid config; the message lists every mistake.
    """
    values, origins = read_yaml(Path(path))
    return make_run_config(values, origins, default_name=Path(path).stem)


def make_run_config(values: Mapping[str, Any], origins: Origins, default_name: str) -> RunConfig:
    """Validates settings from files or the command line; `origins` tells error messages where each came from."""
    values, origins = rename_keys(values, origins)
    run = values.get("run", {})
    named = {**values, "run": {"name": default_name, **run}} if isinstance(run, Mapping) else values
    return validate(RunConfig, named, origins)


def dump(config: RunConfig) -> str:
    """Returns all settings as YAML text that loads as an equal config."""
    return dump_yaml(config.model_dump(mode="json"))


def flat_settings(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields every setting of nested sections with its dotted key."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from flat_settings(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
