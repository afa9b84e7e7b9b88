"""Config files: read as YAML 1.2, written as what reads back, and named with the line where they are damaged."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from qkv.config import RunConfig, load_run_config
from qkv.config.model import DecoderOnlySettings, RecurrentSettings, TransformerSettings
from qkv.config.run import dump
from qkv.config.schema import walk
from qkv.config.yaml import dump_yaml, edit_yaml, parse_yaml
from tests.support import ROOT
from tests.support.tiny_runs import MINIMAL, problem

CONFIGS = sorted((ROOT / "configs").glob("*.yaml"))


UNSET = (
    "data.test.",
    "data.normalize.",
    "data.filters.",
    "training.guided_attention.",
)  # null, so that their keys are not stated


class TestFiles:
    @pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
    def test_every_config_loads_under_its_own_name(self, path: Path):
        assert load_run_config(path).run.name == path.stem

    @pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
    def test_every_config_says_at_its_top_how_to_run_it(self, path: Path):
        header = re.match(r"(#.*\n)+", path.read_text()).group()
        assert f"python train.py --config configs/{path.name}" in header

    @pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
    def test_a_saved_config_loads_as_an_equal_one(self, path: Path, tmp_path: Path):
        config = load_run_config(path)
        (tmp_path / "config.yaml").write_text(dump(config), encoding="utf-8")
        assert load_run_config(tmp_path / "config.yaml") == config

    def test_a_saved_config_states_every_key(self, config_file: Path):
        text = dump(load_run_config(config_file))
        other = [set(kind.model_fields) for kind in (RecurrentSettings, DecoderOnlySettings)]
        elsewhere = set.union(*other) - set(TransformerSettings.model_fields)
        names = {key.rpartition(".")[2] for key, _ in walk(RunConfig) if not key.startswith(UNSET)} - elsewhere
        assert [name for name in names if f"{name}:" not in text] == []

    @given(st.text(st.characters(exclude_categories=["Cs"])) | st.floats(allow_nan=False, allow_infinity=False))
    @example("a\u2028b\x85c\r\n")
    @example("1e3")
    def test_a_dumped_config_reads_back_as_the_same_config(self, value: Any):
        assert parse_yaml(dump_yaml({"key": value})) == {"key": value}

    @pytest.mark.parametrize(
        ("text", "value"),
        [("no", "no"), ("1e-9", 1e-9), ("1:30", "1:30"), ("2024-01-01", "2024-01-01"), ("010", "010"), ("true", True)],
    )
    def test_scalars_mean_what_they_look_like(self, text: str, value: Any):
        assert parse_yaml(text) == value

    @pytest.mark.parametrize(
        ("text", "edited"),
        [
            ("model: # sizes\n  # wide\n  d_model: 8 # (1)\n", "model: # sizes\n  # wide\n  d_model: 16 # (1)\n"),
            ("model:\n    d_ff: 4\n", "model:\n    d_model: 16\n    d_ff: 4\n"),
            ("model: {d_ff: 4} # flow\n", "model: {d_model: 16, d_ff: 4} # flow\n"),
            ("model: # empty\nrun: {seed: 1}\n", "model: {d_model: 16} # empty\nrun: {seed: 1}\n"),
            ("model: {}\n", "model: {d_model: 16}\n"),
            ("run:\n  seed: 1 # last", "run:\n  seed: 1 # last\n\nmodel:\n  d_model: 16\n"),
            ("model:\n  d_model:\n", "model:\n  d_model: 16\n"),
            ('model:\r\n  d_model: "é" #\r\n', "model:\r\n  d_model: 16 #\r\n"),
            ("model:\n  d_model: 16.0\n", "model:\n  d_model: 16.0\n"),
        ],
    )
    def test_a_value_is_edited_and_the_rest_stays(self, text: str, edited: str):
        assert edit_yaml(text, {"model.d_model": 16}) == edited

    def test_several_values_are_edited_one_after_another_and_null_is_not_inserted(self):
        values = {"model.d_model": 16, "training.max_updates": None, "model.d_ff": 64, "training.schedule": "clock"}
        edited = edit_yaml("model:\n  d_model: 8\ntraining: {max_minutes: 5} # short\n", values)
        assert edited == "model:\n  d_ff: 64\n  d_model: 16\ntraining: {schedule: clock, max_minutes: 5} # short\n"

    @pytest.mark.parametrize("text", ["model: &m {d_model: 8}\nrun: *m\n", "model: {d_model: &d 8}\nrun: {a: *d}\n"])
    def test_values_that_others_share_are_not_edited(self, text: str):
        with pytest.raises(ValueError, match=r"aliases|not valid YAML"):
            edit_yaml(text, {"model.d_model": 16})

    def test_the_language_code_of_norwegian_is_text(self, config_file: Path):
        config_file.write_text(MINIMAL.replace("target_language: fr", "target_language: no"))
        assert load_run_config(config_file).data.target_language == "no"

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("", "small.yaml: expected sections of settings .* found nothing"),
            ("# only this\n", "small.yaml: expected sections of settings .* found nothing"),
            ("hello", "small.yaml: expected sections of settings .* found str 'hello'"),
            ("model:\n  d_model: [1\n  d_ff: 2\n", "small.yaml:3: this is not valid YAML"),
            ("model:\n\td_model: 1\n", "small.yaml:2: this is not valid YAML"),
            ("model: !!int x\n", "small.yaml: this is not valid YAML"),
            ("model: \a\n", "small.yaml: this is not valid YAML"),
            ("model: {}\nmodel: {}\n", "small.yaml:2: model is given twice; the first is at small.yaml:1"),
        ],
    )
    def test_a_damaged_file_is_named_with_the_line(self, config_file: Path, text: str, told: str):
        assert re.match(told, problem(config_file, text=text))

    def test_a_file_that_is_not_utf_8_is_refused(self, config_file: Path):
        config_file.write_bytes(b"# caf\xe9\n")
        assert problem(config_file) == "small.yaml: expected UTF-8 text, found byte 0xe9"

    def test_a_missing_file_is_named(self, tmp_path: Path):
        assert "No such file" in problem(tmp_path / "absent.yaml")
