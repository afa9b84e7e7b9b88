"""The config of a run says what the version that started it did."""

import pytest

from qkv.config.run import dump, make_run_config
from qkv.config.started_run import load_started_run
from tests.tiny_runs import small_settings


@pytest.fixture
def write(tmp_path):
    def write_config(without=(), **data):
        settings = small_settings(tmp_path, tmp_path, {f"data.{key}": value for key, value in data.items()})
        lines = dump(make_run_config(settings, {}, "run")).splitlines()
        path = tmp_path / "config.yaml"
        path.write_text("\n".join(line for line in lines if not line.strip().startswith(without)), encoding="utf-8")
        return path

    return write_config


@pytest.mark.parametrize(
    ("language", "tokenized", "before", "now"),
    [
        ("zh", False, "13a", "zh"),
        ("th", False, "13a", "char"),
        ("de", False, "13a", "13a"),
        ("zh", True, "none", "none"),
    ],
)
def test_a_run_without_a_tokenizer_of_bleu_keeps_the_one_that_it_was_trained_with(
    write, language, tokenized, before, now
):
    path = write(target_language=language, tokenized=tokenized)
    assert load_started_run(path).data.scoring_tokenizer == now
    path = write(without=("bleu_tokenizer:",), target_language=language, tokenized=tokenized)
    assert "bleu_tokenizer" not in path.read_text(encoding="utf-8")
    found = load_started_run(path).data
    assert found.scoring_tokenizer == before
    assert (found.bleu_tokenizer is None) == (before == now)  # so that the same command continues the run
