"""Reads and writes settings as YAML text, and edits values in a config file without changing its comments.

When a file is read, the line of every key is recorded for messages. Written text is read back as equal values.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from ..errors import InputError
from ..files.paths import refuse_other_than_file

Origins = dict[str, str]
"""The origin of the value of each dotted key, for messages: {"model.d_model": "configs/tiny.yaml:12"}."""
# The scalars of YAML 1.2. PyYAML's default rules, of YAML 1.1, read the language code `no` as false, the number `1e-9`
# as text, `010` as 8 and `1:30` as 90.
_SCALARS = {
    "null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "bool": (r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    "int": (r"[-+]?(0|[1-9][0-9_]*)", list("-+0123456789")),
    "float": (r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?", list("-+.0123456789")),
    "merge": (r"<<", ["<"]),
}
NOT_YAML = (yaml.YAMLError, ValueError, KeyError, TypeError, AttributeError, OverflowError)
"""The errors that PyYAML raises. A value that contradicts its tag, such as `!!bool x`, raises errors of Python."""
LONGEST_TEXT = 1 << 18  # characters; PyYAML reads some tens of kilobytes a second
MOST_VALUES = 20_000
DEEPEST_NESTING = 20
"""The largest number of levels of nesting."""


class _Loader(yaml.SafeLoader):
    """Reads scalars by the rules in `_SCALARS`."""

    yaml_implicit_resolvers: dict = {}  # noqa: RUF012 - PyYAML needs this type


class _Dumper(yaml.SafeDumper):
    """Writes text in quotes if YAML 1.1 or YAML 1.2 would read it as a number or another type."""


for _kind, (_pattern, _first_characters) in _SCALARS.items():
    for _reader_or_writer in (_Loader, _Dumper):
        _reader_or_writer.add_implicit_resolver(
            f"tag:yaml.org,2002:{_kind}", re.compile(rf"^(?:{_pattern})$"), _first_characters
        )


def _represent_text(dumper: _Dumper, text: str) -> yaml.Node:
    """Returns the YAML node for a text; in double quotes if it has a line break other than a line feed or return."""
    # PyYAML would write these line breaks as they are, and read them back as spaces; in double quotes it escapes them.
    style = '"' if set(text) & set("\x85\u2028\u2029") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def read_yaml(path: Path) -> tuple[dict[str, Any], Origins]:
    """Reads a config file.

    Returns:
        The sections and their values, as nested dicts; then `PATH:LINE` of each dotted key.

    Raises:
        InputError: the file cannot be read, is not UTF-8, is not YAML or is too large (see `_load`), has a key twice,
            or is not a mapping.
    """
    try:
        refuse_other_than_file(path, "a config file")
        with path.open("rb") as file:
            content = file.read(4 * LONGEST_TEXT + 1)  # a character takes at most four bytes
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
    """Parses a text as the value of a key in a config file: text, a number, a bool, None, a list or a dict.

    Raises:
        ValueError: the text is not YAML, or a value contradicts its tag, such as `!!bool x`.
    """
    try:
        return _load(text)[0]
    except NOT_YAML as error:
        raise ValueError(f"this is not valid YAML: {error}") from error


def _load(text: str) -> tuple[Any, yaml.Node | None]:
    """Parses a YAML document: returns its value, and its root node, which is None for an empty document.

    Values are counted before they are constructed, because aliases can multiply them.

    Raises:
        ValueError: the text is too long, has too many values, or is nested too deeply.
        yaml.YAMLError: the text is not YAML. See also `NOT_YAML`.
    """
    if len(text) > LONGEST_TEXT:
        raise ValueError(f"expected at most {LONGEST_TEXT} characters, found {len(text)}")
    loader = _Loader(text)
    try:
        root = loader.get_single_node()
    except RecursionError:
        raise ValueError(f"nested more than {DEEPEST_NESTING} levels deep") from None
    if next(islice(_keys(root), MOST_VALUES, None), None):
        raise ValueError(f"more than {MOST_VALUES} values, counted with what aliases stand for")
    return loader.construct_document(root) if root else None, root


def dump_yaml(values: dict[str, Any]) -> str:
    """Returns values as the text of a config file, in the order of the dict."""
    return yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


def edit_yaml(text: str, values: Mapping[str, Any]) -> str:
    """Returns the text of a config file with changed values. Comments, line ends and everything else are preserved.

    Args:
        text: the text of a valid config file, without a byte order mark.
        values: new values by dotted key of two parts, such as `model.d_ff`. A missing key is inserted, unless its
            new value is None.

    Raises:
        ValueError: the text cannot be edited so that only these values change. For example, another value is an alias
            of one of them, or a comment is within one of them.
    """
    present = _load(text)[0]
    target = present
    for key, value in values.items():
        section, name = key.split(".")
        if value is not None or name in (present.get(section) or {}):
            target = replaced(target, (section, name), value)
    if target == present:
        return text
    edited = _with_values(text, present, values)
    try:
        is_right = _load(edited)[0] == target
    except NOT_YAML:
        is_right = False
    if not is_right:
        raise ValueError("it has anchors, aliases or keys of an unusual form at the values to change")
    return edited


class _EditLoader(_Loader):
    """Represents an alias by a node of its own position, with the tag `alias`, not by the node that it refers to."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Returns the next node, as in PyYAML, but an alias as a node with the tag `alias`. PyYAML calls it."""
        if self.check_event(yaml.AliasEvent):
            event = self.get_event()
            return yaml.ScalarNode("alias", event.anchor, event.start_mark, event.end_mark)
        return super().compose_node(parent, index)


