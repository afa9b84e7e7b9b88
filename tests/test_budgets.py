"""The house stays one to live in: files and functions that can be read at once."""

import ast
from pathlib import Path

PIPELINE = Path(__file__).parents[1] / "pipeline"
FILE_LINES, FUNCTION_LINES = 200, 40


def code_lines(function):
    """Lines of a function's code, without its docstring, decorators and comments above."""
    docstring = function.body[0] if ast.get_docstring(function) else None
    return function.end_lineno - function.lineno + 1 - (docstring.end_lineno - docstring.lineno + 1 if docstring else 0)


def test_no_file_has_more_than_200_lines():
    sizes = {str(path): len(path.read_text(encoding="utf-8").splitlines()) for path in PIPELINE.rglob("*.py")}
    assert {path: lines for path, lines in sizes.items() if lines > FILE_LINES} == {}


def test_no_function_has_more_than_40_lines_of_code():
    """Constructors with their documented arguments excepted."""
    over = {
        f"{path}:{node.lineno} {node.name}": code_lines(node)
        for path in PIPELINE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name != "__init__" and code_lines(node) > FUNCTION_LINES
    }
    assert over == {}
