"""The tables of names say what the layers and functions of these names do."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.alignment.links import EXTRACTORS
from pipeline.alignment.symmetrise import SYMMETRISATIONS
from pipeline.attention.mechanisms import MECHANISMS
from pipeline.attention.scores import SCORES
from pipeline.config import names
from pipeline.config.data import DataSettings
from pipeline.metrics import METRICS
from pipeline.model.build import MODELS
from pipeline.model.recurrent import DECODERS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("listed", "table"),
    [
        (names.SCORES, SCORES),
        (names.MECHANISMS, MECHANISMS),
        (names.RECURRENT_DECODERS, DECODERS),
        (names.EXTRACTIONS, EXTRACTORS),
        (names.SYMMETRISATIONS, SYMMETRISATIONS),
        (names.METRICS, METRICS),
        (names.CORPUS_PROBLEMS, [key[3:] for key in DataSettings.model_fields if key.startswith("on_")]),
        (names.ARCHITECTURES, [settings.model_fields["architecture"].default for settings in MODELS]),
    ],
    ids=[
        "scores",
        "mechanisms",
        "recurrent decoders",
        "extractions",
        "symmetrisations",
        "metrics",
        "corpus problems",
        "architectures",
    ],
)
def test_every_name_has_its_class_or_function_and_the_other_way_round(listed, table):
    assert set(listed) == set(table)


def test_names_come_without_pydantic_yaml_or_keras():
    heavy = "{'pydantic', 'yaml', 'jsonargparse', 'numpy', 'keras', 'tensorflow'}"
    code = f"import sys, pipeline.config.names; sys.exit(sorted({heavy} & set(sys.modules)) or 0)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


@pytest.mark.parametrize("mechanism", sorted(names.MECHANISMS))
def test_a_mechanism_reads_the_settings_that_its_row_names(mechanism):
    from pipeline.config.attention import AttentionSettings

    for key in names.MECHANISMS[mechanism].settings:
        assert AttentionSettings.model_fields[key].description.startswith(f"{mechanism}: ")


def string_lists(path):
    """Tuples, lists and sets of strings in a module, and the keys of dictionaries from strings to constants."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        elements: list[ast.expr | None] = []
        if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            elements = [*node.elts]
        elif isinstance(node, ast.Dict) and all(isinstance(value, ast.Constant) for value in node.values):
            elements = [*node.keys]
        yield {one.value for one in elements if isinstance(one, ast.Constant) and isinstance(one.value, str)}


def test_the_sites_are_listed_once():
    """A list with three of them is a second list of sites."""
    for path in sorted((ROOT / "pipeline").rglob("*.py")):
        if path.parent.name != "names":
            assert all(len(listed & names.SITES.keys()) < 3 for listed in string_lists(path)), path
    for path in (ROOT / "pipeline/inspection/viewer").glob("*.js"):
        assert not re.search(r"[\"'](norms|gradients|encoder|decoder)[\"']", path.read_text(encoding="utf-8")), path