def _with_values(text: str, present: Mapping[str, Any], values: Mapping[str, Any]) -> str:
    """Returns the text of a config file with each value replaced or inserted.

    A value that is an alias is replaced even if it does not change, because the value that it refers to may change.

    Args:
        text: the text of a config file.
        present: its present values, section -> key -> value.
        values: the new values, `section.key` -> value.
    """
    root = _EditLoader(text).get_single_node()
    assert isinstance(root, yaml.MappingNode)
    inserted: dict[str, dict[str, Any]] = {}
    edits = []
    for key, value in values.items():
        section, name = key.split(".")
        old = _value_node(_value_node(root, section), name)
        if old is None:
            missing = value is not None if name not in (present.get(section) or {}) else present[section][name] != value
            if missing:
                inserted.setdefault(section, {})[name] = value
        elif present[section][name] != value or old.tag == "alias":
            edits.append(_replace_node(text, old, _entry(name, value).removeprefix(f"{name}: ")))
    newline = match[0] if (match := re.search(r"\r\n|\r|\n", text)) else "\n"
    new_sections = {}
    for section, entries in inserted.items():
        lines = [_entry(name, value) for name, value in entries.items()]
        node = _value_node(root, section)
        if node is None:
            new_sections[section] = lines
        elif isinstance(node, yaml.ScalarNode) or not node.value:  # an empty section
            edits.append(_replace_node(text, node, f"{{{', '.join(lines)}}}"))
        else:
            edits.append(_insert_entries(text, node, lines, newline))
    if new_sections and root.flow_style:
        lines = [f"{section}: {{{', '.join(lines)}}}" for section, lines in new_sections.items()]
        edits.append(_insert_entries(text, root, lines, newline))
    elif new_sections:
        edits.append(_append_sections(text, root, new_sections, newline))
    parts = []
    copied = 0
    for start, end, new in sorted(edits, key=lambda edit: edit[0]):
        parts += [text[copied:start], new]
        copied = end
    return "".join([*parts, text[copied:]])


def _value_node(mapping: yaml.Node | None, name: str) -> yaml.Node | None:
    """Returns the node of a key's value; None if the mapping lacks the key, or if the node is not a mapping."""
    entries = mapping.value if isinstance(mapping, yaml.MappingNode) else ()
    return next((node for key, node in entries if key.value == name), None)


