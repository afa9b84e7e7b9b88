"""Checks settings against their schema, and reports everything that is wrong in one readable message."""

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
"""The most wrong settings that a message lists."""


def validate(schema: type[Schema], values: Mapping[str, Any], origins: Origins) -> Schema:
    """Makes settings from nested values.

    Raises:
        InputError: names each wrong key, what was found there, what was expected and, from `origins`, where it stands.
    """
    try:
        return schema.model_validate(values)
    except ValidationError as error:
        problems: dict[str, ErrorDetails] = {}  # the first of each key
        for details in error.errors():
            problems.setdefault(_resolve(schema, details["loc"])[0], details)
        lines = [f"{len(problems)} settings are wrong:"] if len(problems) > 1 else []
        for details in islice(problems.values(), MOST_PROBLEMS):
            key, problem = _describe(schema, details)
            lines.append((f"{_short(key)}: " if key else "") + problem + _origin(key, origins))
        if len(problems) > MOST_PROBLEMS:
            lines.append(f"and {len(problems) - MOST_PROBLEMS:,} more")
        raise InputError("\n  ".join(lines)) from error


def parse_value(key: str, field: FieldInfo, text: str) -> Any:
    """Parses an option as in a config file, but text needs no quotes; raises an `InputError` if it is not YAML."""
    kinds = [without_limits(kind) for kind in alternatives(field.annotation)]
    if (str in kinds or Path in kinds) and int not in kinds:
        return None if text == "null" and type(None) in kinds else text
    try:
        return parse_yaml(text)
    except ValueError as error:
        raise InputError(f"{key}: expected {expectation(field)}, found {_shown(text)} (command line)") from error


def _resolve(schema: type[BaseModel], location: tuple[int | str, ...]) -> tuple[str, FieldInfo | None, list[str]]:
    """Returns one of pydantic's locations as a dotted key, its field if any, and the keys that are allowed there."""
    parts: list[str] = []
    field: FieldInfo | None = None
    sections: dict[str, type[BaseModel]] = {"": schema}
    known = list(schema.model_fields)
    for part in location:
        if field and part in (*sections, *tags_of_lists(field)):  # not a key, but which of several forms is meant
            sections = {"": sections[str(part)]} if part in sections else {}
            continue
        if isinstance(part, int) and field and not sections:  # an item of a list
            item = item_of_list(field.annotation)
            sections = {"": item} if is_section(item) else {}
        elif not sections:  # not a key, but one of the types that a field allows
            break
        else:
            section = next(iter(sections.values()))
            known = [".".join([*parts, name]) for name in section.model_fields]
            field = section.model_fields.get(str(part))
            sections = sections_of(field) if field else {}
        parts.append(str(part))
    return ".".join(parts), field, known


def _describe(schema: type[BaseModel], details: ErrorDetails) -> tuple[str, str]:
    """Returns the dotted key of one of pydantic's errors, and what is wrong there."""
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
        found = str(details["ctx"]["tag"])
        expected = f"expected one of {', '.join(names)}, found {found!r:.60}"
        return f"{key}.architecture", f"{expected}{did_you_mean(found, names)}"
    if field is None:
        wanted = SECTION
    elif isinstance(details["loc"][-1], int):
        wanted = kind_in_words(item_of_list(field.annotation))
    else:
        wanted = expectation(field)
    found = "nothing" if details["type"] == "missing" else _shown(details["input"])
    number = details["type"] == "string_type" and isinstance(details["input"], int | float) and "text" in wanted
    return key, f"expected {wanted}, found {found}" + (", which is text only in quotes" if number else "")


def _origin(key: str, origins: Origins) -> str:
    """Returns the place of a key, or of the section that lacks it, in brackets."""
    while key and key not in origins:
        key = key.rpartition(".")[0]
    return f" ({origins[key]})" if key else ""


def _shown(value: Any) -> str:
    return _short("a section of keys" if isinstance(value, Mapping) else as_yaml(value, repr))


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"


def as_yaml(value: Any, text: Callable[[Any], str] = str) -> str:
    """Returns a value as YAML has it: null, true, false, or else its text."""
    return str(value).lower().replace("none", "null") if value is None or isinstance(value, bool) else text(value)
