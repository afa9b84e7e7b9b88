"""The base class of all sections of settings, and functions that describe their keys, types and ranges in words."""

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
from .choices import describe_names

MOST_UNITS = 65_536  # the largest width of a layer
MOST_COUNTED = 1_000_000_000
"""The largest number of updates, epochs, sentences and so on that a setting allows. A training of years has fewer."""
Probability = Annotated[float, Field(ge=0, lt=1)]


MAY_CHANGE = "may change"
KEPT = "kept"
"""Markers for annotations of fields. A resumed run may change a `MAY_CHANGE` field and all settings below it, except
those marked `KEPT`. All other settings must stay."""


def to_nfc(value: str) -> str:
    """Converts text to Unicode's normal form C, in which the model reads all text; see `text.lines.line.compose`."""
    return unicodedata.normalize("NFC", value)


Text = Annotated[str, AfterValidator(to_nfc)]
"""The type of settings with text that the model reads."""


class OneOf:
    """An annotation for a setting whose value must be a name from a list.

    Unlike in `typing.Literal`, the names are looked up when a value is checked, so that plugins can add names.

    Args:
        names: a table in `config.choices`, a list of names, or a function that returns names.
        extensible: True if plugins can add names; the message about a wrong name then mentions `--plugins`.
    """

    def __init__(self, names: Iterable[str] | Callable[[], Iterable[str]], extensible: bool = False) -> None:
        self._names = names if callable(names) else lambda: names
        self._extensible = extensible

    @property
    def names(self) -> list[str]:
        """The allowed names, including those that plugins have added so far."""
        return list(self._names())

    @property
    def table(self) -> Mapping[str, Any]:
        """The table in `config.choices` with a row for each name; an empty dict if the names have no table."""
        names = self._names()
        return names if isinstance(names, Mapping) else {}

    @property
    def expectation(self) -> str:
        """The expected value in words: "one of " and the names."""
        return f"one of {', '.join(self.names)}"

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Returns the schema of the annotated type with the check of the name added; called by pydantic."""
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def _check(self, value: str) -> str:
        if value not in self.names:
            hint = did_you_mean(value, self.names)
            if self._extensible:
                hint += "; the name of a plugin needs --plugins FILE"
            raise ValueError(f"expected {self.expectation}, found {value!r:.60}{hint}")
        return value


class Settings(BaseModel):
    """The base class of sections of settings. Unknown keys raise an error. Settings cannot be changed after loading.

    The docstring below each setting is its help text: an imperative sentence of at most 25 words, then the meaning of
    values such as null or 0.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, protected_namespaces=(), use_attribute_docstrings=True
    )

    def part(self, section: type["Settings"]) -> dict[str, Any]:
        """Returns the values of some settings by key: of all settings that the class `section` has.

        Args:
            section: a base class of this section's class.
        """
        return {name: getattr(self, name) for name in section.model_fields}

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_true_for_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        field = cls.model_fields[info.field_name or ""]
        if isinstance(value, bool) and bool not in alternatives(field.annotation):
            raise PydanticCustomError("switch", "true or false")  # pydantic would read true as the number 1
        if isinstance(value, str) and ("\0" in value or not is_unicode(value)):
            raise ValueError(f"expected text without zero bytes and in UTF-8, found {value[:40]!r}")
        return value


def alternatives(annotation: Any) -> tuple[Any, ...]:
    """Returns the types in a union; for any other type, the type itself as the only one."""
    return get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)


def item_of_list(annotation: Any) -> Any:
    """Returns the type of the items of a list.

    Args:
        annotation: the type of the list, `tuple[ITEM, ...]`, or a union that includes it.
    """
    kinds = map(without_limits, alternatives(annotation))
    return next(get_args(kind)[0] for kind in kinds if get_origin(kind) is tuple)


def without_limits(kind: Any) -> Any:
    """Returns a type without its annotations, such as the limits of a number."""
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def tags_of_lists(field: FieldInfo) -> list[str]:
    """Returns the pydantic tags of all list types in the union that is a field's type, such as `list`."""
    tags = []
    for kind in alternatives(field.annotation):
        if get_origin(kind) is Annotated and get_origin(get_args(kind)[0]) is tuple:
            tags += [note.tag for note in get_args(kind)[1:] if isinstance(note, Tag)]
    return tags


def is_section(kind: Any) -> TypeGuard[type[BaseModel]]:
    """Returns whether a type is the class of a section of settings."""
    return isinstance(kind, type) and issubclass(kind, BaseModel)


_KINDS = {int: "an integer", float: "a number", bool: "true or false", str: "text", Path: "a path"}
SECTION = "a section of keys and values"
_LIMITS = {"ge": ">= {}", "gt": "> {}", "le": "<= {}", "lt": "< {}", "min_length": "that is not empty"}


