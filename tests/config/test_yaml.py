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
from qkv.config.yaml import dump_yaml, edit_yaml, parse_yaml, replaced
from tests.support import ROOT
from tests.support.tiny_runs import MINIMAL, problem

CONFIGS = sorted((ROOT / "configs").glob("*.yaml"))


UNSET = (
    "data.test.",
    "data.normalize.",
    "data.filters.",
    "training.guided_attention.",
)  # null, so that their keys are not stated

SECTIONS, NAMES = ("run", "model", "training"), ("seed", "d_model", "schedule")


@st.composite
def styled_configs(draw: st.DrawFn) -> tuple[str, int]:
    """A config in some style, whose comments are numbered, and how many comments it has."""
    number = 0

    def comment() -> str:
        nonlocal number
        if draw(st.booleans()):
            return ""
        number += 1
        return f" # note {number - 1}é\t."

    anchors: list[str] = []

    def scalar(indentation: int) -> str:
        kind = draw(st.sampled_from(["plain", "plain", "quoted", "tag", "anchor", "alias", "block", "below", "empty"]))
        value = draw(st.sampled_from(["8", "0.5", "noam", "null", "é"]))
        below = "\n" + " " * (indentation + 2)
        if kind == "alias" and anchors:
            return f" *{draw(st.sampled_from(anchors))}{comment()}"
        if kind == "anchor":
            anchors.append(f"a{len(anchors)}")
            return f" &{anchors[-1]} {value}{comment()}"
        if kind == "block":
            return f" {draw(st.sampled_from(['|', '|-', '>', '|+']))}{comment()}{below}{value}"
        if kind == "below":
            return f"{comment()}{below}{value}{comment()}"
        styled = {"quoted": f' "{value}"', "tag": f" !!str {value}", "empty": ""}
        return styled.get(kind, f" {value}") + comment()

    def block(indentation: int, depth: int) -> str:
        names = draw(st.lists(st.sampled_from(NAMES if depth else SECTIONS), min_size=1, unique=True))
        lines = []
        for name in names:
            start = " " * indentation
            key = draw(st.sampled_from([name, name, f'"{name}"', f"? {name}\n{start}"]))
            style = draw(st.sampled_from(["block", "block", "flow", "empty", "merge"])) if depth == 0 else "scalar"
            if style == "scalar":
                value = scalar(indentation)
            elif style == "flow":
                entries = draw(st.lists(st.sampled_from(["seed: 1", "d_model: 8", '"schedule":"x"']), unique=True))
                value = f" {{{', '.join(entries)}}}{comment()}"
            elif style == "empty":
                value = comment()
            elif style == "merge":
                value = f"{comment()}\n{start}  <<: {{d_model: 5}}{comment()}"
            else:
                value = f"{comment()}\n{block(indentation + draw(st.integers(1, 3)), depth + 1)}"
            lines.append(f"{start}{key}:{value}")
        return "\n".join(lines)

    if draw(st.integers(0, 5)) == 0:
        sections = draw(
            st.lists(
                st.sampled_from(["run: {}", "model: {d_model: 8}", '"training": {seed: 1}']), min_size=1, unique=True
            )
        )
        text = f"{{{', '.join(sections)}}}{comment()}"
    else:
        text = block(draw(st.integers(0, 2)), 0)
    start = draw(st.sampled_from(["", "---\n", "\n"]))
    end = draw(st.sampled_from(["", "\n", "\n\n", "\n...\n"]))
    newline = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    return (start + text + end).replace("\n", newline), number


