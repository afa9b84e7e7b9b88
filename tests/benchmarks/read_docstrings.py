"""Prints docstrings with their signatures and without their bodies, to be read as a stranger reads them.

    python -m tests.benchmarks.read_docstrings --draw 60 --seed 7
    python -m tests.benchmarks.read_docstrings --under attention model

A docstring is plain if its reader says at the first reading what goes in, what comes out and when it fails.
"""

import argparse
import ast
import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).parents[2] / "pipeline" / "qkv"
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class Docstring(NamedTuple):
    """A docstring, its place (file, line and name), and the lines of code that its reader may see."""

    place: str
    signature: str
    text: str


def read_docstrings(file: Path) -> Iterator[Docstring]:
    """Yields the docstrings of a module, its classes and its functions, in their order."""
    source = file.read_text(encoding="utf-8")
    tree = ast.parse(source)
    path = file.relative_to(PACKAGE)
    yield from _of_node(tree, f"{path}", source.splitlines())
    yield from _of_children(tree, f"{path}", source.splitlines())


def _of_children(parent: ast.AST, name: str, lines: list[str]) -> Iterator[Docstring]:
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _of_node(node, f"{name}:{node.lineno} {node.name}", lines)
            yield from _of_children(node, f"{name}:{node.lineno} {node.name}", lines)
        else:
            yield from _of_children(node, name, lines)


def _of_node(node: Documented, place: str, lines: list[str]) -> Iterator[Docstring]:
    text = ast.get_docstring(node)
    if text:
        yield Docstring(place, _signature(node, lines), text)


def _signature(node: Documented, lines: list[str]) -> str:
    """Returns the lines of a function from `def` to the docstring; a class also with its fields and `__init__`."""
    if isinstance(node, ast.Module):
        return ""
    signature = lines[node.lineno - 1 : node.body[0].lineno - 1]
    if isinstance(node, ast.ClassDef):
        fields = [child for child in node.body if isinstance(child, ast.AnnAssign)]
        signature += [line for field in fields for line in lines[field.lineno - 1 : field.end_lineno]]
        for child in node.body:
            if isinstance(child, ast.FunctionDef) and child.name == "__init__":
                signature += lines[child.lineno - 1 : child.body[0].lineno - 1]
    return "\n".join(signature)


def main() -> None:
    """Prints the docstrings that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draw", type=int, metavar="N", help="print N docstrings drawn at random (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the draw")
    parser.add_argument("--under", nargs="+", default=[""], metavar="PATH", help="only below these paths")
    options = parser.parse_args()
    files = [file for file in sorted(PACKAGE.rglob("*.py")) if _is_under(file, options.under)]
    docstrings = [docstring for file in files for docstring in read_docstrings(file)]
    if options.draw is not None:
        docstrings = random.Random(options.seed).sample(docstrings, options.draw)
    for number, docstring in enumerate(docstrings, 1):
        print(f"--- {number} {docstring.place}", docstring.signature, docstring.text, "", sep="\n")


def _is_under(file: Path, paths: list[str]) -> bool:
    path = file.relative_to(PACKAGE)
    return any(not under or path.is_relative_to(under) for under in paths)


if __name__ == "__main__":
    main()
