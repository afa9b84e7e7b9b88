"""`import qkv`: fast, and every name of the package is where editors and type checkers are told."""

import ast
import subprocess
import sys
from importlib import import_module

import pytest

import qkv
from tests.support import ROOT

PACKAGE = ROOT / "pipeline" / "qkv" / "__init__.py"


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
