"""A Sphinx extension: the reference shows the signatures and docstrings of this package in the form of its source.

Docstrings are Markdown with the sections of Google's style. Names in backticks become links if the reference has them,
and paths such as `docs/learn/inside.md` become links to the page. Signatures are read from the source, with types and
defaults as they are written there; private names in a type are replaced by public ones (`TYPES`).
"""

import ast
import builtins
import inspect
import re
import textwrap
import typing
from copy import deepcopy
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from types import FunctionType

from sphinx.util import logging

from qkv.runtime.import_tensorflow import importing_tensorflow

log = logging.getLogger(__name__)

HEADER = re.compile(
    r"((?:Args|Attributes|Call arguments|Returns|Yields|Raises|Example)(?:(?:,| and)[\w ,]+)?):(?: (.+))?"
)
ENTRY = re.compile(r"(\*{0,2}\w[\w.]*(?:, (?:or )?(?:\*{0,2}[\w.]+|\.\.\.))*): (.+)", re.DOTALL)
"""An argument, an attribute or an error, with its description. Several may share one."""
BOLD_OR_CODE = re.compile(
    r"(`[^`]+`|\"\w+\"|\*\*[^*\s][^*]*\*\*|(?<![\w*])\*\w+\*(?![\w*])|\bdocs/[\w/]+\.md\b|\bhttps?://\S+\b)"
)
DIRECTIVE = re.compile(r"^\.\. auto(?:class|function|data|decorator|exception|module):: ([\w.]+)", re.MULTILINE)
SHOWN_LENGTH = 60
"""The maximum length of a default in a signature."""

OUTSIDE = {"np": "numpy", "pd": "pandas", "tf": "tensorflow"}
TYPES = {
    "ScoreArgument": "str | dict | qkv.attention.scores.Score",
    "MechanismArgument": "str | dict | qkv.attention.mechanisms.Mechanism",
    "InitializerArgument": "str | dict | keras.Initializer",
    "RegularizerArgument": "str | dict | keras.Regularizer",
    "Sentences": "Sequence[str] | numpy.ndarray | pandas.Series",
    "SentenceOrPair": "str | tuple[str, str]",
    "Link": "tuple[int, int]",
    "Pair": "tuple[Sequence[int], Sequence[int]]",
    "Axes": "matplotlib.axes.Axes",
    "Colormap": "matplotlib.colors.Colormap",
    "Callback": "keras.callbacks.Callback",
}
"""Types of the source, and what signatures show instead."""
OPAQUE = {"Ban", "Calibration", "SpooledPairs"}
"""Types that users only pass on, which signatures show without a link."""
MODULES = {
    "attention.scores": "/extend/reference/scores",
    "attention.mechanisms": "/extend/reference/scores",
    "attention.masks": "/extend/reference/layers",
    "attention.relative_positions": "/extend/reference/layers",
    "training.loop": "/extend/plugins",
}
"""The page of each module that docstrings mention."""


def read_names(app):
    """Finds out which names the reference has, by their name there, their name in the source, and their last part."""
    folder = Path(app.srcdir, "extend/reference")
    text = "\n".join(page.read_text(encoding="utf-8") for page in sorted(folder.glob("*.md")))
    with importing_tensorflow():
        import_module("qkv.run.load_model")
    shown = {name: load(name) for name in DIRECTIVE.findall(text)}
    names.clear()
    for name, value in shown.items():
        module, qualified = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
        keys = {name, name.removeprefix("qkv."), name.rpartition(".")[2]}
        if module and qualified and module.startswith("qkv"):
            keys |= {f"{module}.{qualified}", f"{module}.{qualified}".removeprefix("qkv.")}
        for key in keys:
            names.setdefault(key, name)
    documented.clear()
    documented.update({name: value for name, value in shown.items() if isinstance(value, type)})


names = {}
documented = {}


@cache
def load(name):
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute)


# Signatures


def show_signature(app, what, name, value, options, arguments, result):
    if what not in ("class", "exception", "function", "method", "decorator"):
        return None
    if what == "class" and arguments == "()":  # as written in a page: users do not call the constructor
        return "", None
    node = definition(value)
    if node is None:
        return None
    if isinstance(node, ast.ClassDef):
        keyword_only = {field.name for field in getattr(value, "__dataclass_fields__", {}).values() if field.kw_only}
        arguments = dict(fields(value))
        shown = [argument for name, argument in arguments.items() if name not in keyword_only]
        if keyword_only:
            shown += ["*", *(argument for name, argument in arguments.items() if name in keyword_only)]
        return f"({', '.join(shown)})", None
    module = inspect.getmodule(value.__init__ if isinstance(value, type) else value)
    is_bound = isinstance(value, type) or (what == "method" and not is_static(name))
    arguments = signature(node.args, module, skip=is_bound)
    result = "" if isinstance(value, type) or node.returns is None else public_type(node.returns, module)
    return f"({', '.join(arguments)})", None if result == "None" else result or None


