"""The command line of train: options override a file, a run is resumed, and people are told what is wrong."""

import io
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from qkv.commands.train import make_parser, parse_train_arguments
from qkv.config import RunConfig, load_run_config
from qkv.config.run import dump
from qkv.config.schema import help_text, sections_of, walk
from qkv.errors import InputError
from tests.support.tiny_runs import MINIMAL, parsed, problem


class TestCommandLine:
    def test_options_override_the_file_and_the_file_overrides_defaults(self, config_file: Path):
        config = parsed(config_file, "--training.max_updates=30", "--model.attention.cross.score", "dot")
        assert (config.training.max_updates, config.model.d_model) == (30, 128)
        assert config.model.attention.cross.score == "dot"

    def test_values_are_read_as_in_yaml_and_text_needs_no_quotes(self, config_file: Path):
        config = parsed(
            config_file,
            *["--run.name", "007", "--training.max_minutes", "1e1", "--training.max_updates", "null"],
            *["--data.tokenized", "true", "--inspection.attention", "[cross, encoder]"],
            *["--inspection.probes", "[{source: a b}]"],
        )
        assert config.run.name == "007"
        assert (config.training.max_minutes, config.training.max_updates) == (10.0, None)
        assert config.data.tokenized is True
        assert config.inspection.attention == ("cross", "encoder")
        assert config.inspection.probes[0].source == "a b"

    def test_columns_are_numbers_or_names(self, config_file: Path):
        text = re.sub(r"train: {.*}", "train: {table: a.csv, header: true}", MINIMAL)
        config_file.write_text(text)
        given = ["--data.train.source_column", "3", "--data.train.target_column", "fr", "--data.train.separator", r"\t"]
        train = parsed(config_file, *given).data.train
        assert (train.source_column, train.target_column, train.separator) == (3, "fr", "\t")

    def test_an_override_changes_one_of_two_sections_that_share_an_anchor(self, config_file: Path):
        text = re.sub(r"train: {", "train: &pairs {", re.sub(r"validation: {.*}", "validation: *pairs", MINIMAL))
        config_file.write_text(text)
        data = parsed(config_file, "--data.validation.source", "other.en").data
        assert (str(data.train.source), str(data.validation.source)) == ("train.en", "other.en")

    @pytest.mark.parametrize("line", ["", "run: {}", "run: {name: null}"])
    def test_a_run_is_named_after_its_file_unless_it_has_a_name(self, config_file: Path, line: str):
        config_file.write_text(f"{MINIMAL}{line}\n")
        assert parsed(config_file).run.name == "small"
        assert parsed(config_file, "--run.name", "wide").run.name == "wide"

    def test_misspelt_options_bring_up_the_right_ones(self, config_file: Path):
        assert problem(config_file, "--model.d_modle", "3", "--drop_out=0", "--zzzzz", "dot").splitlines() == [
            "--model.d_modle: no such option; did you mean --model.d_model?",
            "  --drop_out: no such option; did you mean --model.dropout?",
            "  --zzzzz: no such option; see --help",
        ]

    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            ([], "expected either --config FILE or --resume RUN, found neither"),
            (["--config", "a.yaml", "--resume", "runs/a"], "expected either --config FILE or --resume RUN, found both"),
            (["--config"], "--config: expected one argument"),
            (["a.yaml"], "nrecognized arguments: a.yaml"),
            (["--model.d", "3"], "--model.d: no such option"),
        ],
    )
    def test_a_command_line_without_sense_is_refused(self, arguments: list[str], told: str):
        with pytest.raises(InputError, match=re.escape(told)):
            parse_train_arguments(arguments)

    def test_print_config_prints_a_config_that_loads(
        self, config_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture
    ):
        with pytest.raises(SystemExit) as ended:
            parsed(config_file, "--model.d_model", "64", "--print_config")
        assert ended.value.code == 0
        printed = tmp_path / "printed.yaml"
        printed.write_text(capsys.readouterr().out)
        assert load_run_config(printed) == parsed(config_file, "--model.d_model", "64")

    def test_a_config_is_printed_in_utf_8_whatever_the_encoding_of_the_output(self, config_file: Path):
        output = io.TextIOWrapper(io.BytesIO(), "ascii")
        with redirect_stdout(output), pytest.raises(SystemExit):
            parsed(config_file, "--run.name", "été", "--print_config")
        assert "name: été" in output.buffer.getvalue().decode()

    def test_help_of_a_section_lists_every_key_with_its_default(self):
        helps = "".join(make_parser(section).format_help() for section in RunConfig.model_fields)
        shown = "".join(helps.split())  # lines are also broken at hyphens
        spelt_once = ("data.validation.", "data.test.", "inspection.choose_head_on.")  # the keys of data.train
        spelt_once += ("model.attention.decoder_self.", "model.attention.cross.")  # the keys of encoder_self
        for key, field in walk(RunConfig):
            if not sections_of(field) and not key.startswith(spelt_once):
                text = "".join(f"--{key} VALUE {help_text(field, 'default: X')}".replace("%%", "%").split())
                described = re.search(re.escape(text).replace("default:X", "(default:[^;)]*|required)"), shown)
                assert described, key
                if not field.is_required() and isinstance(field.default, int | float):
                    assert described[1] == f"default:{str(field.default).lower()}"

    def test_help_names_every_section_and_few_options(self, capsys: pytest.CaptureFixture):
        with pytest.raises(SystemExit) as ended:
            make_parser().parse_args(["--help"])
        assert ended.value.code == 0
        shown = capsys.readouterr().out
        assert all(f"--help {section}:" in shown for section in RunConfig.model_fields)
        assert "--training.max_minutes VALUE" in shown
        assert len(re.findall(r"^  --\w+\.", shown, re.MULTILINE)) < 10

    def test_help_of_a_section_shows_its_options_alone(self, capsys: pytest.CaptureFixture):
        with pytest.raises(SystemExit):
            make_parser().parse_args(["--help", "decoding"])
        sections = re.findall(r"^  --(\w+)\.", capsys.readouterr().out, re.MULTILINE)
        assert set(sections) == {"decoding"}
        with pytest.raises(InputError, match=r"expected one of run, data, .*; did you mean decoding\?"):
            make_parser().parse_args(["--help", "decodin"])


