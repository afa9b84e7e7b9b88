"""Renamed config keys: an old name works for one more minor version, with a hint."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .yaml import Origins

RENAMED = {
    "model.scores.encoder_self": "model.attention.encoder_self.score",
    "model.scores.decoder_self": "model.attention.decoder_self.score",
    "model.scores.cross": "model.attention.cross.score",
}
"""Old dotted key -> new dotted key. A row is removed in the second minor version after its change (0.3.0 for these)."""

SHORT = {"--devices": "--run.devices"}
"""Short name of an option -> its full name."""

log = logging.getLogger(__name__)


def rename_keys(values: Mapping[str, Any], origins: Origins) -> tuple[dict[str, Any], Origins]:
    """Returns settings with the new names of renamed keys, and a warning for each.

    A key that is given by both names keeps the old one, which the schema then refuses.
    """
    renamed, moved = dict(values), dict(origins)
    for old, new in RENAMED.items():
        value = _find(renamed, old.split("."))
        if value is None or _find(renamed, new.split(".")) is not None:
            continue
        place = f" ({origins[old]})" if old in origins else ""
        log.warning("%s is now called %s; the old name works for one more version%s", old, new, place)
        renamed = _without(renamed, old.split("."))
        renamed = replaced(renamed, new.split("."), value)
        if old in moved:
            moved[new] = moved.pop(old)
    return renamed, moved


def rename_options(arguments: Sequence[str]) -> Iterator[str]:
    """Yields a command's arguments, with the full names of short options, and the new names of renamed keys."""
    for argument in arguments:
        name, equals, value = argument.partition("=")
        name = SHORT.get(name, name)
        new = RENAMED.get(name.removeprefix("--")) if name.startswith("--") else None
        if new is not None:
            log.warning("%s is now called --%s; the old name works for one more version", name, new)
        yield f"{name if new is None else f'--{new}'}{equals}{value}"


def replaced(section: Mapping[str, Any], keys: Sequence[str], value: Any) -> dict[str, Any]:
    """Returns a copy of a section with one value changed; YAML's anchors let two sections share one object."""
    name, *rest = keys
    if rest:
        below = section.get(name) or {}
        value = replaced(below, rest, value) if isinstance(below, Mapping) else below  # the schema refuses it later
    return {**section, name: value}


def _find(section: Any, keys: Sequence[str]) -> Any:
    for key in keys:
        section = section.get(key) if isinstance(section, Mapping) else None
    return section


def _without(section: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """Returns a copy without a key, and without the sections that this leaves empty."""
    name, *rest = keys
    below = _without(section[name], rest) if rest else {}
    others = {key: value for key, value in section.items() if key != name}
    return {**others, name: below} if below else others
