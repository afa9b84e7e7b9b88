"""The maps in the docstrings of packages list the modules that are there, and names in backticks exist."""

import ast
import functools
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.support import ROOT

PACKAGE = ROOT / "pipeline" / "qkv"

ENTRY = re.compile(r"- (`\w+`(?:, `\w+`)*): \S")

REFERENCE = re.compile(r"`([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)(?:\([^`]*\))?`")
NAME = re.compile(r"`(_?[A-Za-z]+(?:_[A-Za-z]+)+|_[A-Za-z]+|[A-Z]{3,}|(?:[A-Z][a-z]+){2,})`")
EXTENSIONS = {
    "csv",
    "html",
    "js",
    "json",
    "jsonl",
    "keras",
    "npz",
    "pdf",
    "png",
    "py",
    "safetensors",
    "svg",
    "tsv",
    "yaml",
}
OF_KERAS_MODELS = {"save", "stop_training", "trainable_variables"}
FROM_ELSEWHERE = {
    *[
        "ConcreteFunction",
        "flash_attention",
        "initial_epoch",
        "rms_scaling",
        "steps_per_epoch",
    ],  # of Keras and TensorFlow
    *["bias_NAME", "gain_NAME"],  # patterns of names
    "cmn_Hans",  # a language
}
"""Names in backticks that the package's code does not have."""


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


# Maps


def list_children(folder: Path) -> set[str]:
    """Returns the names of the modules and subpackages of a package."""
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    return modules | {path.parent.name for path in folder.glob("*/__init__.py")}


def check_map(folder: Path) -> list[str]:
    """Returns the mistakes in the map of a package."""
    docstring = ast.get_docstring(parse(folder / "__init__.py")) or ""
    mistakes, listed = [], Counter()
    for line in docstring.splitlines():
        if entry := ENTRY.match(line):
            listed.update(re.findall(r"\w+", entry[1]))
        elif line.startswith("- "):
            mistakes.append(f"expected '- `name`: noun phrase', found {line!r}")
    children = list_children(folder)
    mistakes += [f"`{name}` is not listed" for name in sorted(children - set(listed))]
    mistakes += [f"`{name}` is listed, and there is no such module" for name in sorted(set(listed) - children)]
    mistakes += [f"`{name}` is listed {count} times" for name, count in listed.items() if count > 1]
    return mistakes


@pytest.mark.parametrize(
    "folder",
    sorted(path.parent for path in PACKAGE.rglob("__init__.py")),
    ids=lambda folder: ".".join(folder.relative_to(PACKAGE.parent).parts),
)
def test_the_map_of_a_package_lists_each_of_its_modules_once(folder):
    assert check_map(folder) == []


# References


def top_level_names(body: Iterable[ast.stmt]) -> set[str]:
    """Returns the names that the statements of a module or class bind, also those below `if`, `try` and `with`."""
    names = set()
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names.update((alias.asname or alias.name).split(".")[0] for alias in node.names)
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.For):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names.update(name for target in targets for name in names_in(target))
        for inner in ("body", "orelse", "finalbody", "handlers"):
            if isinstance(node, ast.If | ast.Try | ast.ExceptHandler | ast.With | ast.For):
                names |= top_level_names(getattr(node, inner, []))
    return names


def names_in(expression: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(expression) if isinstance(node, ast.Name)}


def texts_in(tree: ast.AST) -> dict[int, str]:
    """Returns the docstrings by the identity of their nodes, also those below constants and fields."""
    statements = (node for node in ast.walk(tree) if isinstance(node, ast.Expr))
    values = (node.value for node in statements if isinstance(node.value, ast.Constant))
    return {id(value): value.value for value in values if isinstance(value.value, str)}


def attributes_of(definition: ast.ClassDef) -> set[str]:
    """Returns the names that a class defines in its body or sets on `self`."""
    attributes = [node for node in ast.walk(definition) if isinstance(node, ast.Attribute)]
    return top_level_names(definition.body) | {node.attr for node in attributes if ast.unparse(node.value) == "self"}


