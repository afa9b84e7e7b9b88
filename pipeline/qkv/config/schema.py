"""A section of settings: its base class, types, keys and ranges."""

import types
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeGuard, Union, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    Tag,
    ValidationInfo,
    field_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from ..errors import did_you_mean
from ..files.paths import is_unicode
from .choices import describe

MOST_UNITS = 65_536  # the largest width of a layer
MOST_COUNTED = 1_000_000_000
"""The largest number of updates, epochs, sentences and the like: more than a training of years has."""
Probability = Annotated[float, Field(ge=0, lt=1)]


MAY_CHANGE, KEPT = "may change", "kept"
"""Annotate a field that a resumed run may change, with all that is below it, or must keep, as all others."""


def composed(value: str) -> str:
    """Returns text that a config gives to the model in the normal form of all text, see `text.lines.line.compose`."""
    return unicodedata.normalize("NFC", value)


Text = Annotated[str, AfterValidator(composed)]


class OneOf:
    """Annotates text that must be one of some names.

    Unlike in `typing.Literal`, the names are looked up when a value is checked, so that plugins can add to them.

    Args:
        names: a table of `qkv.config.choices`, or a function that lists names.
        extensible: whether plugins can add to them.
    """

    def __init__(self, names: Iterable[str] | Callable[[], Iterable[str]], extensible: bool = False) -> None:
        self._names = names if callable(names) else lambda: names
        self._extensible = extensible

    @property
    def names(self) -> list[str]:
        """The names as they are now."""
        return list(self._names())

    @property
    def table(self) -> Mapping[str, Any]:
        """The names with their meanings, if they have some."""
        names = self._names()
        return names if isinstance(names, Mapping) else {}

    @property
    def expectation(self) -> str:
        """The expected value, in words."""
        return f"one of {', '.join(self.names)}"

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def _check(self, value: str) -> str:
        if value not in self.names:
            hint = did_you_mean(value, self.names)
            if self._extensible:
                hint += "; the name of a plugin needs --plugins FILE"
            raise ValueError(f"expected {self.expectation}, found {value!r:.60}{hint}")
        return value


class Settings(BaseModel):
    """A section of settings: unknown keys are refused, and nothing changes after loading.

    The text below a key is its help: an imperative sentence of at most 25 words, and one for values such as null.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, protected_namespaces=(), use_attribute_docstrings=True
    )

    def part(self, section: type["Settings"]) -> dict[str, Any]:
        """Returns the values that this section has of one that it inherits, by their keys."""
        return {name: getattr(self, name) for name in section.model_fields}

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_true_for_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        field = cls.model_fields[info.field_name or ""]
        if isinstance(value, bool) and field.annotation is not bool:
            raise PydanticCustomError("switch", "true or false")  # pydantic would read true as the number 1
        if isinstance(value, str) and ("\0" in value or not is_unicode(value)):
            raise ValueError(f"expected text without zero bytes and in UTF-8, found {value[:40]!r}")
        return value


def alternatives(annotation: Any) -> tuple[Any, ...]:
    """Returns the types that a union allows; a type that is no union is its only alternative."""
    return get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)


def item_of_list(annotation: Any) -> Any:
    """Returns the type of the items of the list that is among the types of a field."""
    kinds = map(without_limits, alternatives(annotation))
    return next(get_args(kind)[0] for kind in kinds if get_origin(kind) is tuple)


def without_limits(kind: Any) -> Any:
    """Returns a type without what annotates it."""
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def tags_of_lists(field: FieldInfo) -> list[str]:
    """Returns the tags of lists among the types that a field allows."""
    tagged = (get_args(kind) for kind in alternatives(field.annotation) if get_origin(kind) is Annotated)
    return [
        note.tag for kind, *notes in tagged for note in notes if isinstance(note, Tag) and get_origin(kind) is tuple
    ]


def is_section(kind: Any) -> TypeGuard[type[BaseModel]]:
    """Returns whether a type is a section of settings."""
    return isinstance(kind, type) and issubclass(kind, BaseModel)


_KINDS = {int: "an integer", float: "a number", bool: "true or false", str: "text", Path: "a path"}
SECTION = "a section of keys and values"
_LIMITS = {"ge": ">= {}", "gt": "> {}", "le": "<= {}", "lt": "< {}", "min_length": "that is not empty"}


def walk(schema: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Yields every dotted key of a schema once, with its field: each section before its keys."""
    seen: set[str] = set()
    for name, field in schema.model_fields.items():
        yield f"{prefix}{name}", field
        for section in sections_of(field).values():
            for key, below in walk(section, f"{prefix}{name}."):
                if key not in seen:
                    seen.add(key)
                    yield key, below


