"""Mutants of the code: each has one small change by an operator of Cosmic Ray."""

import ast
import hashlib
import warnings
from collections import defaultdict
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from pathlib import Path

import cosmic_ray.plugins
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.ast.ast_query import ASTQuery
from cosmic_ray.mutating import mutate_code

PIPELINE = Path("pipeline/qkv")
TRAINING = "accumulation checkpoints loss optimizers schedule slices step stopping time_budget"
TEXT = "batch_plan batch tokens/encoding"
ALIGNMENT = "error_rate linking links readout word_matrix"
# What the project exists for: folders with all that is in them, and files.
PACKAGES = {
    "attention": ["attention"],
    "model": ["model"],
    "layers": ["layers"],
    "decoding": ["decoding"],
    "training": [f"training/{name}.py" for name in TRAINING.split()],
    "text": [f"text/{name}.py" for name in TEXT.split()],
    "metrics": ["metrics"],
    "alignment": [f"alignment/{name}.py" for name in ALIGNMENT.split()],
}


@dataclass(frozen=True)
class Mutant:
    """A module with one change.

    Args:
        package: a key of `PACKAGES`.
        module: the path of the module.
        definition: the function or class that is changed; "" for the module's own lines.
        line: the line that is changed, without its indentation.
        column: where in that line.
        repetition: how many equal lines of the module stand above.
        row: the line's number, from 1.
        operator, occurrence: what Cosmic Ray needs to make the change.
    """

    package: str
    module: str
    definition: str
    line: str
    column: int
    repetition: int
    row: int
    operator: str
    occurrence: int

    @property
    def place(self) -> tuple[str | int, ...]:
        """Names the place, wherever the lines around it move."""
        return self.module, self.definition, self.line, self.repetition, self.column

    @property
    def identity(self) -> str:
        """Names the mutant, and is its place in the sample: random, and the same wherever the code around it moves."""
        return hashlib.sha256(repr((*self.place, self.operator)).encode()).hexdigest()[:12]

    def code(self) -> str | None:
        """Returns the module with the change; None if there is none, or one that Python and `make lint` complain of,
        such as `x is "a"`."""
        code = Path(self.module).read_text(encoding="utf-8")
        try:
            mutated = mutate_code(code, OPERATORS[self.operator], self.occurrence)
        except AttributeError:  # Cosmic Ray 8.7 cannot replace an exception whose name has a dot
            return None
        if mutated == code:
            return None
        try:  # `{**x}` becomes `{>>x}`
            with warnings.catch_warnings(action="error", category=SyntaxWarning):
                compile(mutated, self.module, "exec")
        except SyntaxError:  # as a warning that is an error is raised too
            return None
        return mutated

    def change(self) -> str:
        """Returns the lines before and after."""
        before, after = Path(self.module).read_text(encoding="utf-8").splitlines(), (self.code() or "").splitlines()
        first = next(i for i, (x, y) in enumerate(zip(before, after, strict=False)) if x != y)
        last = 0  # lines from the end that are equal
        while before[-1 - last] == after[-1 - last] and min(len(before), len(after)) - last > first:
            last += 1
        old, new = before[first : len(before) - last], after[first : len(after) - last]
        return " / ".join(line.strip() for line in old) + " -> " + " / ".join(line.strip() for line in new)


def operators():
    """Returns all operators of Cosmic Ray that need no arguments, by name."""
    classes = {name: cosmic_ray.plugins.get_operator(name) for name in sorted(cosmic_ray.plugins.operator_names())}
    return {name: class_() for name, class_ in classes.items() if not class_.arguments() and "NoOp" not in name}


OPERATORS = operators()


def modules() -> dict[str, list[str]]:
    """Returns the paths of each package's modules."""
    return {
        package: sorted(
            str(path)
            for name in names
            for path in ([PIPELINE / name] if name.endswith(".py") else (PIPELINE / name).rglob("*.py"))
        )
        for package, names in PACKAGES.items()
    }


def mutants_of(package: str, module: str) -> list[Mutant]:
    """Returns all mutants of a module, but for those of annotations, which nothing reads."""
    code = Path(module).read_text(encoding="utf-8")
    lines = code.splitlines()
    nodes = list(ast_nodes(get_ast(code)))
    annotations = annotated(code)
    mutants = []
    for name, operator in OPERATORS.items():
        positions = ((node, *place) for node in nodes for place in operator.mutation_positions(node))
        for occurrence, (node, (row, column), _) in enumerate(positions):
            if any(first <= (row, column) < last for first, last in annotations):
                continue
            line = lines[row - 1].strip()
            column -= len(lines[row - 1]) - len(lines[row - 1].lstrip())
            above = sum(other.strip() == line for other in lines[: row - 1])
            definition = ASTQuery(node).get_definition_name() or ""
            mutants.append(Mutant(package, module, definition, line, column, above, row, name, occurrence))
    return mutants


def annotated(code: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Returns where each annotation begins and ends."""
    nodes = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation:
            nodes.append(node.annotation)
        elif isinstance(node, ast.FunctionDef) and node.returns:
            nodes.append(node.returns)
    return [((node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)) for node in nodes]


def one_of_each_place(mutants: list[Mutant]) -> list[Mutant]:
    """Draws one mutant of each place: `a + b` alone has eleven, and a test that notices one notices most."""
    places = defaultdict(list)
    for mutant in mutants:
        places[mutant.place].append(mutant)
    return sorted((min(those, key=identity) for those in places.values()), key=identity)


def identity(mutant: Mutant) -> str:
    return mutant.identity


def sample(count: int, least: int) -> list[Mutant]:
    """Draws `count` mutants, in proportion to those of each package, but at least `least` of each.

    They come mixed, so that a run that is broken off has a sample too.
    """
    places = {
        package: one_of_each_place([mutant for path in paths for mutant in mutants_of(package, path)])
        for package, paths in modules().items()
    }
    total = sum(map(len, places.values()))
    drawn = []
    for mutants in places.values():
        number = max(least, round(count * len(mutants) / total))
        valid = islice((mutant for mutant in mutants if mutant.code() is not None), number)
        drawn += [(place / number, mutant.identity, mutant) for place, mutant in enumerate(valid)]
    return [mutant for _, _, mutant in sorted(drawn, key=itemgetter(0, 1))]
