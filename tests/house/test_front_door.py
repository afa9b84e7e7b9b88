"""`import qkv`: fast, and every name of the package is where editors and type checkers are told."""

import ast
import inspect
import json
import pkgutil
import re
import subprocess
import sys
from importlib import import_module
from textwrap import dedent

import pytest
import yaml

import qkv
from qkv.commands.train import settable_keys
from qkv.config import RunConfig
from qkv.config.decoding import DecodingSettings
from qkv.config.run import make_run_config
from tests.support import ROOT

PACKAGE = ROOT / "pipeline" / "qkv" / "__init__.py"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def told_to_type_checkers():
    """(module, name there) of each name of the package that is imported below `TYPE_CHECKING`."""
    block = next(node for node in ast.parse(PACKAGE.read_text(encoding="utf-8")).body if isinstance(node, ast.If))
    return {alias.asname: (node.module or "", alias.name) for node in block.body for alias in node.names}


def test_the_table_names_what_type_checkers_are_told():
    modules = {name: ("", name) for name in qkv._MODULES}
    table = {name: (place, name) for place, names in qkv._EXPORTS.items() for name in names} | modules
    assert table == told_to_type_checkers()


@pytest.mark.parametrize("name", told_to_type_checkers())
def test_every_name_is_there(name):
    place, there = told_to_type_checkers()[name]
    module = import_module(f"qkv.{place}" if place else "qkv")
    assert getattr(qkv, name) is getattr(module, there)
    assert name in dir(qkv)


def test_all_lists_every_name_of_the_table_and_the_version():
    table = {name for names in qkv._EXPORTS.values() for name in names}
    assert sorted(qkv.__all__) == sorted({*table, *qkv._MODULES, "__version__"})


def literal_names(path):
    """The strings of a module's `__all__`, which is a literal list, as pyright needs it; None without it."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return ast.literal_eval(node.value)
    return None


LISTING = {
    ".".join(path.relative_to(PACKAGE.parent.parent).with_suffix("").parts).removesuffix(".__init__"): names
    for path in sorted(PACKAGE.parent.rglob("*.py"))
    if (names := literal_names(path)) is not None
}
"""The names of each `__all__`, by module."""


@pytest.mark.parametrize("name", LISTING)
def test_every_name_of_all_exists(name):
    module = import_module(name)
    assert module.__all__ == LISTING[name] and len({*LISTING[name]}) == len(LISTING[name])
    missing = [exported for exported in LISTING[name] if not hasattr(module, exported)]
    assert missing == []


def codes_of_pages():
    """Yields (page, code) of each block of Python of the pages, and of each cell and solution of the lessons."""
    for page in PAGES:
        for code in re.findall(r"^ *```py(?:thon)?\n(.*?)^ *```$", page.read_text(encoding="utf-8"), re.M | re.S):
            yield page, dedent(code)
    for notebook in (ROOT / "docs").rglob("*.ipynb"):
        for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] == "code":
                yield notebook, "".join(line for line in cell["source"] if not line.startswith(("%", "!")))


def used_by_pages():
    """The pairs (module, name) that the pages import, or read as an attribute of `qkv` or of a module of it."""
    used = set()
    for page, code in codes_of_pages():
        for node in ast.walk(ast.parse(code, str(page))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "qkv":
                used |= {(node.module, alias.name) for alias in node.names}
            elif isinstance(node, ast.Attribute):
                module = ast.unparse(node.value)
                used |= {(module, node.attr)} if re.fullmatch(r"qkv(\.[a-z_]+)*", module) else set()
    return sorted(used)


def test_every_name_that_a_page_uses_is_public():
    """It is in the `__all__` of its module; a lesson may also look into a module that has none."""
    used = used_by_pages()
    assert len(used) > 30 and ("qkv.plugins", "register_score") in used and ("qkv", "load") in used
    hidden = [
        f"{module}.{name}"
        for module, name in used
        if name not in LISTING.get(module, [name]) or name.startswith("_") or not hasattr(import_module(module), name)
    ]
    assert hidden == []


MODULES_OF_PAGES = {
    module
    for page, code in codes_of_pages()
    if page.suffix == ".md"
    for module in re.findall(r"from (qkv\S*) import", code)
}


@pytest.mark.parametrize("module", sorted(MODULES_OF_PAGES))
def test_a_module_that_a_page_imports_from_lists_its_names(module):
    assert module in LISTING


COMING_FROM = ROOT / "docs" / "use" / "coming_from.md"
OBJECTS = {
    "run": "qkv.api.Run",
    "model": "qkv.model.transformer.Transformer",
    "record": "qkv.inspection.record.Record",
    "inside": "qkv.inspection.experiments.activations.Inside",
}
"""The class of each object that the page's right column names."""


