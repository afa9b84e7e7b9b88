"""Every config in `configs/` describes a model that can be built, and `own.yaml` needs nothing but a table."""

import re

import pytest

from qkv.config import load_run_config
from qkv.config.run import make_run_config
from qkv.config.yaml import parse_yaml
from qkv.files.run_directory import RunDirectory
from qkv.model.build import build_model
from qkv.text.prepare import prepare_text
from tests.support import ROOT

CONFIGS = sorted((ROOT / "configs").glob("*.yaml"))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_config_builds_its_model(path):
    config = load_run_config(path)
    model = build_model(config.model, config.tokenizer.vocabulary_size)
    assert model.count_params() > config.tokenizer.vocabulary_size * model.output_embedding.width


OWN = (ROOT / "configs" / "own.yaml").read_text(encoding="utf-8")


def test_own_text_needs_a_table_and_languages_alone(tmp_path):
    files = [ROOT / "data" / "demo" / f"train.{side}" for side in ("en", "fr")]
    pairs = zip(*(path.read_text(encoding="utf-8").splitlines()[:2000] for path in files), strict=True)
    table = tmp_path / "pairs.tsv"
    table.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    values = parse_yaml(OWN.replace("my/pairs.tsv", str(table)))
    values["tokenizer"]["vocabulary_size"] = 300
    text = prepare_text(make_run_config(values, {}, "own"), RunDirectory.create(tmp_path / "run"))
    assert len(text.validation) == 20
    assert 1900 < len(text.segmentations[0].source) <= 1960


def test_what_own_text_offers_in_comments_can_be_taken():
    """Every other form of a key that stands in a comment below it is a valid one."""
    lines = OWN.splitlines()
    forms = [line for line in lines if re.match(r"  # (train|validation|test): \{", line)]
    assert len(forms) == 5
    for form in forms:
        key = re.match(r"  # (\w+):", form)[1]
        taken = [form.replace("# ", "", 1) if line.startswith(f"  {key}: ") else line for line in lines]
        section = getattr(make_run_config(parse_yaml("\n".join(taken)), {}, "own").data, key)
        assert (section.source or section.table) and not getattr(section, "is_held_out", False)


def test_own_text_marks_its_six_knobs_where_they_are_set():
    explained, set_ = OWN.split("\ndata:\n")
    for number in range(1, 7):
        assert f"({number})" in explained and f"({number})" in set_
