"""What may import what, read from the source: the layout's order, and where each library is let in."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PIPELINE = ROOT / "pipeline"

# Each may import from those above it.
ORDER = [
    "errors",
    "side_by_side",
    "native",
    "config_yaml",
    "config_messages",
    "config_model",
    "config_data",
    "config_training",
    "config",
    "config_resume",
    "config_cli",
    "config_decoding",
    "run_directory",
    "weights_file",
    "text",
    "layers",
    "attention",
    "model",
    "decoding",
    "inspection",
    "training",
    "manifest",
    "trained_run",
    "evaluation",
    "assembly",
    "checkup",
]
# These may import all of ORDER, and nothing imports them.
COMMANDS = {"align", "compare", "doctor", "draw", "train", "translate", "view"}

MODULES = sorted(PIPELINE.rglob("*.py"))


def name_of(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imports_of(path):
    """Every module that a file imports, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import"
            assert node.module
            yield node.module


def libraries_of(path):
    """The packages that a file imports, without those of Python itself and our own."""
    return {module.split(".")[0] for module in imports_of(path)} - set(sys.stdlib_module_names) - {"pipeline"}


def place_of(module):
    """The part of the layout that `pipeline.PART...` is in."""
    return module.split(".")[1]


@pytest.mark.parametrize(
    "path", [path for path in MODULES if path.parent != PIPELINE or path.stem != "__init__"], ids=name_of
)
def test_a_module_imports_only_from_above_it(path):
    here = place_of(name_of(path))
    for module in imports_of(path):
        if not module.startswith("pipeline"):
            continue
        assert module != "pipeline", f"{path}: name the module that is imported"
        there = place_of(module)
        assert there in ORDER, (
            f"{path} imports {module}: nothing imports a command, and every part has its place in ORDER"
        )
        if here not in COMMANDS:
            assert here in ORDER, f"{path} has no place in ORDER"
            assert ORDER.index(there) <= ORDER.index(here), f"{path} imports {module}, which is below it"


def test_modules_of_one_part_do_not_import_each_other_in_a_circle():
    graph = {name_of(path): {m for m in imports_of(path) if m.startswith("pipeline.")} for path in MODULES}
    done: set[str] = set()

    def visit(module, above):
        assert module not in above, " -> ".join([*above, module])
        if module not in done:
            for other in sorted(graph.get(module, ())):
                visit(other, [*above, module])
            done.add(module)

    for module in graph:
        visit(module, [])


@pytest.mark.parametrize("part", ["attention", "model"])
def test_layers_need_keras_and_numpy_alone(part):
    for path in (PIPELINE / part).glob("*.py"):
        assert libraries_of(path) <= {"keras", "numpy"}, path


def test_only_the_tokenizer_knows_the_libraries_of_subwords():
    users = {name_of(path) for path in MODULES if libraries_of(path) & {"tensorflow_text", "sentencepiece"}}
    assert users == {"pipeline.text.tokenizer"}


def test_inspection_reads_and_draws_without_tensorflow_and_keras():
    users = {
        path.stem for path in (PIPELINE / "inspection").glob("*.py") if libraries_of(path) & {"tensorflow", "keras"}
    }
    assert users == {"trace"}


SETTINGS = {f"pipeline.config{part}" for part in ("", "_model", "_data", "_training")}


def test_settings_stop_at_the_door():
    """Everything but the entry points, and what turns settings into a model or text, takes plain arguments."""
    readers = {name_of(path) for path in MODULES if SETTINGS & set(imports_of(path))}
    readers -= {"pipeline.config", "pipeline.config_data", "pipeline.config_training"}
    assert readers == {
        "pipeline.align",
        "pipeline.assembly",
        "pipeline.checkup",
        "pipeline.config_cli",
        "pipeline.config_resume",
        "pipeline.config_decoding",
        "pipeline.evaluation.command",
        "pipeline.evaluation.comparison",
        "pipeline.manifest",
        "pipeline.model.build",
        "pipeline.text.prepare",
        "pipeline.train",
        "pipeline.trained_run",
    }
