"""Runs that start from other runs: with their outputs, without them afterwards, and with parts left as they are."""

import json
import logging
import re
import shutil

import numpy as np
import pytest

from qkv.config import load_run_config
from qkv.config.ancestor import check_ancestor
from qkv.errors import InputError
from qkv.files.paths import sha256
from qkv.files.run_directory import RunDirectory
from qkv.model.freezing import weights_of_part
from qkv.run import train
from qkv.run.ancestor import take_ancestor
from qkv.run.doctor import check_up
from qkv.run.manifest import golden_logits
from qkv.run.trained_run import load_run
from qkv.training.build import build_model_and_optimizer
from tests.support.run_contents import contents, differing, state_at
from tests.support.training import Copy

pytestmark = pytest.mark.slow

NO_UPDATE = {"training__max_minutes": 1e-9, "training__max_updates": None}


def trained(make_config, name, **changes):
    config = make_config(name, **changes)
    assert train(config) == 0
    return config.run.directory / name


@pytest.mark.minutes
def test_without_an_update_a_run_says_what_its_ancestor_says(unbroken, make_config):
    changes = {"data__filters__duplicates": True, "model__dropout": 0.3, "training__label_smoothing": 0.0}
    run = trained(make_config, "same", training__start_from=str(unbroken), run__seed=5, **changes, **NO_UPDATE)
    ours, theirs = load_run(run), load_run(unbroken)
    for one, other in zip(ours.model.weights, theirs.model.weights, strict=True):
        np.testing.assert_array_equal(one, other, err_msg=one.path)
    assert golden_logits(ours.model, 90) == golden_logits(theirs.model, 90)
    assert ours.directory.tokenizer.read_bytes() == theirs.directory.tokenizer.read_bytes()
    assert (run / "history.csv").read_text(encoding="utf-8").split("\n")[1].startswith("0,")  # updates
    started_from = json.loads((run / "manifest.json").read_text(encoding="utf-8"))["started_from"]
    assert started_from["run"] == str(unbroken) and started_from["weights"] == "model.keras"
    assert started_from["weights_sha256"] == sha256(unbroken / "model.keras")
    assert started_from["tokenizer_sha256"] == sha256(ours.directory.tokenizer)


@pytest.mark.minutes
def test_a_run_with_frozen_parts_resumes_bit_for_bit_also_without_its_ancestor(unbroken, make_config, tmp_path, caplog):
    ancestor = shutil.copytree(unbroken, tmp_path / "ancestor")
    changes = {
        "training__start_from": str(ancestor),
        "training__freeze": ["encoder", "embeddings"],
        "training__optimizer": "muon",
        "training__max_updates": 4,
        "training__validate_every_updates": 2,
        "batches__accumulated": 2,
        "inspection__probes": [],
    }
    config = make_config("straight", **changes)
    straight, early, late = (config.run.directory / name for name in ("straight", "early", "late"))
    with caplog.at_level(logging.INFO):
        assert train(config, callbacks=[Copy(straight, {1: early, 3: late})]) == 0
    count = load_run(ancestor).model.count_params()
    found = re.search(r"([\d,]+) parameters, ([\d,]+) of them trained in float32", caplog.text)
    assert int(found[1].replace(",", "")) == count
    model, before = load_run(straight).model, load_run(ancestor).model
    frozen = {id(x) for part in ("encoder", "embeddings") for x in weights_of_part(model, part)}
    assert int(found[2].replace(",", "")) == count - sum(np.prod(x.shape) for x in model.weights if id(x) in frozen)
    for one, other in zip(model.weights, before.weights, strict=True):
        assert np.array_equal(one, other) == (id(one) in frozen), one.path
    trained_names = {name.split("/", 3)[-1] for name in state_at(straight, 4) if name.startswith("optimizer/")}
    assert trained_names and not any("encoder" in name or "embedding" in name for name in trained_names)
    shutil.rmtree(ancestor)
    assert not list(early.glob("checkpoints/*")) and list(late.glob("checkpoints/update-*"))
    for killed in (early, late):
        assert train(config, resume=killed) == 0
        assert differing(contents(killed), contents(straight)) == []