class Source:
    """The names of the package's modules and settings, read from the source without imports."""

    def __init__(self, package: Path):
        self.package = package
        self.files = {self.module_name(path): path for path in sorted(package.rglob("*.py"))}
        self.trees = {module: parse(path) for module, path in self.files.items()}
        self.module_names = {module.rpartition(".")[2] for module in self.trees}
        self.classes: dict[str, list[ast.ClassDef]] = {}
        self.aliases: dict[str, ast.expr] = {}
        self.attributes: set[str] = set()
        self.words = set(self.module_names)
        for tree in self.trees.values():
            docstrings = texts_in(tree)
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef):
                    self.classes.setdefault(node.name, []).append(node)
                    self.attributes |= attributes_of(node)
                elif isinstance(node, ast.Attribute):
                    self.attributes.add(node.attr)
                elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                    self.aliases[node.targets[0].id] = node.value
                if id(node) not in docstrings:
                    fields = (getattr(node, name, None) for name in ("id", "attr", "arg", "name", "value", "module"))
                    self.words.update(
                        word for text in fields if isinstance(text, str) for word in re.findall(r"\w+", text)
                    )
        for path in package.rglob("*.js"):
            self.words.update(re.findall(r"\w+", path.read_text(encoding="utf-8")))

        self.attributes_of_models = OF_KERAS_MODELS.union(*map(attributes_of, self.classes.get("TranslationModel", ())))

    def module_name(self, path: Path) -> str:
        return ".".join(path.relative_to(self.package).with_suffix("").parts).removesuffix("__init__").removesuffix(".")

    @functools.cache  # noqa: B019
    def names_of_module(self, module: str) -> set[str]:
        """Returns the names of a module; with `__getattr__` also those that are imported at their first use."""
        names = top_level_names(self.trees[module].body)
        if "__getattr__" in names:
            constants = [node.value for node in ast.walk(self.trees[module]) if isinstance(node, ast.Constant)]
            names |= {value for value in constants if isinstance(value, str)}
        return names

    def class_has(self, name: str, attribute: str) -> bool:
        """Returns whether a class of that name may have the attribute; a base from elsewhere may have every one."""
        for definition in self.classes[name]:
            bases = [ast.unparse(base).partition("[")[0] for base in definition.bases]
            if attribute in attributes_of(definition):
                return True
            for base in bases:
                if base not in {"ABC", "Generic", "NamedTuple", "Protocol"} and (
                    base not in self.classes or self.class_has(base, attribute)
                ):
                    return True
        return False

    def resolves(self, parts: list[str], module: str = "") -> bool:
        """Returns whether dotted parts, read from a module on, are a module or a name in one."""
        while parts and f"{module}.{parts[0]}".lstrip(".") in self.trees:
            module, parts = f"{module}.{parts[0]}".lstrip("."), parts[1:]
        if not parts:
            return True
        if parts[0] not in self.names_of_module(module):
            return False
        return len(parts) == 1 or parts[0] not in self.classes or self.class_has(parts[0], parts[1])

    def is_setting(self, parts: list[str]) -> bool:
        """Returns whether dotted parts are a key of the config, such as `training.seed`."""
        sections = {"RunConfig"}
        for part in parts:
            annotations = [
                field.annotation
                for section in self.related(sections)
                for definition in self.classes.get(section, ())
                for field in definition.body
                if isinstance(field, ast.AnnAssign) and ast.unparse(field.target) == part
            ]
            if not annotations:
                return False
            sections = set().union(*map(names_in, annotations))
        return True

    def related(self, names: set[str]) -> set[str]:
        """Returns the names with the bases of these classes, and the members of these unions, and so on."""
        reached: set[str] = set()
        ahead = set(names)
        while ahead:
            name = ahead.pop()
            reached.add(name)
            expressions = [base for definition in self.classes.get(name, ()) for base in definition.bases]
            expressions += [self.aliases[name]] if name in self.aliases else []
            ahead |= set().union(*map(names_in, expressions)) - reached
        return reached

    def is_dead(self, reference: str, text: str = "") -> bool:
        """Returns whether a dotted name in backticks in a docstring or comment leads nowhere.

        Judged are names that begin with `qkv`, with a class of the package, or with a module or package in it. The
        latter may be the end of a path: `measures.MEASURES` for `inspection.measures.MEASURES`. Names of files, keys of
        the config, and attributes of what the docstring lists as an argument or field are alive.
        """
        parts = reference.removeprefix("qkv.").split(".")
        if parts[-1] in EXTENSIONS or self.is_setting(parts):
            return False
        if reference.startswith("qkv."):
            return not self.resolves(parts)
        if parts[0] in self.classes:
            return not self.class_has(parts[0], parts[1])
        if parts[0] not in self.module_names:
            return False
        if parts[0] == "model" and parts[1] in self.attributes_of_models:
            return False
        if re.search(rf"^ *{parts[0]}: ", text, re.MULTILINE) and parts[1] in self.attributes:
            return False
        starts = {name.rpartition(".")[0] for name in self.trees if name.rpartition(".")[2] == parts[0]}
        return not any(self.resolves(parts, start) for start in starts)

    def prose(self, module: str) -> Iterator[str]:
        """Yields the docstrings and comments of a module."""
        yield from texts_in(self.trees[module]).values()
        lines = io.StringIO(self.files[module].read_text(encoding="utf-8")).readline
        yield from (token.string for token in tokenize.generate_tokens(lines) if token.type == tokenize.COMMENT)


@pytest.fixture(scope="module")
def source():
    return Source(PACKAGE)


def test_dotted_names_in_backticks_exist(source):
    dead = [
        f"{source.files[module].relative_to(ROOT)}: `{reference}`"
        for module in source.trees
        for text in source.prose(module)
        for reference in REFERENCE.findall(text)
        if source.is_dead(reference, text)
    ]
    assert dead == []


def test_names_in_backticks_occur_in_the_code(source):
    """Names with an underscore, in capitals or of several capitalised words; others may be words of the language."""
    unknown = [
        f"{source.files[module].relative_to(ROOT)}: `{name}`"
        for module in source.trees
        for text in source.prose(module)
        for name in NAME.findall(text)
        if name not in source.words | FROM_ELSEWHERE
    ]
    assert unknown == [], "names of other programs belong in FROM_ELSEWHERE"


@pytest.mark.parametrize(
    "reference",
    [
        "text.provenance.origin_of",
        "text.line",
        "text.line.compose",
        "inspection.split_score",
        "alignment.shared_tokens",
        "qkv.attention.softmax",
        "measures.MEASURE",
        "training.sead",
        "Progress.updates_to_come",
    ],
)
def test_a_dead_reference_is_found(source, reference):
    assert source.is_dead(reference)


@pytest.mark.parametrize(
    "reference",
    [
        "text.lines.line.compose",
        "measures.MEASURES",
        "qkv.batches",
        "model.keras",
        "model.d_ff",
        "model.encode",
        "training.max_updates",
        "TranslationModel.summary",
        "str.isspace",
    ],
)
def test_a_living_reference_is_not_found(source, reference):
    assert not source.is_dead(reference)


def test_an_attribute_of_an_argument_is_no_reference(source):
    assert not source.is_dead("text.tokenizer.size", "Args:\n    text: the text; `text.tokenizer.size` is its size.")
    assert source.is_dead("text.tokenizer.size")