def walk(schema: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Yields the dotted key and the field of every setting and section, each section before its keys.

    A key that several alternatives of a section have is yielded once.

    Args:
        schema: the class of the settings.
        prefix: text before each key, used for the keys of inner sections.
    """
    seen: set[str] = set()
    for name, field in schema.model_fields.items():
        yield f"{prefix}{name}", field
        for section in sections_of(field).values():
            for key, below in walk(section, f"{prefix}{name}."):
                if key not in seen:
                    seen.add(key)
                    yield key, below


def sections_of(field: FieldInfo) -> dict[str, type[BaseModel]]:
    """Returns the classes of settings that a field allows, by pydantic's tag; an empty dict if it is not a section.

    A section with one class has the tag "". The section `model` has a class for each architecture.
    """
    sections = {}
    for kind in alternatives(field.annotation):
        schema, *notes = get_args(kind) if get_origin(kind) is Annotated else (kind,)
        if is_section(schema):
            sections[next((note.tag for note in notes if isinstance(note, Tag)), "")] = schema
    return sections


def changeable_keys(schema: type[BaseModel], prefix: str = "", may_change: bool = False) -> Iterator[str]:
    """Yields the dotted key of every setting and section that a resumed run may change.

    Args:
        schema: the class of the settings.
        prefix: text before each key, used for the keys of inner sections.
        may_change: True if a resumed run may change every setting in `schema` that is not marked `KEPT`.
    """
    for name, field in schema.model_fields.items():
        allowed = MAY_CHANGE in field.metadata or (may_change and KEPT not in field.metadata)
        if allowed:
            yield f"{prefix}{name}"
        for section in sections_of(field).values():
            yield from changeable_keys(section, f"{prefix}{name}.", allowed)


def changeable_in_words(schema: type[BaseModel]) -> str:
    """Describes the settings that a resumed run may change, in a phrase for messages.

    It names options, then whole sections, and then the settings in these sections that may not change.
    """
    options = []
    sections = []
    exceptions = []
    for key, field in walk(schema):
        if MAY_CHANGE in field.metadata and sections_of(field):
            sections.append(key)
        elif MAY_CHANGE in field.metadata:
            options.append(f"--{key}")
        elif KEPT in field.metadata:
            exceptions.append(key)
    return f"{', '.join(options)}, and the settings of {_join(sections)} without {_join(exceptions)}"


def _join(words: Sequence[str]) -> str:
    """Returns words as a list in a sentence: "a, b and c"."""
    return f"{', '.join(words[:-1])} and {words[-1]}"


def help_text(field: FieldInfo, *notes: str) -> str:
    """Returns the help text of a setting for `argparse`, in which a percent sign is `%%`.

    It has the description of the setting. Then come the allowed names with their meanings, if there is a table of them;
    otherwise the allowed values, in brackets. The notes are in brackets too.

    Args:
        field: the field of the setting.
        notes: further remarks, such as the default.
    """
    tables = [names.table for names in _names_within(field.annotation, field.metadata) if names.table]
    text = f"{' '.join(str(field.description).split())} {' '.join(f'{describe_names(table)}.' for table in tables)}"
    brackets = "; ".join([*([] if tables else [expectation(field)]), *notes])
    return f"{text[0].lower()}{text[1:].rstrip(' .')}{f' ({brackets})' if brackets else ''}".replace("%", "%%")


def _names_within(kind: Any, metadata: Sequence[Any]) -> Iterator[OneOf]:
    """Yields the `OneOf` annotations of a type, of the items of a list, and of the types in a union.

    Args:
        kind: the type.
        metadata: the annotations of the type, if they are not part of it.
    """
    if get_origin(kind) is Annotated:
        kind, *metadata = get_args(kind)
    yield from (note for note in metadata if isinstance(note, OneOf))
    for item in get_args(kind):
        yield from _names_within(item, ())


def expectation(field: FieldInfo) -> str:
    """Returns the values that a field allows in words, such as "an integer >= 1 or null"."""
    first, *other_kinds = alternatives(field.annotation)
    descriptions = [_limited(kind_in_words(first, field.metadata), field.metadata), *map(kind_in_words, other_kinds)]
    return " or ".join(dict.fromkeys(descriptions))


def _limited(kind: str, metadata: Sequence[Any]) -> str:
    """Returns the name of a type with the limits in its annotations, such as "an integer >= 1"."""
    limits = [
        text.format(getattr(limit, name))
        for limit in metadata
        for name, text in _LIMITS.items()
        if getattr(limit, name, None) is not None
    ]
    return " ".join([kind, " and ".join(limits)]).strip()


def kind_in_words(kind: Any, metadata: Sequence[Any] = ()) -> str:
    """Returns a type in words, such as "an integer >= 1".

    Args:
        kind: the type.
        metadata: the annotations of the type, if they are not part of it.
    """
    if get_origin(kind) is Annotated:
        kind, *metadata = get_args(kind)
        limits = [limit for note in metadata if isinstance(note, FieldInfo) for limit in note.metadata]
        return _limited(kind_in_words(kind, metadata), limits)
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