class TestFiles:
    @pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
    def test_every_config_loads_under_its_own_name(self, path: Path):
        assert load_run_config(path).run.name == path.stem

    @pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
    def test_every_config_says_at_its_top_how_to_run_it(self, path: Path):
        header = re.match(r"(#.*\n)+", path.read_text()).group()
        assert re.search(rf"^#   (python train.py --config|cp) configs/{path.name}\b", header, re.MULTILINE)

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

    @pytest.mark.parametrize(
        ("text", "edited"),
        [
            ("run:\n  seed: 1\n  name:", "run:\n  seed: 1\n  name:\n\nmodel:\n  d_model: 16\n"),
            ("model:\r\n  d_ff: 4\r\n", "model:\r\n  d_model: 16\r\n  d_ff: 4\r\n"),
            ("run:\r  seed: 1\r", "run:\r  seed: 1\r\rmodel:\r  d_model: 16\r"),
            ("model:\n  d_model: 8 #\ta tab\n", "model:\n  d_model: 16 #\ta tab\n"),
            ("{model: {d_model: 8}} # flow\n", "{model: {d_model: 16}} # flow\n"),
            ("{run: {seed: 1}}\n", "{model: {d_model: 16}, run: {seed: 1}}\n"),
            ('{"model": {"d_model":8}}', '{"model": {"d_model": 16}}'),
            ("model: {d_model, d_ff: 4}\n", "model: {d_model: 16, d_ff: 4}\n"),
            ("model:\n  ? d_ff\n  : 4\n", "model:\n  d_model: 16\n  ? d_ff\n  : 4\n"),
            ("? model\n: d_ff: 4\n", "? model\n: d_model: 16\n  d_ff: 4\n"),
            ("model:\n  d_model: |-\n    8\n  d_ff: 4\n", "model:\n  d_model: 16\n  d_ff: 4\n"),
            ("run:\n  seed: 1\n... # end\n", "run:\n  seed: 1\n\nmodel:\n  d_model: 16\n... # end\n"),
            ("  run:\n    seed: 1\n", "  run:\n    seed: 1\n\n  model:\n    d_model: 16\n"),
            ("model: &m {<<: {d_model: 8}}\n", "model: &m {d_model: 16, <<: {d_model: 8}}\n"),
            ("run: {seed: &n 8}\nmodel: {d_model: *n}\n", "run: {seed: &n 8}\nmodel: {d_model: 16}\n"),
        ],
    )
    def test_a_value_is_edited_in_each_style_of_yaml(self, text: str, edited: str):
        assert edit_yaml(text, {"model.d_model": 16}) == edited

    def test_an_empty_section_is_filled_at_the_end_of_a_text_and_another_one_appended(self):
        assert edit_yaml("run:", {"run.seed": 1, "model.d_ff": 4}) == "run: {seed: 1}\n\nmodel:\n  d_ff: 4\n"

    def test_values_that_share_an_anchor_are_edited_together(self):
        text = "model: &sizes\n  d_model: &width 64\n  d_ff: *width\n...\n"
        edited = "model: &sizes\n  d_model: 16\n  d_ff: 64\n...\n"
        assert edit_yaml(text, {"model.d_model": 16, "model.d_ff": 64}) == edited

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("model: &m {d_model: 8}\nrun: *m\n", "aliases"),
            ("model: {d_model: &d 8}\nrun: {a: *d}\n", "aliases"),
            ("run: &m {d_model: 8, d_ff: 4}\nmodel: *m\n", "aliases"),
            ("model:\n  ? d_model\n  ? d_ff\n  : 4\n", "keys of an unusual form"),
            ("model:\n  d_model: &a # note\n    8\n", "comment within the value of line 2"),
            ("model:\n  d_model: |- # note\n    8\n", "comment within the value of line 2"),
        ],
    )
    def test_a_text_is_refused_if_a_value_cannot_be_edited_alone(self, text: str, told: str):
        with pytest.raises(ValueError, match=told):
            edit_yaml(text, {"model.d_model": 16})

    @given(st.data())
    def test_an_edited_config_has_the_new_values_and_all_its_comments(self, data: st.DataObject):
        text, number = data.draw(styled_configs())
        keys = st.sampled_from([f"{section}.{name}" for section in SECTIONS for name in NAMES])
        values = data.draw(st.dictionaries(keys, st.sampled_from([1, 16, 0.0007, None, "clock", "1e3"]), min_size=1))
        wanted = before = parse_yaml(text)
        for key, value in values.items():
            section, name = key.split(".")
            if value is not None or name in (before.get(section) or {}):
                wanted = replaced(wanted, (section, name), value)
        try:
            edited = edit_yaml(text, values)
        except ValueError as error:
            assert any(sign in text for sign in "&?|>"), error
            return
        assert parse_yaml(edited) == wanted
        assert [edited.count(f"# note {n}é\t.") for n in range(number)] == [1] * number
        assert re.sub(r"\r\n", "", edited).count("\n") == 0 or "\r" not in text

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