class TestResume:
    @pytest.fixture
    def run(self, tmp_path: Path, config_file: Path) -> Path:
        folder = tmp_path / "runs" / "wide"
        folder.mkdir(parents=True)
        (folder / "config.yaml").write_text(
            dump(parsed(config_file, "--run.name", "wide", "--model.d_model", "64")), encoding="utf-8"
        )
        return folder

    def test_a_resumed_run_takes_its_saved_settings(self, run: Path):
        arguments = parse_train_arguments(["--resume", str(run)])
        assert arguments.resume == run
        assert arguments.config == load_run_config(run / "config.yaml")

    def test_a_resumed_run_may_train_longer_and_move_to_other_devices(self, run: Path):
        changes = ["--training.max_updates", "50", "--run.devices", "1", "--run.deterministic", "true"]
        resumed = parse_train_arguments(["--resume", str(run), *changes]).config
        assert (resumed.run.devices, resumed.run.deterministic, resumed.model.d_model) == (1, True, 64)
        assert resumed.training.max_updates == 50

    def test_a_resumed_run_keeps_all_other_settings(self, run: Path):
        with pytest.raises(
            InputError, match=r"--model.d_model: 64, not 32: a resumed run keeps its settings, except --run.name"
        ):
            parse_train_arguments(["--resume", str(run), "--model.d_model", "32", "--training.max_updates", "50"])

    @pytest.mark.parametrize(
        ("schedule", "limit", "key", "value"),
        [
            ("linear", "max_updates=5000", "max_updates", "6000"),
            ("clock", "max_minutes=5", "max_minutes", "60"),
            ("clock", "max_minutes=5", "max_updates", "9"),
            ("clock", "max_minutes=5", "max_epochs", "3"),
        ],
    )
    def test_limits_by_which_the_learning_rate_falls_are_kept_too(self, config_file, run, schedule, limit, key, value):
        falling = ["--training.schedule", schedule, f"--training.{limit}", "--run.name", "wide"]
        (run / "config.yaml").write_text(dump(parsed(config_file, *falling)), encoding="utf-8")
        with pytest.raises(InputError, match=rf"--training.{key}: .*, not {value}.*: a resumed run keeps"):
            parse_train_arguments(["--resume", str(run), f"--training.{key}", value])

    def test_the_same_command_resumes_a_run_and_may_change_harmless_settings(self, config_file, tmp_path: Path):
        command = ["--config", str(config_file), "--run.directory", str(tmp_path), "--run.name", "mine"]
        assert parse_train_arguments(command).resume is None
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "config.yaml").write_text(dump(parse_train_arguments(command).config), encoding="utf-8")
        changed = ["--training.max_updates", "77", "--decoding.beam_size", "3", "--inspection.probes", "[]"]
        arguments = parse_train_arguments([*command, *changed])
        assert arguments.resume == tmp_path / "mine"
        assert (arguments.config.training.max_updates, arguments.config.decoding.beam_size) == (77, 3)

    @pytest.mark.parametrize(
        ("change", "shown"),
        [
            (["--model.dropout", "0.4"], r"model\.dropout: [0-9.]+, not 0\.4"),
            (["--run.seed", "9"], r"run\.seed: 1, not 9"),
            (["--decoding.max_target_ratio", "3"], r"decoding\.max_target_ratio: 2\.0, not 3\.0"),
            (["--training.average_checkpoints", "7"], r"training\.average_checkpoints: 1, not 7"),
        ],
    )
    def test_the_same_command_with_other_settings_is_refused_by_name(self, change, shown, config_file, tmp_path):
        command = ["--config", str(config_file), "--run.directory", str(tmp_path), "--run.name", "mine"]
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "config.yaml").write_text(dump(parse_train_arguments(command).config), encoding="utf-8")
        began = r"mine: the run exists already, and was started with other settings:\n  "
        with pytest.raises(InputError, match=began + shown):
            parse_train_arguments([*command, *change])


def test_sizes_may_be_left_to_the_device(config_file: Path):
    config = parsed(config_file, "--batches.batch_tokens", "auto", "--decoding.batch_sentences", "auto")
    assert (config.batches.batch_tokens, config.decoding.batch_sentences) == ("auto", "auto")
    assert load_run_config(config_file).batches.batch_tokens == 4096
