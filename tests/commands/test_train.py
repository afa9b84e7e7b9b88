"""The settings of a run: schema, files, command line, and what people are told when something is wrong."""

import importlib
import io
import pkgutil
import re
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import qkv.config
from qkv.commands.cli import exit_cleanly
from qkv.commands.train import make_parser, parse_train_arguments
from qkv.config import RunConfig, load_run_config
from qkv.config.attention import AttentionSettings
from qkv.config.corpus import CorpusSettings, LinkedTextSettings, ListedCorpusSettings, SetSettings
from qkv.config.data import DataSettings
from qkv.config.inspection import Probe
from qkv.config.model import BlocksSettings, DecoderOnlySettings, RecurrentSettings, TransformerSettings
from qkv.config.run import dump
from qkv.config.schema import Settings, sections_of, walk
from qkv.config.training import CallbackSettings, TrainingSettings
from qkv.config.yaml import dump_yaml, parse_yaml
from qkv.errors import InputError
from tests.support import ROOT
from tests.support.tiny_runs import MINIMAL, parsed, problem

CONFIGS = sorted((ROOT / "configs").glob("*.yaml"))
SECTIONS = {
    kind
    for found in pkgutil.iter_modules(qkv.config.__path__)
    for kind in vars(importlib.import_module(f"qkv.config.{found.name}")).values()
    if isinstance(kind, type) and issubclass(kind, Settings) and kind not in (AttentionSettings, BlocksSettings)
}


UNSET = (
    "data.test.",
    "data.normalize.",
    "data.filters.",
    "training.guided_attention.",
)  # null, so that their keys are not stated


class TestSchema:
    @pytest.mark.parametrize(
        "section", sorted(SECTIONS, key=lambda kind: kind.__name__), ids=lambda section: section.__name__
    )
    def test_every_key_has_a_description(self, section: type[Settings]):
        unexplained = [name for name, field in section.model_fields.items() if not field.description]
        assert unexplained == []

    def test_settings_do_not_change_after_loading(self, config_file: Path):
        with pytest.raises(ValueError, match="frozen"):
            load_run_config(config_file).model.d_model = 1

    def test_every_default_is_a_valid_value(self):
        for section in SECTIONS:
            defaults = {name: field.default for name, field in section.model_fields.items() if not field.is_required()}
            if section not in (
                RunConfig,
                DataSettings,
                CorpusSettings,
                SetSettings,
                ListedCorpusSettings,
                LinkedTextSettings,
                Probe,
                CallbackSettings,
            ):
                extra = {"max_updates": 1} if section is TrainingSettings else {}
                section(**{**defaults, **extra})


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


