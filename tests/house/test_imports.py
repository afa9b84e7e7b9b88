"""What may import what, read from the source: the layout's order, and where each library is let in."""

import ast
import functools
import sys

import pytest

from tests.support import ROOT

PIPELINE = ROOT / "pipeline" / "qkv"

# Each may import from itself and from those before it.
ORDER = [
    "version",
    "errors",
    "files",
    "runtime",
    "config",
    "text",
    "layers",
    "attention",
    "model",
    "decoding",
    "losses",
    "statistics",
    "metrics",
    "inspection",
    "training",
    "run",
    "alignment",
    "markup",
    "evaluation",
    "exchange",
    "live",
    "results",
    "api",
    "plugins",
    "commands",
    "__main__",
]

MODULES = sorted(PIPELINE.rglob("*.py"))


def name_of(path):
    return ".".join(path.relative_to(PIPELINE.parent).with_suffix("").parts).removesuffix(".__init__")


NAMES = {name_of(path) for path in MODULES}


@functools.cache
def imports_of(path):
    """Every module that a file imports, by its absolute name, also inside functions."""
    package = path.relative_to(PIPELINE.parent).parent.parts
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*above, *([node.module] if node.module else [])])
            found |= {f"{module}.{alias.name}" for alias in node.names} & NAMES or {module}
    return found


@functools.cache
def graph():
    """The modules of ours that each of them imports, by name."""
    return {name_of(path): {module for module in imports_of(path) if module.startswith("qkv.")} for path in MODULES}


def libraries_of(path):
    """The packages that a file imports, without those of Python itself and our own."""
    return {module.split(".")[0] for module in imports_of(path)} - set(sys.stdlib_module_names) - {"qkv"}


def room_of(module):
    """The room of the layout that `qkv.ROOM...` is in."""
    return module.split(".")[1]


@pytest.mark.parametrize(
    "path", [path for path in MODULES if path.parent != PIPELINE or path.stem != "__init__"], ids=name_of
)
def test_a_module_imports_only_from_before_it(path):
    here = room_of(name_of(path))
    for module in imports_of(path):
        if not module.startswith("qkv"):
            continue
        assert module != "qkv", f"{path}: name the module that is imported"
        there = room_of(module)
        assert here in ORDER and there in ORDER, f"{path} imports {module}: every room has its place in ORDER"
        assert ORDER.index(there) <= ORDER.index(here), f"{path} imports {module}, which comes after it"


