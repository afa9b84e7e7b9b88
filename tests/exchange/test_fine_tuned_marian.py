"""A run that starts from an imported Marian model: with its tokenizer of two sides, and its translations at first."""

import json

import numpy as np
import pytest

from qkv.commands import export
from qkv.commands.train import main
from qkv.config import RunConfig, load_run_config
from qkv.config.ancestor import check_ancestor
from qkv.config.yaml import dump_yaml, read_yaml
from qkv.run.trained_run import load_run
from qkv.text.tokens.encoding import EncodedSentences

PAIRS = {"train": 24, "validation": 6}


@pytest.fixture
def arguments(imported, tmp_path, run):
    """The command line of a run from the imported one, which takes its settings from there."""
    texts = [run.tokenizer.decode([row])[0] for row in np.random.default_rng(0).integers(4, 30, (30, 6)).tolist()]
    for name, count in PAIRS.items():
        for side in ("source", "target"):
            lines = texts[:count] if side == "source" else texts[-count:]
            (tmp_path / f"{name}.{side}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    files = [
        text
        for name in PAIRS
        for side in ("source", "target")
        for text in (f"--data.{name}.{side}", str(tmp_path / f"{name}.{side}"))
    ]
    return ["--config", str(imported / "config.yaml"), "--run.name", "tuned", "--run.directory", str(tmp_path), *files]


def encoded(path):
    return [row.tolist() for row in EncodedSentences.load(path)]


@pytest.mark.minutes
def test_an_imported_run_is_trained_further_as_a_new_run(imported, run, arguments, tmp_path):
    further = ["--training.start_from", str(imported), "--training.max_updates", "2", "--training.warmup_updates", "1"]
    assert main([*arguments, *further, "--training.freeze", "[embeddings, encoder]"]) == 0
    tuned = load_run(tmp_path / "tuned")
    for side, tokenizer in (("source", run.tokenizer), ("target", run.tokenizer.of_target)):
        for name in PAIRS:
            lines = (tmp_path / f"{name}.{side}").read_text(encoding="utf-8").splitlines()
            assert encoded(tmp_path / "tuned" / "encoded" / f"{name}.{side}") == tokenizer.encode(lines)
    assert tuned.tokenizer.pieces(range(9)) == run.tokenizer.pieces(range(9))
    for weight, imported_weight in zip(tuned.model.weights, run.model.weights, strict=True):
        is_frozen = "embedding" in weight.path or "/encoder_" in weight.path
        assert np.array_equal(weight, imported_weight) == is_frozen, weight.path
        np.testing.assert_allclose(
            weight, imported_weight, atol=0.02, err_msg=weight.path
        )  # two updates from the imported weights
    manifest = json.loads((tmp_path / "tuned" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["started_from"]["run"] == str(imported)
    assert tuned.translator.translate([lines[0]])  # the tokenizer of two sides works there too


def test_an_imported_run_itself_is_not_trained_and_how_to_go_on_is_told(imported, arguments, capsys):
    assert main([*arguments, "--training.max_updates", "2"]) == 2
    message = capsys.readouterr().err
    assert "which is not trained itself. Train a new run that starts from it: --training.start_from RUN" in message


def test_an_imported_run_is_no_start_for_another_tokenizer(imported, tmp_path, capsys):
    values, _ = read_yaml(imported / "config.yaml")
    files = {"source": str(imported / "config.yaml"), "target": str(imported / "config.yaml")}
    values["data"] |= {"train": files, "validation": files}
    values["tokenizer"] |= {"kind": "bpe"}
    values["training"] |= {"max_updates": 2, "start_from": str(imported)}
    (tmp_path / "other.yaml").write_text(dump_yaml(values), encoding="utf-8")
    assert main(["--config", str(tmp_path / "other.yaml"), "--run.name", "other"]) == 2
    assert "tokenizer.kind: expected given, found bpe" in capsys.readouterr().err


def test_a_config_without_a_model_takes_that_of_the_run_it_starts_from(imported, tmp_path):
    data = {"source_language": "en", "target_language": "fr", "train": {"table": "a.tsv"}, "validation": {"pairs": 10}}
    training = {"start_from": str(imported), "max_updates": 5}
    (tmp_path / "own.yaml").write_text(dump_yaml({"data": data, "training": training}), encoding="utf-8")
    config, origin = load_run_config(tmp_path / "own.yaml"), load_run_config(imported / "config.yaml")
    assert (config.model, config.tokenizer, config.decoding) == (origin.model, origin.tokenizer, origin.decoding)
    assert check_ancestor(config) == origin
    changed = load_run_config(tmp_path / "own.yaml", {"model.dropout": 0.3, "decoding.beam_size": 1})
    assert changed.model == origin.model.model_copy(update={"dropout": 0.3}) and changed.decoding.beam_size == 1
    named = {"data": data, "training": {"max_updates": 5}, "decoding": {"beam_size": 7}}
    (tmp_path / "own.yaml").write_text(dump_yaml(named), encoding="utf-8")
    by_option = load_run_config(tmp_path / "own.yaml", {"training.start_from": str(imported)})
    assert by_option.model == origin.model and by_option.decoding.beam_size == 7
    (tmp_path / "own.yaml").write_text(dump_yaml({**named, "model": {"d_model": 64}}), encoding="utf-8")
    with_model = load_run_config(tmp_path / "own.yaml", {"training.start_from": str(imported)})
    assert with_model.model.d_model == 64 and with_model.tokenizer == RunConfig.model_fields["tokenizer"].default


def test_an_imported_run_is_not_exported_as_a_saved_model(imported, tmp_path, capsys):
    assert export.main([str(imported), str(tmp_path / "exported"), "--format", "saved_model"]) == 2
    assert "saved_model does not support the tokenizer of an imported run" in capsys.readouterr().err
    assert not (tmp_path / "exported").exists()