class TestWrongSettings:
    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("modle: {}", "modle: no such key; did you mean model? (small.yaml:8)"),
            ("model: {d_modle: 3}", "model.d_modle: no such key; did you mean model.d_model? (small.yaml:8)"),
            (
                "model:\n  attention:\n    cros: {}",
                "model.attention.cros: no such key; did you mean model.attention.cross? (small.yaml:10)",
            ),
            ("tokenizer: {d_model: 3}", "tokenizer.d_model: no such key; did you mean model.d_model? (small.yaml:8)"),
            ("d_model: 3", "d_model: no such key; did you mean model.d_model? (small.yaml:8)"),
            ("model: {zzzzz: 3}", "model.zzzzz: no such key (small.yaml:8)"),
            (
                "inspection: {probes: [{source: a, refrence: b}]}",
                "inspection.probes.0.refrence: no such key; did you mean inspection.probes.0.reference? (small.yaml:8)",
            ),
        ],
    )
    def test_a_misspelt_key_brings_up_the_right_one(self, config_file: Path, text: str, told: str):
        assert problem(config_file, text=MINIMAL + text) == told

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("model: {d_model: abc}", "model.d_model: expected an integer >= 1 and <= 65536, found 'abc'"),
            ("model: {d_model: 1.5}", "model.d_model: expected an integer >= 1 and <= 65536, found 1.5"),
            ("model: {d_model: true}", "model.d_model: expected an integer >= 1 and <= 65536, found true"),
            ("model: {d_model: null}", "model.d_model: expected an integer >= 1 and <= 65536, found null"),
            ("model: {d_model: [1]}", "model.d_model: expected an integer >= 1 and <= 65536, found [1]"),
            ("model: {dropout: 1}", "model.dropout: expected a number >= 0 and < 1, found 1"),
            ("model: {norm: sandwich}", "model.norm: expected one of pre, post, found 'sandwich'"),
            ("model: 3", "model: expected a section of keys and values, found 3"),
            ("model:", "model: expected a section of keys and values, found null"),
            ("run: {name: 7}", "run.name: expected text or null, found 7, which is text only in quotes"),
            (
                "run: {name: a/b}",
                "run.name: expected the name of a folder, without slashes or a dot in front, found 'a/b'",
            ),
            ("run: {seed: -1}", "run.seed: expected an integer >= 0 and < 2147483648, found -1"),
            (
                "decoding: {max_target_ratio: nan}",
                "decoding.max_target_ratio: expected a number >= 0 and <= 1000, found 'nan'",
            ),
            (
                "inspection: {attention: [cross, self]}",
                "inspection.attention.1: expected one of cross, norms, gradients, encoder, decoder, found 'self'",
            ),
            ("inspection: {probes: [x]}", "inspection.probes.0: expected a section of keys and values, found 'x'"),
        ],
    )
    def test_a_wrong_value_is_shown_beside_what_was_expected(self, config_file: Path, text: str, told: str):
        assert problem(config_file, text=MINIMAL + text) == f"{told} (small.yaml:8)"

    def test_a_missing_key_is_named(self, config_file: Path):
        text = MINIMAL.replace("  source_language: en\n", "")
        assert problem(config_file, text=text) == (
            "data.source_language: expected text that is not empty, found nothing (small.yaml:1)"
        )

    def test_all_wrong_settings_are_reported_in_one_message(self, config_file: Path):
        told = problem(config_file, "--model.d_ff", "x", text=MINIMAL + "model: {d_modle: 3}\ntokenizer: {kind: 4}")
        assert told.splitlines() == [
            "3 settings are wrong:",
            "  tokenizer.kind: expected one of bpe, unigram, given, found 4 (small.yaml:9)",
            "  model.d_ff: expected an integer >= 1 and <= 65536, found 'x' (command line)",
            "  model.d_modle: no such key; did you mean model.d_model? (small.yaml:8)",
        ]

    @pytest.mark.parametrize(
        ("corpus", "told"),
        [
            ("{}", "expected either source and target or table, found neither"),
            ("{source: a}", "expected either source and target or table, found source"),
            ("{source: a, table: b}", "expected either source and target or table, found source and table"),
            ("{source: a, target: b, table: c}", "expected either source and target or table, found source and target"),
            ("{source: a, target: b, header: true}", "header and separator describe a table"),
            ("{table: a, source_column: en}", "columns can be named only if header is true"),
            ("{table: a, source_column: 1}", "source_column and target_column are both 1"),
            ("{table: a, split: train}", "expected split together with split_file"),
            ("{table: a, split_file: b}", "expected split together with split_file"),
        ],
    )
    def test_a_corpus_comes_from_one_place(self, config_file: Path, corpus: str, told: str):
        text = re.sub(r"train: {.*}", f"train: {corpus}", MINIMAL)
        assert problem(config_file, text=text).startswith(f"data.train: {told}")

    @pytest.mark.parametrize(
        ("corpus", "told"),
        [
            ("{}", ": expected either source and target or table, found neither (they can be held out"),
            ("{share: 0}", ".share: expected a number > 0 and <= 0.5 or null, found 0"),
            ("{share: 0.51}", ".share: expected a number > 0 and <= 0.5 or null, found 0.51"),
            ("{pairs: 0}", ".pairs: expected an integer >= 1 and <= 1000000000 or null, found 0"),
            ("{share: 0.1, pairs: 9}", ": expected either share or pairs alone, to hold out pairs of the training "),
            ("{share: 0.1, table: a.tsv}", ": expected either share or pairs alone"),
            ("{pairs: 9, split: test}", ": expected either share or pairs alone"),
            ("{pairs: 9, alignments: a}", ": expected either share or pairs alone"),
        ],
    )
    def test_a_set_is_held_out_by_one_number_alone(self, config_file: Path, corpus: str, told: str):
        text = re.sub(r"validation: {.*}", f"validation: {corpus}", MINIMAL)
        assert problem(config_file, text=text).startswith(f"data.validation{told}")

    def test_sets_are_held_out_by_share_or_number(self, config_file: Path):
        config_file.write_text(re.sub(r"validation: {.*}", "validation: {share: 0.01}", MINIMAL))
        data = parsed(config_file, "--data.test.pairs", "500").data
        assert {name: settings.held_out_pairs(20_000) for name, settings in data.held_out.items()} == {
            "validation": 200,
            "test": 500,
        }

    @pytest.mark.parametrize(
        ("overrides", "told"),
        [
            (["--model.d_model", "10"], r"model: d_model \(10\) must be a multiple of num_heads \(4\)"),
            (["--model.max_positions", "128"], r"model.max_positions \(128\) must exceed data.max_source_tokens"),
            (["--data.max_target_tokens", "512"], r"model.max_positions \(512\) must exceed data.max_target_tokens"),
            (["--training.max_updates", "null"], "training: expected at least one of max_updates, max_epochs and"),
            (["--training.schedule", "linear"], "training: schedule linear needs max_updates above warmup_updates"),
            (["--data.train.separator", "ab"], "data.train.separator: expected one character, found 'ab'"),
            (["--inspection.attention", "[cross"], r"inspection.attention: expected a list .*found '\[cross'"),
        ],
    )
    def test_settings_that_contradict_each_other_are_refused(self, config_file: Path, overrides: list, told: str):
        assert re.match(told, problem(config_file, *overrides))

    def test_sentences_may_fill_the_positions(self, config_file: Path):
        assert parsed(config_file, "--model.max_positions", "129").model.max_positions == 129