def test_imports_inside_the_package_are_relative():
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            absolute = [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            absolute += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not any(name.split(".")[0] in ("qkv",) for name in absolute), f"{path}:{node.lineno}"


def test_layers_use_only_what_keras_makes_public():
    for path in MODULES:
        if path.relative_to(PIPELINE).parts[0] in ("layers", "attention", "model"):
            assert not any(name.startswith("keras.src") for name in imports_of(path)), path


def test_no_modules_import_each_other_in_a_circle():
    done: set[str] = set()

    def visit(module, above):
        assert module not in above, " -> ".join([*above, module])
        if module not in done:
            for other in sorted(graph().get(module, ())):
                visit(other, [*above, module])
            done.add(module)

    for module in graph():
        visit(module, [])


COMPUTE = "align doctor evaluate export import_marian live train translate"
COMPUTE = [f"commands.{name}" for name in COMPUTE.split()]
COMPUTE += ["run.trained_run", "training.build", "decoding.build", "exchange.parity", "evaluation.evaluate_set"]


@pytest.mark.parametrize("module", COMPUTE)
def test_what_computes_in_float32_imports_what_makes_its_products_full(module):
    found, ahead = set(), {f"qkv.{module}"}
    while ahead:
        found |= ahead
        imported = set().union(*(graph()[one] for one in ahead))
        ahead = (imported | {one.rpartition(".")[0] for one in imported}) - found - {"qkv"}  # packages, too
    assert "qkv.runtime.devices" in found


@pytest.mark.parametrize("part", ["layers", "attention", "model"])
def test_layers_need_keras_and_numpy_alone(part):
    for path in (PIPELINE / part).rglob("*.py"):
        of_backend = {"tensorflow"} if path.stem == "keras_layers" else set()  # loaded where it is the backend alone
        assert libraries_of(path) <= {"keras", "numpy"} | of_backend, path


def test_only_the_tokenizer_and_what_is_exported_know_the_libraries_of_subwords():
    users = {name_of(path) for path in MODULES if libraries_of(path) & {"tensorflow_text", "sentencepiece"}}
    of_text = ("marian_tokenizer", "subword_models", "tokenizer", "run_tokenizer")
    exported = {f"qkv.exchange.{name}" for name in ("saved_model", "argos_package")}
    assert users == {f"qkv.text.tokens.{name}" for name in of_text} | exported


def test_no_class_is_imported_that_refuses_an_older_protobuf():
    """The code that SentencePiece generated by protobuf 7.36 refuses TensorFlow's protobuf in many notebooks."""
    assert not [path for path in MODULES if "sentencepiece_model_pb2 import" in path.read_text(encoding="utf-8")]


NEED_A_MODEL = {
    *["activations", "changed_mechanism", "intervention", "logit_parts", "perturbation", "pronouns"],
    *["recorder", "removal", "row_steps", "score_parts", "spectra"],
}


def test_inspection_reads_and_draws_without_tensorflow_and_keras():
    """All of it but what runs a model."""
    users = {
        path.stem for path in (PIPELINE / "inspection").rglob("*.py") if libraries_of(path) & {"tensorflow", "keras"}
    }
    assert users == NEED_A_MODEL


READERS = {
    "alignment": "aligned_text gold",
    "api": "__init__",
    "commands": "align cli doctor evaluate explain export import_marian link live train",
    "decoding": "build",
    "evaluation": "confidence page request systems tuning",
    "exchange": "export marian_config marian_import model_card",
    "model": "build",
    "run": "__init__ ancestor doctor ensemble keras_batches manifest saving start trained_run training",
    "text": "corpora.formats corpora.held_out corpora.provenance prepare text_reader tokens.run_tokenizer "
    "training_text",
    "training": "build callbacks.build",
}
READERS = {f"qkv.{room}.{name}".removesuffix(".__init__") for room, names in READERS.items() for name in names.split()}


def test_settings_stop_at_the_door():
    """Commands, and what builds models, text or evaluations from settings, read a config; all else takes arguments.

    The lists of names are everybody's.
    """
    readers = {
        name_of(path)
        for path in MODULES
        if path.parent != PIPELINE / "config"
        and any(
            module.startswith("qkv.config") and not module.startswith("qkv.config.choices")
            for module in imports_of(path)
        )
    }
    assert readers == READERS


# Tests that belong to no single module, or to several.
OF_NO_MODULE = {
    "attention": "attention_contract keras_masks key_value_heads",
    "config": "defaults",
    "decoding": "given_prefixes",
    "exchange": "fine_tuned_marian marian_model",
    "files": "failing_files",
    "inspection": "archive_page known_tasks",
    "layers": "examples keras_contract",
    "live": "live_in_browser",
    "model": "architectures backends built_models cached_decoding future keras_models model_layer_contract "
    "packed_rows saved_model_file",
    "run": "kept_runs",
    "training/optimizers": "optimizers",
    "training": "copies_to_host fewer_operations machines resumed_runs run_in_tensorboard "
    "run_training several_workers started_from_runs workers_apart",
}
OF_NO_MODULE = {f"{room}/test_{name}" for room, names in OF_NO_MODULE.items() for name in names.split()}


def files_under_test(test):
    """The files of the package that a test file is about, by its path: modules, packages or scripts of a page."""
    place = test.relative_to(ROOT / "tests")
    module = PIPELINE / place.with_name(place.name.removeprefix("test_"))
    files = [module, module.with_suffix("") / "__init__.py", module.with_suffix(".js")]
    if len(place.parts) > 2:  # one of several files about a module
        files += [PIPELINE / place.parent.with_suffix(suffix) for suffix in (".py", ".js")]
    return [file for file in files if file.is_file()]


def imports_of_test(test):
    """The modules of ours that a test file imports, itself or by the files of `tests/support` that it imports.

    A name that a package has from one of its modules stands for that module.
    """
    modules, names = set(), set()
    for node in ast.walk(ast.parse(test.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules.add(node.module)
            names |= {(node.module, alias.name) for alias in node.names}
    modules |= {f"{module}.{name}" for module, name in names if f"{module}.{name}" in NAMES}
    modules |= {MADE_BY[name] for name in names if name in MADE_BY}
    support = {module for module in modules if module.startswith("tests.support.")}
    return modules.union(*(imports_of_test(ROOT / f"{module.replace('.', '/')}.py") for module in support))


def names_of_packages():
    """The module that each name comes from which a package imports from one of its modules."""
    found = {}
    for path in PIPELINE.rglob("__init__.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module:
                found |= {(name_of(path), alias.name): f"{name_of(path)}.{node.module}" for alias in node.names}
    return found


MADE_BY = names_of_packages()


def test_every_test_file_stands_at_its_modules_path_and_imports_it():
    for path in (ROOT / "tests").rglob("test_*.py"):
        place = path.relative_to(ROOT / "tests")
        if (
            place.parts[0] in ("data", "benchmarks", "house", "journeys", "site")
            or str(place.with_suffix("")) in OF_NO_MODULE
        ):
            continue
        files = files_under_test(path)
        assert files, f"{path}: no module at its path"
        modules = {name_of(file) for file in files if file.suffix == ".py"}
        assert not modules or modules & imports_of_test(path), f"{path}: expected an import of {sorted(modules)}"
    gone = {name for name in OF_NO_MODULE if not (ROOT / "tests" / f"{name}.py").is_file()}
    assert not gone, f"listed and not there: {gone}"