def sections_of(field: FieldInfo) -> dict[str, type[BaseModel]]:
    """Returns the schemas of the keys under a field, if it is a section; by tag, if there are several."""
    sections = {}
    for kind in alternatives(field.annotation):
        schema, *notes = get_args(kind) if get_origin(kind) is Annotated else (kind,)
        if is_section(schema):
            sections[next((note.tag for note in notes if isinstance(note, Tag)), "")] = schema
    return sections


def changeable_keys(schema: type[BaseModel], prefix: str = "", may_change: bool = False) -> Iterator[str]:
    """Yields every dotted key that a resumed run may change."""
    for name, field in schema.model_fields.items():
        allowed = MAY_CHANGE in field.metadata or (may_change and KEPT not in field.metadata)
        if allowed:
            yield f"{prefix}{name}"
        for section in sections_of(field).values():
            yield from changeable_keys(section, f"{prefix}{name}.", allowed)


def changeable_in_words(schema: type[BaseModel]) -> str:
    """Returns which settings a resumed run may change, as options and sections."""
    fields = list(walk(schema))
    changed = [(key, sections_of(field)) for key, field in fields if MAY_CHANGE in field.metadata]
    options, sections = ([key for key, below in changed if bool(below) == wanted] for wanted in (False, True))
    kept = [key for key, field in fields if KEPT in field.metadata]
    said = ", ".join(f"--{key}" for key in options)
    return f"{said}, and the settings of {_listed(sections)} without {_listed(kept)}"


def _listed(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}"


def help_text(field: FieldInfo, *notes: str) -> str:
    """Returns the help of a setting: its description, the meaning of each name that it takes, and in brackets what else
    it takes and the notes. `argparse` reads a percent sign as `%%`."""
    tables = [names.table for names in _names_within(field.annotation, field.metadata) if names.table]
    text = f"{' '.join(str(field.description).split())} {' '.join(f'{describe(table)}.' for table in tables)}"
    brackets = "; ".join([*([] if tables else [expectation(field)]), *notes])
    return f"{text[0].lower()}{text[1:].rstrip(' .')}{f' ({brackets})' if brackets else ''}".replace("%", "%%")


def _names_within(kind: Any, metadata: Sequence[Any]) -> Iterator[OneOf]:
    """Yields the lists of names that a type takes, alone, in a list, or beside null."""
    if get_origin(kind) is Annotated:
        kind, *metadata = get_args(kind)
    yield from (note for note in metadata if isinstance(note, OneOf))
    for item in get_args(kind):
        yield from _names_within(item, ())


def expectation(field: FieldInfo) -> str:
    """Returns what a field takes, in words, such as "an integer >= 1 or null"."""
    first, *others = alternatives(field.annotation)
    kinds = [_limited(kind_in_words(first, field.metadata), field.metadata), *(kind_in_words(kind) for kind in others)]
    return " or ".join(dict.fromkeys(kinds))


def _limited(kind: str, metadata: Sequence[Any]) -> str:
    """Adds limits, such as ">= 1", to the name of a kind."""
    limits = [
        text.format(getattr(limit, name))
        for limit in metadata
        for name, text in _LIMITS.items()
        if getattr(limit, name, None) is not None
    ]
    return " ".join([kind, " and ".join(limits)]).strip()


def kind_in_words(kind: Any, metadata: Sequence[Any] = ()) -> str:
    """Returns a type that a field allows, in words, such as "an integer >= 1"."""
    if get_origin(kind) is Annotated:
        kind, *metadata = get_args(kind)
        own = [limit for note in metadata if isinstance(note, FieldInfo) for limit in note.metadata]
        return _limited(kind_in_words(kind, metadata), own)
    if kind is type(None):
        return "null"
    names = next((limit for limit in metadata if isinstance(limit, OneOf)), None)
    if names is not None:
        return names.expectation
    if get_origin(kind) is Literal:
        values = get_args(kind)
        return ("one of " if len(values) > 1 else "") + ", ".join(map(str, values))
    if get_origin(kind) is tuple:
        item = get_args(kind)[0]
        return "a list of sections" if is_section(item) else "a list of " + kind_in_words(item).removeprefix("one of ")
    return _KINDS.get(kind, SECTION)
