"""The numbers that show where the structure strains: modules, closets, long signatures, settings and options.

A number is the largest that is allowed, and points at a place to look. A change that raises one says in its row why.
Lines are not counted: code that was written to be short was harder to read.
"""

import ast
from collections import Counter
from itertools import pairwise

import pytest

from tests.support import ROOT

PACKAGE = ROOT / "pipeline" / "qkv"
SETTINGS = PACKAGE / "config"
MANY_PARAMETERS = 8

BUDGETS = {
    # the heat map of one matrix is apart from the figure of a record, which imports it; the table of heads' matrices;
    # searches without a run; models of Keras that become runs; pairs from Python have a reader, as files have; the page
    # that explains queries, keys and values, another page than the live one, and its numbers that take the test set;
    # the packing of pairs into rows, another way than to plan batches of similar lengths; the folder of programs that
    # XLA has compiled; the package of Argos Translate, the model card of an export, and the names of languages for
    # both; the confidence of translations, which commands, Python and evaluations use; markup: where tags belong, the
    # text with marks, HTML, placeholders, and their translation; the service for other programs: its interface, a run
    # as a translator of texts, and calls made together; `qkv link`, and the statistics of its links; the statistics of
    # a run's training text, which stay in the run and link the words of any pair
    "modules": 290,
    "modules with a single importer": 35,  # `run.saving`, which only the interface of Python needs
    "modules beside the packages": 8,  # `api` and its `results`, and `losses` for Keras
    "modules in one folder": 18,  # `training`, with the scale of the loss
    "functions with many parameters": 10,  # calls of attention take the masks that Keras keeps, too
    # six options that loops over tables added, such as `--require` and `--target_words`, are written out and counted;
    # `batches.packed`, which a processor can do without and XLA cannot; `updates_per_call`, which a test on a processor
    # sets; `data.corpus` and `data.licence`, which only the user knows and a model card states; `--confidence` of two
    # commands, and `--at_least`, which leaves doubtful translations out; `--markup`; `--api`, for who wants programs to
    # call the live page's server; `align --stdin`, for programs that send a pair and wait for its links; the text of
    # `qkv link`
    "settings and options": 271,
}


def module_name(path):
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix("__init__").removesuffix(".")


def imported_names(path, tree):
    """Yields the modules that a module may import, by their names in the package."""
    package = [*path.relative_to(PACKAGE).parent.parts]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = [*package[: len(package) - node.level + 1], *(node.module or "").split(".")]
            full = ".".join(filter(None, base))
            yield from (full, *(f"{full}.{alias.name}".lstrip(".") for alias in node.names))


def count_importers(trees):
    """The number of modules that import each; a package's `__init__` is a map and no importer."""
    names = {module_name(path) for path in trees if path.name != "__init__.py"}
    importers = Counter()
    for path, tree in trees.items():
        if path.name != "__init__.py":
            importers.update(names.intersection(imported_names(path, tree)) - {module_name(path)})
    return importers


def parameters(function):
    given = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return sum(one.arg not in ("self", "cls") for one in given)


def settings_and_options(path, tree):
    """Settings of sections of the config, each with its description below it, and options of commands but `--help`."""
    calls = [node for node in ast.walk(tree) if getattr(getattr(node, "func", None), "attr", "") == "add_argument"]
    added = sum("'--help'" not in ast.dump(call) for call in calls)
    bodies = [node.body for node in tree.body if isinstance(node, ast.ClassDef) and path.parent == SETTINGS]
    fields = [
        isinstance(field, ast.AnnAssign)
        and isinstance(below, ast.Expr)
        and "ClassVar" not in ast.dump(field.annotation)
        for body in bodies
        for field, below in pairwise(body)
    ]
    return added + sum(fields)


@pytest.fixture(scope="module")
def counts():
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    functions = [node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    folders = Counter(path.parent for path in texts)
    return {
        "modules": len(texts),
        "modules with a single importer": sum(count == 1 for count in count_importers(trees).values()),
        "modules beside the packages": folders[PACKAGE],
        "modules in one folder": max(folders.values()),
        "functions with many parameters": sum(parameters(function) >= MANY_PARAMETERS for function in functions),
        "settings and options": sum(settings_and_options(path, tree) for path, tree in trees.items()),
    }


@pytest.mark.parametrize("name", BUDGETS)
def test_a_number_is_not_above_its_budget(counts, name):
    assert counts[name] <= BUDGETS[name]
