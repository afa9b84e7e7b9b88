"""Checks by the settings of two runs that training can start from one of them."""

import re
from collections.abc import Iterator

from ..errors import InputError
from ..files.run_directory import RunDirectory
from .choices.model import MECHANISM_INFO
from .messages import as_yaml
from .model import ArchitectureSettings
from .run import RunConfig, flat_settings, load_started_run

FREE = re.compile(r"model\.((\w+_)?dropout|source_loss)")
"""Settings of a model that may change: they are no part of what its weights compute."""
TOKENIZER = ("kind", "vocabulary_size", "character_coverage")
"""Settings of a tokenizer that must be the ancestor's, which is not trained again."""


def check_ancestor(config: RunConfig) -> RunConfig | None:
    """Checks that the run in `training.start_from` has the model and the tokenizer of this config, and returns its
    settings; None where none is set.

    Raises:
        InputError: it is no run, or a setting differs; the message names all that do.
    """
    root = config.training.start_from
    if root is None:
        return None
    try:
        ancestor = load_started_run(RunDirectory.open(root).config)
    except InputError as error:
        raise InputError(f"training.start_from: {error}") from None
    differences = list(_differences(config, ancestor))
    there = ancestor.data.tags
    if unknown := [tag for tag in config.data.tags if tag not in there]:
        shown = " and ".join(there) or "none"
        differences.append(f"tags of data.train: expected {shown}, found {' and '.join(unknown)}")
    if differences:
        shown = "\n  ".join(differences)
        raise InputError(
            f"training.start_from: {root} has another model or vocabulary:\n  {shown}\nSet these as in "
            f"{root / 'config.yaml'} (only rates of dropout and model.source_loss may differ, and model.max_positions "
            "where no weight depends on it), or leave training.start_from out"
        )
    return ancestor


def _differences(config: RunConfig, ancestor: RunConfig) -> Iterator[str]:
    there, here = (
        dict(flat_settings(one.model_dump(mode="json", include={"tokenizer": set(TOKENIZER), "model": True})))
        for one in (ancestor, config)
    )
    for key in (*there, *(key for key in here if key not in there)):
        free = FREE.fullmatch(key) or (key == "model.max_positions" and not _has_weights_by_position(config.model))
        if there.get(key) != here.get(key) and not free:
            yield f"{key}: expected {as_yaml(there.get(key))}, found {as_yaml(here.get(key))}"


def _has_weights_by_position(model: ArchitectureSettings) -> bool:
    if getattr(model, "positions", "") == "learned":
        return True
    sites = getattr(model, "attention", ())
    return any("projected_length" in MECHANISM_INFO[site.mechanism].settings for _, site in sites)


def other_text(config: RunConfig, ancestor: RunConfig) -> list[str]:
    """Lists settings of the text that differ from the ancestor's, perhaps on purpose: `key: value there, here`."""
    keys = ("source_language", "target_language", "tokenized")
    pairs = [(key, *(as_yaml(getattr(one.data, key)) for one in (ancestor, config))) for key in keys]
    return [f"data.{key}: {there} there, {here} here" for key, there, here in pairs if there != here]
