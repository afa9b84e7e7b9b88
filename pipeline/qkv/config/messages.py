"""Validates settings by their schema. If settings are wrong, one message lists all of them."""

from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from ..errors import InputError, did_you_mean
from .schema import (
    SECTION,
    alternatives,
    expectation,
    is_section,
    item_of_list,
    kind_in_words,
    sections_of,
    tags_of_lists,
    walk,
    without_limits,
)
from .yaml import Origins, parse_yaml

Schema = TypeVar("Schema", bound=BaseModel)
MOST_PROBLEMS = 20
"""The largest number of wrong settings that a message lists."""


def validate(schema: type[Schema], values: Mapping[str, Any], origins: Origins) -> Schema:
    """Creates settings from nested values, and checks them.

    Args:
        schema: the class of the settings.
        values: nested dicts with the values of the settings.
        origins: the file and line, or another origin, of each dotted key, for messages.

    Returns:
        The settings, an instance of `schema`.

    Raises:
        InputError: settings are wrong. For each of them, the message has the key, the expected value, the actual value
            and the origin.
    """
    try:
        return schema.model_validate(values)
    except ValidationError as error:
        problems: dict[str, ErrorDetails] = {}  # the first problem of each key
        for details in error.errors():
            problems.setdefault(_resolve(schema, details["loc"])[0], details)
        lines = [f"{len(problems)} settings are wrong:"] if len(problems) > 1 else []
        for details in islice(problems.values(), MOST_PROBLEMS):
            key, problem = _describe(schema, details)
            lines.append((f"{_shorten(key)}: " if key else "") + problem + _origin(key, origins))
        if len(problems) > MOST_PROBLEMS:
            lines.append(f"and {len(problems) - MOST_PROBLEMS:,} more")
        raise InputError("\n  ".join(lines)) from error


def parse_value(key: str, field: FieldInfo, text: str) -> Any:
    """Parses the value of a command-line option by the rules of a config file, but text needs no quotes.

    Args:
        key: the name of the setting, for the message.
        field: the field of the setting, whose types decide whether the value is text.
        text: the value of the option.

    Returns:
        The value: text, a number, a bool, None, a list or a dict. It is not checked against the field.

    Raises:
        InputError: the value is not YAML.
    """
    kinds = [without_limits(kind) for kind in alternatives(field.annotation)]
    if (str in kinds or Path in kinds) and int not in kinds:
        return None if text == "null" and type(None) in kinds else text
    try:
        return parse_yaml(text)
    except ValueError as error:
        raise InputError(f"{key}: expected {expectation(field)}, found {_value_text(text)} (command line)") from error


def _resolve(schema: type[BaseModel], location: tuple[int | str, ...]) -> tuple[str, FieldInfo | None, list[str]]:
    """Converts the location in one of pydantic's errors to a dotted key.

    Args:
        schema: the class of the settings.
        location: keys, indices of lists and tags of alternatives, from the outside to the inside.

    Returns:
        Three values: the dotted key; the field of the key, or None if there is no such key; the dotted keys that are
        allowed in the section of the key.
    """
    parts: list[str] = []
    field: FieldInfo | None = None
    sections: dict[str, type[BaseModel]] = {"": schema}
    known = list(schema.model_fields)
    for part in location:
        if field and part in (*sections, *tags_of_lists(field)):  # not a key, but the tag of an alternative
            sections = {"": sections[str(part)]} if part in sections else {}
            continue
        if isinstance(part, int) and field and not sections:  # an item of a list
            item = item_of_list(field.annotation)
            sections = {"": item} if is_section(item) else {}
        elif not sections:  # not a key, but a type that the field allows
            break
        else:
            section = next(iter(sections.values()))
            known = [".".join([*parts, name]) for name in section.model_fields]
            field = section.model_fields.get(str(part))
            sections = sections_of(field) if field else {}
        parts.append(str(part))
    return ".".join(parts), field, known


def _describe(schema: type[BaseModel], details: ErrorDetails) -> tuple[str, str]:
    """Returns the dotted key of one of pydantic's errors, and a message about it."""
    key, field, siblings = _resolve(schema, details["loc"])
    if details["type"] in ("extra_forbidden", "invalid_key"):
        everywhere = [known for known, _ in walk(schema)]
        if key in everywhere and "." in str(details["loc"][-1]):
            *sections, name = key.split(".")
            return (
                key,
                f"expected sections below one another, {' '.join(f'{part}:' for part in sections)} {name}: VALUE",
            )
        if key in everywhere:
            return key, f"belongs to another architecture than {details['loc'][1]}"
        return key, f"no such key{did_you_mean(key, siblings + everywhere)}"
    if details["type"] == "value_error":
        return key, str(details["ctx"]["error"])
    if details["type"] == "union_tag_invalid" and field is not None:
        names = list(sections_of(field))
        tag = str(details["ctx"]["tag"])
        problem = f"expected one of {', '.join(names)}, found {tag!r:.60}"
        hint = f"{did_you_mean(tag, names)}; the name of a plugin needs --plugins FILE, or its import in Python"
        return f"{key}.architecture", f"{problem}{hint}"
    if field is None:
        expected = SECTION
    elif isinstance(details["loc"][-1], int):
        expected = kind_in_words(item_of_list(field.annotation))
    else:
        expected = expectation(field)
    actual = "nothing" if details["type"] == "missing" else _value_text(details["input"])
    number = details["type"] == "string_type" and isinstance(details["input"], int | float) and "text" in expected
    return key, f"expected {expected}, found {actual}" + (", which is text only in quotes" if number else "")


def _origin(key: str, origins: Origins) -> str:
    """Returns the origin of a key as a note for a message, such as ` (demo.yaml:12)`.

    A key that is missing in `origins` has the origin of its section. Without any origin, the note is empty.
    """
    while key and key not in origins:
        key = key.rpartition(".")[0]
    return f" ({origins[key]})" if key else ""


def _value_text(value: Any) -> str:
    """Returns a value as text for a message, cut to 60 characters; "a section of keys" for a mapping."""
    return _shorten("a section of keys" if isinstance(value, Mapping) else as_yaml(value, repr))


def _shorten(text: str) -> str:
    """Returns a text, cut to 60 characters."""
    return text if len(text) <= 60 else text[:59] + "…"


def as_yaml(value: Any, text: Callable[[Any], str] = str) -> str:
    """Returns a value as text: `null`, `true` or `false` as in YAML; any other value is converted by `text`."""
    return str(value).lower().replace("none", "null") if value is None or isinstance(value, bool) else text(value)
