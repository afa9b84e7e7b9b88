"""Compares the settings of a new run with those of the run that its training starts from, its ancestor."""

import re
from collections.abc import Iterator
from typing import Any

from ..errors import InputError
from ..files.run_directory import RunDirectory
from .choices.model import MECHANISM_INFO
from .messages import as_yaml
from .model import ArchitectureSettings
from .run import RunConfig, flat_settings, load_started_run

MAY_DIFFER = re.compile(r"model\.((\w+_)?dropout|source_loss)")
"""Settings of a model that may differ from the ancestor's: they affect training, not the function of the weights."""
TOKENIZER_SETTINGS = ("kind", "vocabulary_size", "character_coverage")
"""Settings of the tokenizer that must equal the ancestor's, because its tokenizer is used and not trained again."""


def check_ancestor(config: RunConfig) -> RunConfig | None:
    """Checks that a new run has the model, the tokenizer and the tags of its ancestor, the run `training.start_from`.

    Returns:
        The settings of the ancestor; None if `training.start_from` is null.

    Raises:
        InputError: `training.start_from` is not a run that can be read, or a setting of the model or the tokenizer
            differs, or a tag in `data.train` is unknown to the ancestor. The message lists all differences.
    """
    root = config.training.start_from
    if root is None:
        return None
    try:
        ancestor = load_started_run(RunDirectory.open(root).config)
    except InputError as error:
        raise InputError(f"training.start_from: {error}") from None
    differences = list(_model_differences(config, ancestor))
    known_tags = ancestor.data.tags
    if unknown := [tag for tag in config.data.tags if tag not in known_tags]:
        expected = " and ".join(known_tags) or "none"
        differences.append(f"tags of data.train: expected {expected}, found {' and '.join(unknown)}")
    if differences:
        listed = "\n  ".join(differences)
        raise InputError(
            f"training.start_from: {root} has another model or vocabulary:\n  {listed}\nSet these as in "
            f"{root / 'config.yaml'} (only rates of dropout and model.source_loss may differ, and model.max_positions "
            "if no weight depends on it), or leave training.start_from out"
        )
    return ancestor


def _model_differences(config: RunConfig, ancestor: RunConfig) -> Iterator[str]:
    """Yields a message for each setting of the model or the tokenizer that must be equal in both runs but differs."""
    expected = _compared_settings(ancestor)
    actual = _compared_settings(config)
    for key in (*expected, *(key for key in actual if key not in expected)):
        may_differ = MAY_DIFFER.fullmatch(key) or (
            key == "model.max_positions" and not _has_weights_by_position(config.model)
        )
        if expected.get(key) != actual.get(key) and not may_differ:
            yield f"{key}: expected {as_yaml(expected.get(key))}, found {as_yaml(actual.get(key))}"


def _compared_settings(config: RunConfig) -> dict[str, Any]:
    """Returns the value of each model setting, and of each of `TOKENIZER_SETTINGS`, by dotted key."""
    included: dict[str, Any] = {"tokenizer": set(TOKENIZER_SETTINGS), "model": True}
    return dict(flat_settings(config.model_dump(mode="json", include=included)))


def _has_weights_by_position(model: ArchitectureSettings) -> bool:
    """Returns whether the shapes of the model's weights depend on `max_positions`."""
    if getattr(model, "positions", "") == "learned":
        return True
    sites = getattr(model, "attention", ())
    return any("projected_length" in MECHANISM_INFO[site.mechanism].settings for _, site in sites)


def text_differences(config: RunConfig, ancestor: RunConfig) -> list[str]:
    """Compares the two languages and `data.tokenized` of a run with those of its ancestor.

    These settings may differ, but often differ by mistake. `run.ancestor` warns of them.

    Returns:
        A message for each setting that differs, such as `data.tokenized: true there, false here`.
    """
    messages = []
    for key in ("source_language", "target_language", "tokenized"):
        ancestor_value = as_yaml(getattr(ancestor.data, key))
        value = as_yaml(getattr(config.data, key))
        if ancestor_value != value:
            messages.append(f"data.{key}: {ancestor_value} there, {value} here")
    return messages
