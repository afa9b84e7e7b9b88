"""The reference has every public name once, and pages and reference lead to each other."""

import json
import re
from collections import Counter
from functools import cache
from importlib import import_module, util

import pytest

import qkv
from tests.support import ROOT

DOCS = ROOT / "docs"
REFERENCE = sorted((DOCS / "extend/reference").glob("*.md"))
OBJECT = re.compile(r"^\.\. (?:auto\w+|py:module):: ([\w.]+)", re.MULTILINE)
IMPORT = re.compile(r"^\s*from (qkv[\w.]*) import ([\w, ]+)", re.MULTILINE)
EXPLAINED = re.compile(r"\]\((\.\./(?:\.\./)?(?:use|learn)/\w+\.md|\.\./\w+\.md)")


def reference_names():
    return [name for page in REFERENCE for name in OBJECT.findall(page.read_text(encoding="utf-8"))]


@cache
def load(name):
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute)


def imports_of_pages():
    """The names that pages import from the package; lessons look into its inner parts too."""
    for path in [ROOT / "README.md", *sorted(DOCS.rglob("*.md")), *sorted(DOCS.glob("use/*.ipynb"))]:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".ipynb":
            text = "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])
        for module, names in IMPORT.findall(text):
            yield from (f"{module}.{name}" for name in names.split(", "))


def test_every_name_of_the_package_is_in_the_reference_once():
    shown = Counter(reference_names())
    assert {name: shown[f"qkv.{name}"] for name in qkv.__all__ if shown[f"qkv.{name}"] != 1} == {}


def test_nothing_is_in_the_reference_under_two_names():
    objects = Counter(id(load(name)) for name in reference_names())
    assert [name for name in reference_names() if objects[id(load(name))] > 1] == []


def test_what_pages_import_is_in_the_reference():
    shown = {id(load(name)) for name in reference_names()}
    assert [name for name in imports_of_pages() if id(load(name)) not in shown] == []


@pytest.mark.parametrize("page", [page for page in REFERENCE if page.stem != "names"], ids=lambda page: page.stem)
def test_a_page_that_explains_a_name_links_the_reference(page):
    explaining = {(page.parent / link).resolve() for link in EXPLAINED.findall(page.read_text(encoding="utf-8"))}
    silent = [path.name for path in explaining if f"/{page.name}" not in path.read_text(encoding="utf-8")]
    assert silent == []


@pytest.fixture(scope="module")
def docstrings():
    pytest.importorskip("sphinx")
    spec = util.spec_from_file_location("docstrings", DOCS / "_site/docstrings.py")
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.names.update({"Run": "qkv.Run", "qkv.Run": "qkv.Run", "run.Run": "qkv.Run"})
    return module


def test_sections_of_a_docstring_become_fields(docstrings):
    text = """Makes a `Run` of a_b * 2, see docs/use/python.md and `(x,
y)`.

Args: as in `f`, and:
    size, **kwargs: the size, "small" or
        larger.

Returns:
    `(a, b)`: both.

Example:
    >>> a_b * `c`
"""
    assert docstrings.convert(text.split("\n"), "qkv.g") == [
        "Makes a :py:obj:`Run <qkv.Run>` of a\\_b \\* 2, see :doc:`/use/python` and ``(x, y)``.",
        "",
        "",
        ":Arguments:",
        "    as in ``f``, and:",
        "",
        "    ``size``, ``**kwargs``",
        '        the size, ``"small"`` or',
        "        larger.",
        "",
        "",
        ":Returns:",
        "    ``(a, b)``: both.",
        "",
        "",
        ".. rubric:: Example",
        "",
        ">>> a_b * `c`",
        "",
    ]


def test_a_signature_shows_types_and_defaults_of_the_source(docstrings):
    shown = [docstrings.show_signature(None, "class", "", qkv.Residual, None, None, None)[0]]
    shown.append(docstrings.show_signature(None, "function", "", qkv.load, None, None, None))
    assert shown == [
        "(norm: 'pre' | 'post' = 'pre', dropout: float = 0.0, **kwargs)",
        ("(path: str | Path, checkpoint: str = 'best')", "~qkv.Run"),
    ]
