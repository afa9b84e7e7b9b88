"""People are told what is wrong with settings: the key, what was found, what was expected, and the place."""

import re
from pathlib import Path

import pytest

from qkv.config import load_run_config
from qkv.config.messages import MOST_PROBLEMS
from qkv.errors import InputError
from tests.support.tiny_runs import MINIMAL, parsed, problem


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
            (
                "model.d_model: 3",
                "model.d_model: expected sections below one another, model: d_model: VALUE (small.yaml:8)",
            ),
            (
                "model: {attention.cross.score: dot}",
                "model.attention.cross.score: expected sections below one another, model: attention: cross: score: "
                "VALUE (small.yaml:8)",
            ),
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
        "values",
        [
            {"data.train": ["a cat ."] * 30_000},
            {"data": ["a cat ."] * 30_000},
            {"model.norm": "pre" * 30_000},
            {"model.architecture": "pre" * 30_000},
            {"model." + "d" * 30_000: 3},
            {f"model.d{number}": 3 for number in range(3000)},
            {"run.name": "a/" * 30_000},
            {"inspection.probes": [{"source": "a", f"b{number}": "c"} for number in range(3000)]},
        ],
        ids=["list", "section", "name", "architecture", "key", "keys", "folder", "sections"],
    )
    def test_a_message_quotes_a_few_lines_of_values(self, config_file: Path, values: dict):
        with pytest.raises(InputError) as error:
            load_run_config(config_file, values)
        assert len(str(error.value)) < 4000
        assert (
            len(str(error.value).splitlines()) <= MOST_PROBLEMS + 2
        )  # a heading, the problems, and the number of further ones

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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--run.devices", "-1"], r"run\.devices: expected an integer >= 0 and <= 1024 or null, found -1"),
        (["--run.devices", "two"], r"run\.devices: expected an integer"),
        (["--devices", "2"], r"--devices: no such option; did you mean --run\.devices\?"),
        (["--batches.batch_tokens", "0"], r"batches\.batch_tokens: expected an integer >= 1 and <= 10000000 or auto"),
        (["--batches.batch_tokens", "all"], r"expected an integer >= 1 and <= 10000000 or auto, found 'all'"),
        (["--decoding.batch_sentences", "0"], r"batch_sentences: expected an integer >= 1 and <= 100000 or auto, f"),
        (["--training.precision", "float16"], r"one of auto, float32, mixed_bfloat16, mixed_float16, found 'float16'"),
        (["--run.deterministic", "often"], r"run\.deterministic: expected true or false"),
    ],
)
def test_wrong_devices_and_sizes_are_refused_in_one_message(arguments, message, config_file: Path):
    with pytest.raises(InputError, match=message):
        parsed(config_file, *arguments)