class TestCommandLine:
    def test_options_override_the_file_and_the_file_overrides_defaults(self, config_file: Path):
        config = parsed(config_file, "--training.max_updates=30", "--model.attention.cross.score", "dot")
        assert (config.training.max_updates, config.model.attention.cross.score, config.model.d_model) == (
            30,
            "dot",
            128,
        )

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

    def test_a_wrong_setting_ends_with_status_2_and_one_line(self, config_file: Path, capsys: pytest.CaptureFixture):
        @exit_cleanly
        def main(argv: list[str]) -> None:
            parse_train_arguments(argv)

        assert main(["--config", str(config_file), "--model.d_model", "abc"]) == 2
        shown = capsys.readouterr()
        assert shown.out == ""
        assert shown.err == "error: model.d_model: expected an integer >= 1 and <= 65536, found 'abc' (command line)\n"

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

    def test_help_lists_every_key_with_its_default(self):
        shown = " ".join(make_parser().format_help().split())
        spelt_once = ("data.validation.", "data.test.")  # the keys of data.train
        spelt_once += ("model.attention.decoder_self.", "model.attention.cross.")  # the keys of encoder_self
        for key, field in walk(RunConfig):
            if not sections_of(field) and not key.startswith(spelt_once):
                described = re.search(re.escape(f"--{key} VALUE {field.description} (") + r"[^)]*; ([^;)]*)\)", shown)
                assert described, key
                if not field.is_required() and isinstance(field.default, int | float):
                    assert described.group(1) == f"default {str(field.default).lower()}"

    @pytest.mark.parametrize("module", ["qkv.config.run", "qkv.commands.train"])
    def test_nothing_heavy_is_imported(self, module: str):
        heavy = "{'tensorflow', 'keras', 'pandas', 'numpy', 'matplotlib'}"
        program = (
            f"import sys, {module}; sys.exit(str({heavy} & set(sys.modules)) if {heavy} & set(sys.modules) else 0)"
        )
        subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


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

    def test_a_resumed_run_may_train_longer(self, run: Path):
        resumed = parse_train_arguments(["--resume", str(run), "--training.max_updates", "50"]).config
        assert (resumed.training.max_updates, resumed.model.d_model) == (50, 64)

    def test_a_resumed_run_may_move_to_other_devices(self, run: Path):
        resumed = parse_train_arguments(
            ["--resume", str(run), "--run.devices", "1", "--run.deterministic", "true"]
        ).config
        assert (resumed.run.devices, resumed.run.deterministic, resumed.model.d_model) == (1, True, 64)

    def test_a_resumed_run_keeps_all_other_settings(self, run: Path):
        with pytest.raises(
            InputError, match=r"--model.d_model: 64, not 32: a resumed run keeps its settings, except --run.name"
        ):
            parse_train_arguments(["--resume", str(run), "--model.d_model", "32", "--training.max_updates", "50"])

    def test_the_limit_by_which_the_learning_rate_falls_is_kept_too(self, config_file, tmp_path: Path):
        run = tmp_path / "falling"
        run.mkdir()
        falling = ["--training.schedule", "linear", "--training.max_updates", "5000", "--run.name", "falling"]
        (run / "config.yaml").write_text(dump(parsed(config_file, *falling)), encoding="utf-8")
        with pytest.raises(InputError, match=r"--training.max_updates: 5000, not 6000: a resumed run keeps"):
            parse_train_arguments(["--resume", str(run), "--training.max_updates", "6000"])

    @pytest.mark.parametrize(("key", "value"), [("max_minutes", "60"), ("max_updates", "9"), ("max_epochs", "3")])
    def test_a_run_by_the_clock_keeps_all_its_limits(self, config_file, tmp_path: Path, key, value):
        run = tmp_path / "clocked"
        run.mkdir()
        clocked = ["--training.schedule", "clock", "--training.max_minutes", "5", "--run.name", "clocked"]
        (run / "config.yaml").write_text(dump(parsed(config_file, *clocked)), encoding="utf-8")
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

    def test_a_folder_without_a_run_cannot_be_resumed(self, tmp_path: Path):
        with pytest.raises(InputError, match="there is no run to resume here"):
            parse_train_arguments(["--resume", str(tmp_path)])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--run.devices", "-1"], r"run\.devices: expected an integer >= 0 and <= 1024 or null, found -1"),
        (["--run.devices", "two"], r"run\.devices: expected an integer"),
        (["--devices", "2"], r"--devices: no such option; did you mean --run\.devices\?"),
        (
            ["--batches.batch_tokens", "0"],
            r"batches\.batch_tokens: expected an integer >= 1 and <= 10000000 or auto",
        ),
        (["--batches.batch_tokens", "all"], r"expected an integer >= 1 and <= 10000000 or auto, found 'all'"),
        (["--decoding.batch_sentences", "0"], r"batch_sentences: expected an integer >= 1 and <= 100000 or auto, f"),
        (["--training.precision", "float16"], r"one of auto, float32, mixed_bfloat16, mixed_float16, found 'float16'"),
        (["--run.deterministic", "often"], r"run\.deterministic: expected true or false"),
    ],
)
def test_wrong_devices_and_sizes_are_refused_in_one_message(arguments, message, config_file: Path):
    with pytest.raises(InputError, match=message):
        parsed(config_file, *arguments)


def test_sizes_may_be_left_to_the_device(config_file: Path):
    config = parsed(config_file, "--batches.batch_tokens", "auto", "--decoding.batch_sentences", "auto")
    assert (config.batches.batch_tokens, config.decoding.batch_sentences) == ("auto", "auto")
    assert load_run_config(config_file).batches.batch_tokens == 4096