def is_static(name):
    class_name, _, attribute = name.rpartition(".")
    holder = documented.get(class_name)
    return isinstance(inspect.getattr_static(holder, attribute, None), staticmethod)


def definition(value):
    """Returns the syntax tree of a function, of the constructor of a class, or of a class that has only fields."""
    if isinstance(value, type):
        constructor = value.__init__
        is_own = inspect.isfunction(constructor) and constructor.__module__.startswith("qkv")
        if not (is_own and not hasattr(value, "__dataclass_fields__")):
            return tree(value) if has_fields(value) else None
        value = constructor
    return tree(value)


def has_fields(value):
    return hasattr(value, "__dataclass_fields__") or hasattr(value, "_fields")


@cache
def tree(value):
    return ast.parse(textwrap.dedent(inspect.getsource(value))).body[0]


def fields(value):
    """Yields the name of each field of a dataclass or a named tuple, and its argument as a signature shows it."""
    for base in reversed([base for base in value.__mro__ if base.__module__.startswith("qkv")]):
        module = inspect.getmodule(base)
        for node in tree(base).body:
            if isinstance(node, ast.AnnAssign) and not node.target.id.startswith("_"):
                default = node.value
                if isinstance(default, ast.Call):  # field(default_factory=dict)
                    default = next(ast.Call(x.value, [], []) for x in default.keywords if x.arg == "default_factory")
                if not ast.unparse(node.annotation).startswith("ClassVar"):
                    yield node.target.id, argument(node.target.id, node.annotation, default, module)


def signature(node, module, skip):
    """Yields the arguments of a function as they are written, with types and defaults.

    Args:
        skip: whether the first argument, such as `self`, is left out.
    """
    positional = [*node.posonlyargs, *node.args]
    defaults = [None] * (len(positional) - len(node.defaults)) + node.defaults
    for parameter, default in list(zip(positional, defaults, strict=True))[skip:]:
        yield argument(parameter.arg, parameter.annotation, default, module)
    if node.vararg:
        yield argument(f"*{node.vararg.arg}", node.vararg.annotation, None, module)
    elif node.kwonlyargs:
        yield "*"
    for parameter, default in zip(node.kwonlyargs, node.kw_defaults, strict=True):
        yield argument(parameter.arg, parameter.annotation, default, module)
    if node.kwarg:
        yield argument(f"**{node.kwarg.arg}", node.kwarg.annotation, None, module)


def argument(name, annotation, default, module):
    kind = "" if annotation is None else public_type(annotation, module)
    shown = f"{name}: {kind}" if kind else name
    if default is None:
        return shown
    value = ast.unparse(default)
    if value.isupper():  # a constant of the module
        value = repr(getattr(module, value))
        value = value if len(value) <= SHOWN_LENGTH else "..."
    return f"{shown} = {value}" if kind else f"{shown}={value}"


def public_type(annotation, module):
    """Returns a type as readers know it, with `~` before the names of this package. Returns "" for `Any` alone."""
    shown = ast.unparse(PublicNames(module).visit(deepcopy(annotation)))
    return "" if shown == "Any" else shown


class PublicNames(ast.NodeTransformer):
    """Replaces the names in an annotation, also in quotes, by public ones, and literals by their values."""

    def __init__(self, module):
        self.module = module

    def visit_Name(self, node):
        return ast.Name(public_name(ast.unparse(node), self.module))

    def visit_Attribute(self, node):
        return self.visit_Name(node)

    def visit_Constant(self, node):
        return self.visit(ast.parse(node.value, mode="eval").body) if isinstance(node.value, str) else node

    def visit_Subscript(self, node):
        if ast.unparse(node.value) == "Literal":
            values = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            return ast.Name(" | ".join(map(ast.unparse, values)))
        return self.generic_visit(node)