EXCERPT = {"data": {"source_language": "en", "target_language": "fr", "validation": {"pairs": 9}}}
EXCERPT["data"]["train"] = {"source": "a.en", "target": "a.fr", "alignments": "a.align"}


def codes_of_our_column():
    """The pieces of code in the last column of the page's tables."""
    rows = re.findall(r"^\| `.*\|(.*)\|$", COMING_FROM.read_text(encoding="utf-8"), re.MULTILINE)
    codes = [code for row in rows for code in re.findall(r"`([^`]+)`", row)]
    return sorted({*codes, "qkv.heatmap(matrix, rows, columns)"})


SETTABLE = {key for key, _ in settable_keys()}
SET = [
    code
    for code in codes_of_our_column()
    if re.match(r"(data|tokenizer|batches|model|training|decoding)\.[^(]*$", code)
]
CALLED = [
    code for code in codes_of_our_column() if re.match(rf"(qkv|{'|'.join(OBJECTS)})\b(?! \w)", code) and code not in SET
]
COMMAND = r"(python train\.py|python evaluate\.py|qkv \w+)( |$)"  # parsed by test_documents.py
INSIDE = r'(encoder|decoder)\.0(\.\w+)+|search="\w+"|pairs=|reference'  # a value inside a model, or an argument


def test_the_page_for_those_who_know_another_library_has_a_table_of_names():
    assert len(CALLED) >= 35
    assert len(SET) >= 50
    for code in {*codes_of_our_column()} - {*CALLED, *SET}:
        is_option = code.removeprefix("--") in SETTABLE
        assert is_option or re.match(COMMAND, code) or re.fullmatch(INSIDE, code), code


@pytest.mark.parametrize("code", SET)
def test_a_setting_for_those_who_know_another_library_exists_and_takes_the_value(code):
    key, _, value = code.partition(": ")
    assert any(f"{setting}.".startswith(f"{key}.") for setting in SETTABLE), code
    if value:
        of_recurrent = key in ("model.cross_attention", "model.decoder")
        settings = {"training.max_updates": 9, **({"model.architecture": "recurrent"} if of_recurrent else {})}
        config = make_run_config(EXCERPT, {}, "page", {**settings, key: yaml.safe_load(value)})
        assert isinstance(config, RunConfig)


@pytest.mark.parametrize("code", CALLED)
def test_a_name_for_those_who_know_another_library_exists(code):
    """Attributes exist, and calls take the arguments. `**decoding` takes the settings of the config's section."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Attribute) and DOTTED.fullmatch(ast.unparse(node)):
            find_object(ast.unparse(node))
        if isinstance(node, ast.Call) and DOTTED.fullmatch(ast.unparse(node.func)):
            parameters = inspect.signature(find_object(ast.unparse(node.func))).parameters
            keywords = {keyword.arg for keyword in node.keywords}
            keywords -= {*DecodingSettings.model_fields, "seed"} if "decoding" in parameters else set()
            takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
            assert takes_any or keywords <= {*parameters}


DOTTED = re.compile(rf"(qkv|{'|'.join(OBJECTS)})(\.\w+)+")


def find_object(name):
    """What a dotted name of the page is; None for an attribute that objects have and their class has not."""
    first, *attributes = name.split(".")
    value = pkgutil.resolve_name(OBJECTS[first]) if first in OBJECTS else qkv
    for attribute in attributes:
        if attribute in getattr(value, "__annotations__", {}) and not hasattr(value, attribute):
            return None
        value = getattr(value, attribute)
    return value


def test_an_unknown_name_is_an_error_of_attributes():
    with pytest.raises(AttributeError, match="'qkv' has no attribute 'lod'"):
        qkv.lod  # noqa: B018


def test_nothing_is_imported_before_it_is_needed():
    program = "import sys, qkv; dir(qkv); print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "qkv" in loaded
    assert not {"numpy", "pydantic", "yaml", "keras", "tensorflow", "pandas"} & {*loaded}


def test_metrics_are_there_after_the_package_alone():
    program = "import sys, qkv; print(qkv.metrics.__name__, 'tensorflow' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert answer == "qkv.metrics False\n"
