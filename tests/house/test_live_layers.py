"""Experiments read and change a model through the tap: nothing is set on a live layer, which other threads may run."""

import ast

import pytest

from tests.support import ROOT

PACKAGES = ("inspection", "decoding")


def is_on_another_object(node):
    return isinstance(node, ast.Attribute) and not (isinstance(node.value, ast.Name) and node.value.id == "self")


def changes_of_others(source):
    """The lines that set or delete an attribute of an object other than `self`."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("setattr", "delattr"):
            found.append(node.lineno)
        targets = getattr(node, "targets", None) or [getattr(node, "target", None)]
        found += [node.lineno for target in targets if is_on_another_object(target)]
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_no_attribute_of_another_object_is_set(package):
    paths = sorted((ROOT / "pipeline" / "qkv" / package).rglob("*.py"))
    found = {path.name: changes_of_others(path.read_text(encoding="utf-8")) for path in paths}
    assert paths and not {name: lines for name, lines in found.items() if lines}


def test_what_is_set_on_a_layer_is_found():
    lines = ["layer.call = call", "del layer.call", "setattr(layer, 'call', call)", "self.call = call", "call = 1"]
    assert [len(changes_of_others(line)) for line in lines] == [1, 1, 1, 0, 0]