def test_a_run_starts_from_the_best_checkpoint_of_one_in_training(unbroken, make_config, tmp_path):
    ancestor = shutil.copytree(unbroken, tmp_path / "ancestor")
    (ancestor / "manifest.json").unlink()
    config = make_config("next", training__start_from=str(ancestor))
    run = RunDirectory.create(tmp_path / "next")
    taken = take_ancestor(config, run)
    assert taken.record["weights"] == "checkpoints/best.npz"
    import tensorflow as tf

    model, _ = build_model_and_optimizer(config, 90, 0.01, tf.distribute.get_strategy())
    taken.load(model)
    assert golden_logits(model, 90) == golden_logits(load_run(ancestor).model, 90)


@pytest.mark.minutes
def test_the_doctor_starts_from_the_other_run_too(unbroken, make_config):
    config = make_config("checked", training__start_from=str(unbroken), training__freeze=["cross_attention"])
    lines = {line.subject: line for line in check_up(config)}
    assert str(unbroken) in lines["weights"].text and "SHA-256" in lines["weights"].text
    assert "of them trained" in lines["model"].text
    assert "proposal" not in lines
    assert not config.run.directory.exists()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"model__d_ff": 16}, r"model\.d_ff: expected 8, found 16\n"),
        ({"model__positions": "learned"}, r"model\.positions: expected sinusoidal, found learned\n"),
        ({"tokenizer__vocabulary_size": 100}, r"tokenizer\.vocabulary_size: expected 90, found 100\n"),
        (
            {"model": {"architecture": "recurrent", "max_positions": 64}},
            r"model\.architecture: expected transformer, found recurrent\n(.*\n)+.*model\.hidden_dim: expected null",
        ),
    ],
    ids=["shape", "positions", "vocabulary", "architecture"],
)
def test_another_model_or_vocabulary_is_refused_by_the_names_of_the_settings(unbroken, make_config, changes, told):
    with pytest.raises(InputError, match=r"training\.start_from: .*another model or vocabulary:\n(.*\n)*?  " + told):
        check_ancestor(make_config("other", training__start_from=str(unbroken), **changes))


def test_longer_positions_and_other_dropout_are_no_other_model(unbroken, make_config):
    changes = {"model__max_positions": 80, "model__dropout": 0.0, "model__attention_dropout": 0.5}
    assert check_ancestor(make_config("other", training__start_from=str(unbroken), **changes)) == load_run_config(
        unbroken / "config.yaml"
    )


def swap(path):
    path.write_bytes(path.read_bytes()[:-1] + b"x")


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda run: swap(run / "model.keras"), r"start_from: .*model\.keras: not the file that training wrote"),
        (
            lambda run: swap(run / "tokenizer/sentencepiece.model"),
            r"start_from: .*sentencepiece\.model: not a tokenizer",
        ),
        (lambda run: (run / "config.yaml").unlink(), r"start_from: .*not a run, it has no config\.yaml"),
        (shutil.rmtree, r"start_from: .*no such run"),
    ],
    ids=["weights", "tokenizer", "no run", "nothing"],
)
def test_files_that_are_not_those_of_the_manifest_are_not_started_from(unbroken, make_config, tmp_path, damage, told):
    ancestor = shutil.copytree(unbroken, tmp_path / "ancestor")
    damage(ancestor)
    config = make_config("next", training__start_from=str(ancestor))
    with pytest.raises(InputError, match=told):
        train(config)
    assert not (config.run.directory / "next").exists()


def test_a_damaged_copy_is_told(unbroken, make_config, tmp_path):
    config = make_config("next", training__start_from=str(unbroken))
    run = RunDirectory.create(tmp_path / "next")
    swap(take_ancestor(config, run).run.ancestor_weights)
    with pytest.raises(InputError, match=r"weights\.npz: the weights that this run starts from are missing or damaged"):
        take_ancestor(config, run).load(load_run(unbroken).model)
    run.ancestor.write_text("{}", encoding="utf-8")
    with pytest.raises(InputError, match=r"manifest\.json: missing or damaged"):
        take_ancestor(config, run)


def test_text_of_another_kind_is_warned_of(unbroken, make_config, tmp_path, caplog):
    config = make_config("next", training__start_from=str(unbroken), data__target_language="de")
    take_ancestor(config, RunDirectory.create(tmp_path / "next"))
    assert "the text may be of another kind: data.target_language: fr there, de here" in caplog.text
