"""Lists the public names that modules of the package bind to different things.

    python -m tests.benchmarks.names_bound_twice
    python -m tests.benchmarks.names_bound_twice FOLDER

A name with two meanings makes every search of the code for it ambiguous. Counted are classes, functions and tables
(constants of modules) that two modules define. Imports are not definitions, and neither are names that repeat one of
another module (`Name = other.Name`) or stand for any type. Methods, private names, and the names in `IN_MANY_MODULES`
are left out.
"""

import argparse
import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "pipeline" / "qkv"
IN_MANY_MODULES = {"log", "main", "make_parser"}
"""Names that stand for the same role in each module."""


def find_names_bound_twice(package: Path) -> dict[str, list[str]]:
    """Returns the names that several modules below a folder define, each with `KIND file:line` of its definitions."""
    places: dict[str, dict[Path, str]] = defaultdict(dict)
    for file in sorted(package.rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        imported = {
            alias.asname or alias.name
            for node in ast.walk(tree)
            for alias in getattr(node, "names", ())
            if isinstance(alias, ast.alias)
        }
        for name, kind, line in _definitions(tree.body):
            if not name.startswith("_") and name not in IN_MANY_MODULES | imported:
                places[name].setdefault(file, f"{kind} {file.relative_to(package)}:{line}")
    return {name: list(files.values()) for name, files in sorted(places.items()) if len(files) > 1}


def _definitions(body: list[ast.stmt]) -> Iterator[tuple[str, str, int]]:
    """Yields name, kind and line of all that the statements of a module define, also below `if`, `try` and `with`."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield node.name, "class", node.lineno
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, "function", node.lineno
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                elements = target.elts if isinstance(target, ast.Tuple) else [target]
                for element in elements:
                    if isinstance(element, ast.Name) and not _is_other(element.id, node.value):
                        yield element.id, "table", node.lineno
        elif isinstance(node, ast.If | ast.Try | ast.With):
            for inner in ("body", "orelse", "finalbody"):
                yield from _definitions(getattr(node, inner, []))
            for handler in getattr(node, "handlers", []):
                yield from _definitions(handler.body)


def _is_other(name: str, value: ast.expr | None) -> bool:
    """Returns whether a value is a type variable, or the attribute of that name of another module."""
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "TypeVar":
        return True
    return isinstance(value, ast.Attribute) and value.attr == name


def main() -> None:
    """Prints the names, then their number."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "folder", nargs="?", type=Path, default=PACKAGE, help="the package (default: that of the clone)"
    )
    names = find_names_bound_twice(parser.parse_args().folder)
    for name, places in names.items():
        print(f"{name}: {', '.join(places)}")
    print(f"{len(names)} names")


if __name__ == "__main__":
    main()
