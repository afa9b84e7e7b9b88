"""The doctor says what training would do, and what to look at, and leaves nothing behind."""

import re
import shutil
from collections import namedtuple

import pytest

from qkv.commands import doctor
from qkv.config import load_run_config
from qkv.config.run import dump
from qkv.run import checkup
from qkv.run.proposal import Proposal
from qkv.training.build import build_batches_and_step
from tests.support.tiny_runs import small_config, write_small_corpus

pytestmark = pytest.mark.slow


def findings(capsys):
    """The lines before the proposal, and the proposal."""
    found, proposal = re.split(r"^proposal", capsys.readouterr().out, maxsplit=1, flags=re.MULTILINE)
    return found.splitlines(), proposal


@pytest.fixture(scope="module")
def config_file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("doctor")
    path = folder / "small.yaml"
    path.write_text(dump(small_config(write_small_corpus(folder / "text"), folder / "runs", "small")))
    return path


def test_the_doctor_reports_on_everything_and_leaves_nothing_behind(config_file, capsys, monkeypatch):
    def build(config, *parts):
        assert not config.training.xla
        return build_batches_and_step(config, *parts)

    monkeypatch.setattr(checkup, "build_batches_and_step", build)
    before = sorted(config_file.parent.rglob("*"))
    assert doctor.main([str(config_file), "--training.max_updates", "1000", "--training.xla", "true"]) == 0
    lines, proposal = findings(capsys)
    parts = ["machine", "text", "tokens", "model", "batches", "start", "update", "memory", "training", "disk"]
    assert [line.split()[0] for line in lines if not line.startswith("text ") or "for validation" in line] == parts
    assert re.search(r"text +(LOOK: )?\d+ of 120 training pairs, 10 for validation", "\n".join(lines))
    assert next(line for line in lines if line.startswith("update ")).endswith("which will be faster on a GPU")
    assert "1,000 updates" in lines[-2] and "333 validations" in lines[-2]
    assert re.search(r"for [\d.]+ minutes on this machine, probably better .*: . \+ . layers, .* epochs; ", proposal)
    assert "\n  training.schedule clock, not " in proposal and "\n  training.max_updates null, not 1000\n" in proposal
    assert sorted(config_file.parent.rglob("*")) == before


def test_a_file_that_is_read_only_or_read_is_not_written(config_file, capsys, tmp_path):
    mine, text = tmp_path / "mine.yaml", config_file.parent / "text" / "train.en"
    mine.write_text("mine")
    mine.chmod(0o444)
    before = text.read_bytes()
    for file, said in ((mine, "this file is read-only; change its perm"), (text, "the command reads this file; ch")):
        assert doctor.main([str(config_file), "--write", str(file)]) == 2
        assert said in capsys.readouterr().err
    assert mine.read_text() == "mine" and text.read_bytes() == before


@pytest.mark.minutes
def test_the_proposal_is_written_and_proposed_no_more(config_file, capsys, tmp_path):
    text = config_file.read_text(encoding="utf-8").replace("model:\n", "model: # the sizes\n")
    (tmp_path / "mine.yaml").write_text(text, encoding="utf-8")
    arguments = [str(tmp_path / "mine.yaml"), "--training.max_minutes", "0.2", "--training.max_updates", "99999"]
    assert doctor.main([*arguments, "--write", str(tmp_path / "better.yaml")]) == 0
    assert f"{tmp_path}/better.yaml: written" in findings(capsys)[1]
    assert (tmp_path / "mine.yaml").read_text(encoding="utf-8") == text
    better = load_run_config(tmp_path / "better.yaml")
    assert (better.training.schedule, better.training.max_minutes, better.training.max_updates) == ("clock", 0.2, None)
    assert "model: # the sizes\n" in (tmp_path / "better.yaml").read_text(encoding="utf-8")


@pytest.mark.minutes
@pytest.mark.parametrize("given", [[], ["--model.num_heads", "4"]])
def test_options_that_are_proposed_are_written_and_not_listed(given, config_file, capsys, monkeypatch, tmp_path):
    before = load_run_config(config_file)
    heads = int(given[-1]) if given else before.model.num_heads
    monkeypatch.setattr(Proposal, "settings", lambda self: {"model.num_heads": heads})
    arguments = ["--training.max_updates", "1000", *given, "--write", str(tmp_path / "better.yaml")]
    assert doctor.main([str(config_file), *arguments]) == 0
    _, proposal = findings(capsys)
    assert " minutes on this machine, what is set already: " in proposal and "num_heads" not in proposal
    assert ("better.yaml: written as it was, for nothing better is proposed\n" in proposal) is not given
    assert load_run_config(tmp_path / "better.yaml").model.num_heads == heads
    assert given or (tmp_path / "better.yaml").read_bytes() == config_file.read_bytes()


@pytest.mark.minutes
def test_findings_that_need_attention_are_marked_once_each(config_file, capsys, caplog, monkeypatch, tmp_path):
    run = config_file.parent / "runs" / "taken"
    run.mkdir(parents=True)
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage(2**20, 2**20 - 1000, 1000))
    text = config_file.read_text(encoding="utf-8")
    (tmp_path / "shared.yaml").write_text(re.sub(r"/validation\.(en|fr)", r"/train.\1", text), encoding="utf-8")
    options = ["--run.name", "taken", "--training.max_updates", "1", "--model.positions_on", "queries_and_keys"]
    assert doctor.main([str(tmp_path / "shared.yaml"), *options]) == 0
    lines, rest = findings(capsys)
    marked = {line.split()[0] for line in lines if "LOOK: " in line}
    assert {"run", "disk", "training"} <= marked and "memory" not in marked
    assert list(run.iterdir()) == []
    closed = [line for line in [*lines, *rest.splitlines()] if line.startswith("export ")]
    assert len(closed) == 2 and all("model." in line and "no counterpart" in line for line in closed)
    assert ("\n".join(lines) + rest + caplog.text).count("validation sources are in the training text") == 1


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