def public_name(name, module):
    if name in TYPES:
        return re.sub(r"\bqkv[\w.]+", lambda name: f"~{name[0]}", TYPES[name])
    first, _, rest = name.partition(".")
    if first in OUTSIDE:
        return f"{OUTSIDE[first]}.{rest}"
    value = getattr(module, name, None)
    if typing.get_origin(value) is typing.Literal:
        return " | ".join(map(repr, typing.get_args(value)))
    if name in names and (value is None or str(getattr(value, "__module__", "")).startswith("qkv")):
        return f"~{names[name]}"
    is_private = isinstance(value, type) and value.__module__.startswith("qkv")
    is_imported_for_types = first == name and not hasattr(builtins, name) and not hasattr(module, name)
    if (is_private or is_imported_for_types) and name not in OPAQUE:
        log.warning("%s: the type %s is not in the reference", module.__name__, name)
    return name


# Docstrings


def show_docstring(app, what, name, value, options, lines):
    if what == "data":
        lines[:] = [] if lines and lines[0] in (inspect.getdoc(type(value)) or "") else lines
        lines += ["", *choices(value)] if isinstance(value, dict | tuple) else []
    lines[:] = convert(lines, name)


def choices(table):
    """Yields a table of the names that an argument can have, and their meanings."""
    for name in table:
        value = table[name] if isinstance(table, dict) else ""
        value = getattr(value, "function", value)
        if isinstance(value, type):
            meaning = f"`{value.__name__}`"
        elif isinstance(value, FunctionType):
            meaning = (inspect.getdoc(value) or "").split("\n")[0]
        else:
            meaning = getattr(value, "meaning", value)
        yield f"- `{name}`: {meaning}" if meaning else f"- `{name}`"


def convert(lines, name):
    """Returns a docstring as reStructuredText."""
    converted = []
    position = 0
    while position < len(lines):
        line = lines[position]
        header = HEADER.fullmatch(line)
        if header is None:
            converted.append(line)
            position += 1
            continue
        end = position + 1
        while end < len(lines) and (not lines[end].strip() or lines[end].startswith(" ")):
            end += 1
        block = textwrap.dedent("\n".join(lines[position + 1 : end])).rstrip("\n").split("\n")
        converted += section(*header.groups(), block, name)
        position = end
    return markdown(converted, name)


def section(title, text, block, name):
    """Returns a section of a docstring: a field with a paragraph, or with an entry for each argument or error."""
    title = re.sub("^Args", "Arguments", title)
    if text and text.endswith(":"):
        body = [text, "", *entries(block)]
    elif text:
        body = [text, *(line.strip() for line in block)]
    elif title == "Example":
        return ["", ".. rubric:: Example", "", *block, ""]
    elif title in ("Returns", "Yields"):
        body = block
    else:
        body = list(entries(block))
    return ["", f":{title}:", *(f"    {line}".rstrip() for line in body), ""]


def entries(block):
    """Yields a definition for each argument, attribute or error."""
    starts = [number for number, line in enumerate(block) if ENTRY.match(line)]
    if not starts or starts[0] != 0:
        yield from block
        return
    for start, end in zip(starts, [*starts[1:], len(block)], strict=True):
        subjects, first = ENTRY.fullmatch(block[start]).groups()
        rest = textwrap.dedent("\n".join(block[start + 1 : end])).split("\n")
        yield re.sub(r"\*{0,2}\w[\w.]*", lambda word: word[0] if word[0] == "or" else f"`{word[0]}`", subjects)
        yield from (f"    {line}" for line in [first, *rest])


def markdown(lines, name):
    """Returns Markdown as reStructuredText: tables, and what is in backticks. Examples stay as they are."""
    converted = []
    is_example = False
    for line in with_whole_code(lines):
        is_example = line.lstrip().startswith(">>>") or (is_example and bool(line.strip()))
        if is_example:
            converted.append(line)
        elif line.lstrip().startswith("|"):
            converted += table_row(line, name, first=not (converted and converted[-1].startswith("     ")))
        else:
            converted.append(inline(line, name))
    return converted


def with_whole_code(lines):
    """Yields the lines. A line in which code begins, but does not end, is joined with the next one."""
    begun = ""
    for line in lines:
        line = f"{begun} {line.strip()}" if begun else line
        begun = line if line.count("`") % 2 else ""
        if not begun:
            yield line
    if begun:
        yield begun


def table_row(line, name, first):
    cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
    if all(re.fullmatch(":?-+:?", cell) for cell in cells):
        return []
    start = [".. list-table::", "    :header-rows: 1", ""] if first else []
    rows = [f"    {'* -' if number == 0 else '  -'} {inline(cell, name)}".rstrip() for number, cell in enumerate(cells)]
    return [*start, *rows]


