"""Settings as YAML text: read with the line of every key, and written so that they read back the same."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from ..errors import InputError
from ..files.paths import refuse_other_than_file

Origins = dict[str, str]
"""Where the setting of each dotted key came from, for error messages: {"model.d_model": "configs/tiny.yaml:12"}."""
# Scalars as YAML 1.2 has them. PyYAML's own rules, of YAML 1.1, read the language code `no` as false, the number `1e-9`
# as text, `010` as 8 and `1:30` as 90.
_SCALARS = {
    "null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "bool": (r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    "int": (r"[-+]?(0|[1-9][0-9_]*)", list("-+0123456789")),
    "float": (r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?", list("-+.0123456789")),
    "merge": (r"<<", ["<"]),
}
NOT_YAML = (yaml.YAMLError, ValueError, KeyError, TypeError, AttributeError, OverflowError)
"""What PyYAML raises: values that are not of the type that they are marked as (`!!bool x`) end in errors of Python."""
MOST_BYTES = 1 << 18  # PyYAML reads some tens of kilobytes a second
MOST_VALUES = 20_000
DEEPEST = 20


class _Loader(yaml.SafeLoader):
    """Reads scalars as `_SCALARS` has them."""

    yaml_implicit_resolvers: dict = {}  # noqa: RUF012 - the type that PyYAML wants here


class _Dumper(yaml.SafeDumper):
    """Quotes what either version of YAML would take for something other than text."""


for _kind, (_pattern, _first_characters) in _SCALARS.items():
    for _reader_or_writer in (_Loader, _Dumper):
        _reader_or_writer.add_implicit_resolver(
            f"tag:yaml.org,2002:{_kind}", re.compile(rf"^(?:{_pattern})$"), _first_characters
        )


def _represent_text(dumper: _Dumper, text: str) -> yaml.Node:
    # PyYAML would write these line breaks as they are, and read them back as spaces; in double quotes it escapes them.
    style = '"' if set(text) & set("\x85\u2028\u2029") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def read_yaml(path: Path) -> tuple[dict[str, Any], Origins]:
    """Reads the keys and values in a file, and the line of each key.

    Raises:
        InputError: the file cannot be read, is not YAML, is empty, or repeats a key.
    """
    try:
        refuse_other_than_file(path, "a config file")
        with path.open("rb") as file:
            content = file.read(4 * MOST_BYTES + 1)  # a character takes at most four bytes
        values, root = _load(content.decode("utf-8-sig"))
        keys = list(_keys(root))
    except OSError as error:
        raise InputError(f"{path}: cannot be read as a config file: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: expected UTF-8 text, found byte {error.object[error.start]:#04x}") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = " ".join(part for part in (error.problem, error.context) if part)
        raise InputError(f"{path}:{mark.line + 1 if mark else 1}: this is not valid YAML: {reason}") from error
    except NOT_YAML as error:
        raise InputError(f"{path}: this is not valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict):
        found = "nothing" if values is None else f"{type(values).__name__} {str(values)[:40]!r}"
        raise InputError(f"{path}: expected sections of settings such as data: and training:, found {found}")
    origins: Origins = {}
    for key, line in keys:
        if key in origins:
            raise InputError(f"{path}:{line}: {key} is given twice; the first is at {origins[key]}")
        origins[key] = f"{path}:{line}"
    return values, origins


def parse_yaml(text: str) -> Any:
    """Parses a piece of text as the value of a key in a config file.

    Raises:
        ValueError: the text is not YAML, or a value is not of the type that it is marked as.
    """
    try:
        return _load(text)[0]
    except NOT_YAML as error:
        raise ValueError(f"this is not valid YAML: {error}") from error


def _load(text: str) -> tuple[Any, yaml.Node | None]:
    """Returns the value of a document and its nodes; values are counted before aliases multiply them."""
    if len(text) > MOST_BYTES:
        raise ValueError(f"expected at most {MOST_BYTES} characters, found {len(text)}")
    loader = _Loader(text)
    try:
        root = loader.get_single_node()
    except RecursionError:
        raise ValueError(f"nested more than {DEEPEST} levels deep") from None
    if next(islice(_keys(root), MOST_VALUES, None), None):
        raise ValueError(f"more than {MOST_VALUES} values, counted with what aliases stand for")
    return loader.construct_document(root) if root else None, root


def dump_yaml(values: dict[str, Any]) -> str:
    """Returns the text of a config file with these values, in their order."""
    return yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


def edit_yaml(text: str, values: Mapping[str, Any]) -> str:
    """Returns the text of a config file with other values, and with everything else as it was, comments too.

    Args:
        text: the text, which `read_yaml` has read.
        values: values by dotted key of a section, such as `model.d_ff`. A key that is missing is inserted.

    Raises:
        ValueError: the text has other values where these stand, as by aliases.
    """
    wanted = _load(text)[0]
    for key, value in values.items():
        section, name = key.split(".")
        present = wanted.get(section) or {}
        if present.get(name, ...) != value and (name in present or value is not None):
            wanted = replaced(wanted, (section, name), value)
            text = _with_value(text, section, name, value)
    if parse_yaml(text) != wanted:
        raise ValueError("it has aliases, or one of these keys is not a plain value")
    return text


def _with_value(text: str, section: str, name: str, value: Any) -> str:
    _, root = _load(text)
    assert isinstance(root, yaml.MappingNode)
    entry = dump_yaml({name: value}).strip()
    node = next((node for key, node in root.value if key.value == section), None)
    if node is None:
        return f"{text.rstrip()}\n\n{section}:\n  {entry}\n"
    start, end = node.start_mark.index, node.end_mark.index
    if not node.value or isinstance(node, yaml.ScalarNode):  # an empty section
        new = f" {{{entry}}}"
    elif old := next((node for key, node in node.value if key.value == name), None):
        start, end, new = old.start_mark.index, old.end_mark.index, f" {entry.removeprefix(f'{name}: ')}"
    else:
        first = node.value[0][0].start_mark
        start = end = first.index
        new = entry + (", " if node.flow_style else "\n" + " " * first.column)
    if text[:start].endswith(" "):
        new = new.lstrip()
    return text[:start] + new + text[end:]


def _keys(node: yaml.Node | None, prefix: str = "", depth: int = 0) -> Iterator[tuple[str, int]]:
    """Yields the dotted key and the line, from 1, of everything in a document."""
    if node and depth > DEEPEST:
        raise yaml.composer.ComposerError(None, None, f"nested more than {DEEPEST} levels deep", node.start_mark)
    if isinstance(node, yaml.MappingNode):
        children = [(key.value, key, value) for key, value in node.value]
    elif isinstance(node, yaml.SequenceNode):
        children = [(str(index), item, item) for index, item in enumerate(node.value)]
    else:
        return
    for name, place, value in children:
        yield f"{prefix}{name}", place.start_mark.line + 1
        yield from _keys(value, f"{prefix}{name}.", depth + 1)


def replaced(section: Mapping[str, Any], keys: Sequence[str], value: Any) -> dict[str, Any]:
    """Returns a copy of a section with one value changed; YAML's anchors let two sections share one object."""
    name, *rest = keys
    if rest:
        below = section.get(name) or {}
        value = replaced(below, rest, value) if isinstance(below, Mapping) else below  # the schema refuses it later
    return {**section, name: value}
