"""The tables of names say what the layers and functions of these names do."""

import ast
import re
import subprocess
import sys

import pytest
import sacrebleu

from qkv.alignment.links import EXTRACTORS, SYMMETRISATION_FUNCTIONS
from qkv.attention.mechanisms import MECHANISM_CLASSES
from qkv.attention.scores import SCORE_CLASSES
from qkv.config import choices
from qkv.inspection.head_types import MARKED_KEYS
from qkv.metrics import METRIC_FUNCTIONS
from qkv.model.build import MODELS
from qkv.model.freezing import PARTS
from qkv.model.interface import has_segments
from qkv.model.recurrent import DECODERS
from qkv.text.tokens.words import MARKS
from qkv.training.callbacks import CALLBACK_FACTORIES
from tests.support import ROOT

TABLES_OF_NAMES = {
    "scores": (choices.model.SCORE_INFO, SCORE_CLASSES),
    "mechanisms": (choices.model.MECHANISM_INFO, MECHANISM_CLASSES),
    "recurrent decoders": (choices.model.RECURRENT_DECODERS, DECODERS),
    "extractions": (choices.inspection.EXTRACTIONS, EXTRACTORS),
    "types of heads": (choices.inspection.HEAD_TYPES, MARKED_KEYS),
    "symmetrisations": (choices.inspection.SYMMETRISATIONS, SYMMETRISATION_FUNCTIONS),
    "metrics": (choices.translation.METRIC_INFO, METRIC_FUNCTIONS),
    "tokenizers of BLEU": (choices.translation.BLEU_TOKENIZERS, sacrebleu.BLEU.TOKENIZERS),
    "marks of words": (choices.text.WORD_MARKS, MARKS),
    "callbacks": (choices.training.CALLBACK_INFO, CALLBACK_FACTORIES),
    "parts of models": (choices.model.MODEL_PARTS, PARTS),
    "architectures": (choices.model.ARCHITECTURES, [one.model_fields["architecture"].default for one in MODELS]),
}


@pytest.mark.parametrize("name", TABLES_OF_NAMES)
def test_every_name_has_its_class_or_function_and_the_other_way_round(name):
    listed, table = TABLES_OF_NAMES[name]
    assert set(listed) == set(table)


@pytest.mark.parametrize("score", sorted(choices.model.SCORE_INFO))
def test_a_score_can_do_what_its_row_says(score):
    row, layer = choices.model.SCORE_INFO[score], SCORE_CLASSES[score]
    assert (row.projected, row.by_angle, row.is_product) == (layer.projected, layer.by_angle, layer.is_product)


@pytest.mark.parametrize("mechanism", sorted(choices.model.MECHANISM_INFO))
def test_a_mechanism_can_do_what_its_row_says(mechanism):
    row, layer = choices.model.MECHANISM_INFO[mechanism], MECHANISM_CLASSES[mechanism]
    assert (row.compares, row.holds_weights) == (layer.uses_score, layer.holds_weights)
    assert row.takes_segments == layer.takes_segments
    assert layer.shares_query_and_key <= ("cross" in dict(row.refused))


@pytest.mark.parametrize("settings", MODELS)
def test_an_architecture_takes_segments_if_its_row_says_so(settings):
    name = settings.model_fields["architecture"].default
    assert choices.model.TAKES_SEGMENTS[name] == has_segments(MODELS[settings])


def test_names_come_without_pydantic_yaml_or_keras():
    heavy = "{'pydantic', 'yaml', 'numpy', 'keras', 'tensorflow'}"
    code = f"import sys, qkv.config.choices; sys.exit(sorted({heavy} & set(sys.modules)) or 0)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


@pytest.mark.parametrize("mechanism", sorted(choices.model.MECHANISM_INFO))
def test_a_mechanism_reads_the_settings_that_its_row_names(mechanism):
    from qkv.config.attention import TransformerAttention

    row = choices.model.MECHANISM_INFO[mechanism]
    for site, section in TransformerAttention.model_fields.items():
        fields = section.annotation.model_fields
        assert set(row.settings) <= set(fields) or site in dict(row.refused)
        for key in set(row.settings) & set(fields):
            assert fields[key].description.startswith(f"With {mechanism}: ")


def test_the_page_lists_no_sites():
    for path in (ROOT / "pipeline/qkv/inspection/viewer").rglob("*.js"):
        assert not re.search(r"[\"'](norms|gradients|encoder|decoder)[\"']", path.read_text(encoding="utf-8")), path


# What names of a list are called by other programs, or are parts of.
TABLES = {
    "exchange/compatibility.py",
    "exchange/ctranslate2_model.py",
    "inspection/experiments/row_steps.py",
    "live/model_page.py",
    "model/freezing.py",
}
LISTS = {
    name: set(table)
    for module in (choices.inspection, choices.model, choices.text, choices.training, choices.translation)
    for name, table in vars(module).items()
    if name.isupper() and not name.startswith("_") and not isinstance(table, str)
}


def words_of(literal):
    items = literal.keys if isinstance(literal, ast.Dict) else literal.elts
    return {item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)}


def test_no_closed_list_is_written_a_second_time():
    """A literal with all names of a list, or with three and more; but for tables from names to functions, classes
    or arrays, which other tests hold against the lists."""
    copies = []
    for path in sorted((ROOT / "pipeline" / "qkv").rglob("*.py")):
        place = path.relative_to(ROOT / "pipeline" / "qkv").as_posix()
        if place.startswith("config/choices/") or place in TABLES:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Dict) and not any(isinstance(value, ast.Constant) for value in node.values):
                continue
            if isinstance(node, ast.Tuple | ast.List | ast.Set | ast.Dict):
                words = words_of(node)
                copies += [
                    f"{place}:{node.lineno} {name}"
                    for name, members in LISTS.items()
                    if words == members or (len(words) > 2 and words < members)
                ]
    assert not copies