def inline(text, name):
    """Returns a line with links and code, in which every other character stands for itself."""
    if re.match(r"\s*:[\w ,]+:$|\s*\.\. ", text):
        return text
    parts = []
    for number, part in enumerate(BOLD_OR_CODE.split(text)):
        if number % 2 == 0:
            parts.append(re.sub(r"([\\*|_])", r"\\\1", part))
        elif part.startswith("`"):
            parts.append(link(part.strip("`"), name))
        elif part.startswith('"'):  # a value of an argument
            parts.append(f"``{part}``")
        elif part.startswith("docs/"):
            parts.append(f":doc:`/{part.removeprefix('docs/').removesuffix('.md')}`")
        else:
            parts.append(part)
    for number in range(1, len(parts), 2):  # an end of markup needs a space or a mark after it, and a start before it
        if parts[number + 1][:1].isalnum():
            parts[number + 1] = "\\ " + parts[number + 1]
        if parts[number - 1][-1:].isalnum():
            parts[number - 1] += "\\ "
    return "".join(parts)


def link(code, name):
    """Returns code, as a link if the reference has its name."""
    if code in MODULES or code.removeprefix("qkv.") in MODULES:
        return f":doc:`{MODULES[code.removeprefix('qkv.')]}`"
    if target := find(code, name):
        shown = code.rpartition(".")[2] if code.removeprefix("qkv.")[0].islower() else code
        return f"``{shown}``" if target == name else f":py:obj:`{shown} <{target}>`"
    is_path = re.fullmatch(r"(qkv\.)?[a-z_]+(\.[a-z_]+)+(\.\w+)?", code)
    if (is_path and is_of_package(code)) or is_of_module(code, name):
        log.warning("%s: `%s` leads nowhere", name, code)
    return f"``{code}``"


def is_of_package(code):
    """Returns whether code is the path of a module of this package, or of something in one; settings are not."""
    name = "qkv." + code.removeprefix("qkv.")
    if name.endswith(".yaml"):  # a file
        return False
    try:
        return bool(load(name)) and not is_setting(code)
    except (ImportError, AttributeError):
        return False


def is_of_module(code, name):
    """Returns whether code is a class, a function or a constant of the module whose docstring it stands in."""
    shown = max(
        (shown for shown in names.values() if name == shown or name.startswith(f"{shown}.")), key=len, default=""
    )
    value = vars(inspect.getmodule(load(shown)) or builtins).get(code) if shown else None
    is_ours = isinstance(value, type | FunctionType) and value.__module__.startswith("qkv")
    return is_ours or (value is not None and len(code) > 1 and code.isupper())


def is_setting(code):
    """Returns whether code is the dotted key of a setting, such as `training.callbacks`."""
    section, _, key = code.partition(".")
    settings = load("qkv.config.RunConfig").model_fields
    return section in settings and key in settings[section].annotation.model_fields


def find(code, name):
    """Returns the full name of what `code` means in the docstring of `name`; None if the reference does not have it."""
    if code in names:
        return names[code]
    holders = [class_name for class_name in documented if name == class_name or name.startswith(f"{class_name}.")]
    before, _, attribute = code.rpartition(".")
    candidates = holders if not before else [names[before]] if before in names else []
    for class_name in candidates:
        if class_name in documented:
            return find_member(documented[class_name], attribute)
    return None


def find_member(holder, attribute):
    """Returns the full name of a member with a docstring, in the class of the reference that defines it."""
    for base in holder.__mro__:
        own = vars(base).get(attribute)
        if isinstance(own, property | cached_property | classmethod | staticmethod | FunctionType) and own.__doc__:
            key = f"{base.__module__}.{base.__qualname__}"
            return f"{names[key]}.{attribute}" if key in names else None
    return None


def skip_member(app, what, name, value, skip, options):
    """Leaves out the fields of named tuples, whose docstrings Python writes, and attributes that are classes."""
    is_field = str(getattr(value, "__doc__", "")).startswith("Alias for field number")
    return True if is_field or (what == "class" and isinstance(value, type)) else None


def setup(app):
    app.add_css_file("reference.css")
    app.connect("builder-inited", read_names)
    app.connect("autodoc-process-signature", show_signature)
    app.connect("autodoc-process-docstring", show_docstring)
    app.connect("autodoc-skip-member", skip_member)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