def _entry(name: str, value: Any) -> str:
    """Returns `name: value` as YAML text without a line end."""
    return dump_yaml({name: value}).strip()


# An edit of a text: the positions where the replaced part starts and ends, and the text to put there.
_Edit = tuple[int, int, str]


def _replace_node(text: str, node: yaml.Node, new: str) -> _Edit:
    """Returns the edit that replaces the value of a node by the text `new`. White space after the value stays.

    Raises a `ValueError` if there may be a comment within the value.
    """
    start = node.start_mark.index
    old = text[start : node.end_mark.index].rstrip()
    if "#" in old:
        raise ValueError(f"there may be a comment within the value of line {node.start_mark.line + 1}")
    before = text[start - 1]
    colon = ":" if not old and before != ":" else ""  # a key without a colon, as in {key, other: 1}
    space = "" if before.isspace() and not colon else " "
    return start, start + len(old), f"{colon}{space}{new}"


def _insert_entries(text: str, mapping: yaml.Node, entries: Sequence[str], newline: str) -> _Edit:
    """Returns the edit that inserts entries, each `KEY: VALUE`, at the beginning of a mapping that is not empty."""
    first = mapping.value[0][0].start_mark
    question = re.search(r"\?[ \t]*\Z", text[: first.index])
    start = question.start() if question else first.index
    column = first.column - (first.index - start)
    separator = ", " if mapping.flow_style else newline + " " * column
    return start, start, "".join(entry + separator for entry in entries)


def _append_sections(text: str, root: yaml.Node, sections: Mapping[str, Sequence[str]], newline: str) -> _Edit:
    """Returns the edit that adds sections at the end of a document.

    Args:
        text: the text of the document.
        root: its root node.
        sections: the entries of each new section, each `KEY: VALUE`.
        newline: the line end of the document.
    """
    end = root.end_mark.index  # the end of the text, or the line `...`
    start = len(text[:end].rstrip())
    column = " " * root.start_mark.column
    blocks = (
        newline.join([f"{column}{section}:", *(f"{column}  {entry}" for entry in entries)])
        for section, entries in sections.items()
    )
    return start, end, "".join(f"{newline}{newline}{block}" for block in blocks) + newline


def _keys(node: yaml.Node | None, prefix: str = "", depth: int = 0) -> Iterator[tuple[str, int]]:
    """Yields the dotted key and the line, from 1, of every value below a node. Items of lists have their index as key.

    Raises a `ComposerError` if the document is nested too deeply.
    """
    if node and depth > DEEPEST_NESTING:
        raise yaml.composer.ComposerError(
            None, None, f"nested more than {DEEPEST_NESTING} levels deep", node.start_mark
        )
    if isinstance(node, yaml.MappingNode):
        children = [(key.value, key, value) for key, value in node.value]
    elif isinstance(node, yaml.SequenceNode):
        children = [(str(index), item, item) for index, item in enumerate(node.value)]
    else:
        return
    for name, key_node, value in children:
        yield f"{prefix}{name}", key_node.start_mark.line + 1
        yield from _keys(value, f"{prefix}{name}.", depth + 1)


def replaced(section: Mapping[str, Any], keys: Sequence[str], value: Any) -> dict[str, Any]:
    """Returns a copy of nested settings with one value changed. The original does not change.

    It is copied because two sections may be the same object, by an anchor of YAML.

    Args:
        section: nested dicts.
        keys: the keys that lead to the setting, from the outer dict to the inner. Missing dicts are added. If there is
            another value in the place of a dict, nothing is changed.
        value: the new value.
    """
    name, *rest = keys
    if rest:
        inner = section.get(name) or {}
        # A value in place of a section is kept; the schema refuses it later.
        value = replaced(inner, rest, value) if isinstance(inner, Mapping) else inner
    return {**section, name: value}
