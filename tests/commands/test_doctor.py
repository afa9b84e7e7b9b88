"""The doctor says what training would do, and what to look at, and leaves nothing behind."""

import re
import shutil
from collections import namedtuple

import pytest
import yaml

from qkv.commands import doctor
from qkv.config.run import dump, make_run_config
from tests.support.tiny_runs import small_config, write_small_corpus

pytestmark = pytest.mark.slow


def findings(capsys):
    """The lines before the proposal, and the proposal."""
    found, proposal = capsys.readouterr().out.split("proposal", 1)
    return found.splitlines(), proposal


@pytest.fixture(scope="module")
def config_file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("doctor")
    path = folder / "small.yaml"
    path.write_text(dump(small_config(write_small_corpus(folder / "text"), folder / "runs", "small")))
    return path


def test_the_doctor_reports_on_everything_and_leaves_nothing_behind(config_file, capsys):
    before = sorted(config_file.parent.rglob("*"))
    assert doctor.main([str(config_file), "--training.max_updates", "1000"]) == 0
    lines, proposal = findings(capsys)
    parts = ["machine", "text", "tokens", "model", "batches", "start", "update", "memory", "training", "disk"]
    assert [line.split()[0] for line in lines if not line.startswith("text ") or "for validation" in line] == parts
    assert re.search(r"text +(LOOK: )?\d+ of 120 training pairs, 10 for validation", "\n".join(lines))
    assert "1,000 updates" in lines[-2] and "333 validations" in lines[-2]
    assert re.search(r"for [\d.]+ minutes on this machine: . \+ . layers, .* updates, .* epochs; to paste:", proposal)
    pasted = yaml.safe_load(proposal.partition("to paste:")[2])
    assert pasted["training"]["schedule"] == "clock" and pasted["model"]["dropout"] >= 0
    values = yaml.safe_load(config_file.read_text(encoding="utf-8"))
    for section in ("tokenizer", "batches", "model", "training"):
        values[section] = pasted[section]
    assert make_run_config(values, {}, "pasted").training.max_minutes == pasted["training"]["max_minutes"]
    assert sorted(config_file.parent.rglob("*")) == before


def test_findings_that_need_attention_are_marked(config_file, capsys, monkeypatch):
    run = config_file.parent / "runs" / "taken"
    run.mkdir(parents=True)
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage(2**20, 2**20 - 1000, 1000))
    assert doctor.main([str(config_file), "--run.name", "taken", "--training.max_updates", "1"]) == 0
    marked = {line.split()[0] for line in findings(capsys)[0] if "LOOK: " in line}
    assert {"run", "disk", "training"} <= marked and "memory" not in marked
    assert list(run.iterdir()) == []


@pytest.mark.minutes
def test_training_with_guided_attention_is_tried_too(config_file, capsys):
    guided = ["--training.guided_attention.weight", "0.1", "--training.guided_attention.head", "1"]
    assert doctor.main([str(config_file), *guided]) == 0
    assert "target tokens/s" in capsys.readouterr().out


@pytest.mark.minutes
def test_updates_are_judged_by_all_their_batches(config_file, capsys):
    def parts(*arguments):
        assert doctor.main([str(config_file), "--training.max_updates", "1000", *arguments]) == 0
        found = {line.split()[0]: line.replace("LOOK: ", "") for line in findings(capsys)[0]}
        return float(re.search(r"([\d.]+) epochs", found["training"])[1])

    epochs = parts()
    accumulated = parts("--batches.accumulated", "2")
    assert accumulated == pytest.approx(2 * epochs, rel=0.2)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [([], "expected a config file"), (["nowhere.yaml"], "nowhere.yaml: cannot be read"), (["--help"], None)],
)
def test_the_doctor_says_which_arguments_it_takes(arguments, expected, capsys):
    assert doctor.main(arguments) == (2 if expected else 0)
    out, err = capsys.readouterr()
    assert (expected in err) if expected else ("CONFIG" in out and not err)
