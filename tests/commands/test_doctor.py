"""The doctor says what training would do, and what to look at, and leaves nothing behind."""

import codecs
import re
import shutil
import signal
from collections import namedtuple
from contextlib import suppress
from pathlib import Path

import pytest

from qkv.commands import doctor
from qkv.config import load_run_config
from qkv.config.run import dump, flat_settings
from qkv.run import doctor as run_doctor
from qkv.run.proposal import Proposal
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


def test_the_doctor_reports_on_everything_and_leaves_nothing_behind(config_file, capsys):
    before = sorted(config_file.parent.rglob("*"))
    assert doctor.main([str(config_file), "--training.max_updates", "1000"]) == 0
    lines, proposal = findings(capsys)
    parts = ["machine", "text", "tokens", "model", "batches", "start", "update", "memory", "training", "disk"]
    assert [line.split()[0] for line in lines if not line.startswith("text ") or "for validation" in line] == parts
    assert re.search(r"text +(LOOK: )?\d+ of 120 training pairs, 10 for validation", "\n".join(lines))
    assert re.search(r"target tokens/s \(mean of \d+\)$", next(line for line in lines if line.startswith("update ")))
    assert "1,000 updates" in lines[-2] and "333 validations" in lines[-2]
    assert re.search(r"for [\d.]+ minutes on this machine, probably better .*: . \+ . layers, .* epochs; ", proposal)
    assert "\n  training.schedule clock, not " in proposal and "\n  training.max_updates null, not 1000\n" in proposal
    assert sorted(config_file.parent.rglob("*")) == before


@pytest.mark.minutes
def test_the_update_is_timed_as_it_is_trained(config_file, capsys):
    """By XLA on packed batches, several in a call."""
    options = ["--training.xla", "true", "--training.updates_per_call", "2", "--training.max_updates", "9999999"]
    assert doctor.main([str(config_file), *options, "--batches.batch_tokens", "64"]) == 0
    lines = {line.split()[0]: line for line in findings(capsys)[0]}
    assert re.search(r"[\d.]+ s to compile the first update; its loss is ", lines["start"])
    assert re.search(r"target tokens/s \(mean of \d*[02468], packed batches, compiled by XLA\)$", lines["update"])
    assert re.search(r"about [\d,]+ hours until training\.max_updates", lines["training"])


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
def test_a_vocabulary_that_the_text_cannot_fill_is_proposed_smaller(config_file, capsys, tmp_path):
    file = tmp_path / "better.yaml"
    arguments = ["--tokenizer.vocabulary_size", "30000", "--training.max_updates", "1000", "--write", str(file)]
    assert doctor.main([str(config_file), *arguments]) == 0
    lines, _ = findings(capsys)
    (told,) = (line for line in lines if line.startswith("vocabulary"))
    most = int(
        re.search(r"LOOK: tokenizer\.vocabulary_size: 30000 does not fit .*; set (\d+) or less; \1 is pr", told)[1]
    )
    assert any(line.startswith("tokens ") and f"a vocabulary of {most:,};" in line for line in lines)
    assert load_run_config(file).tokenizer.vocabulary_size <= most


@pytest.mark.minutes
@pytest.mark.parametrize("given", [[], ["--model.num_heads", "4"]])
def test_options_that_are_proposed_are_written_and_not_listed(given, config_file, capsys, monkeypatch, tmp_path):
    before = load_run_config(config_file)
    heads = int(given[-1]) if given else before.model.num_heads
    monkeypatch.setattr(Proposal, "settings", lambda self: {"model.num_heads": heads})
    arguments = ["--training.max_updates", "1000", *given, "--write", str(tmp_path / "better.yaml")]
    assert doctor.main([str(config_file), *arguments]) == 0
    _, proposal = findings(capsys)
    assert " minutes on this machine, the same as the config: " in proposal and "num_heads" not in proposal
    assert ("better.yaml: written without changes, since nothing better is proposed\n" in proposal) is not given
    assert load_run_config(tmp_path / "better.yaml").model.num_heads == heads
    assert given or (tmp_path / "better.yaml").read_bytes() == config_file.read_bytes()


SETTINGS = {"model.d_model": 128, "model.d_ff": 256, "training.schedule": "clock", "training.max_minutes": 3.5}


def propose_at_once(monkeypatch, meanwhile=lambda: None, settings=SETTINGS):
    """Makes the checkup propose settings without measuring; something may happen meanwhile."""

    def check_up(config):
        meanwhile()
        yield run_doctor.CheckupLine("proposal", "", settings=settings)

    monkeypatch.setattr(run_doctor, "check_up", check_up)


def refuse_to_measure(config):
    raise AssertionError("the command should have ended before it measures")


def test_line_ends_the_byte_order_mark_and_comments_stay_in_what_is_written(config_file, capsys, monkeypatch, tmp_path):
    propose_at_once(monkeypatch)
    lines = config_file.read_bytes().replace(b"model:\n", "model: # sizes, é\n".encode()).replace(b"\n", b"\r\n")
    (tmp_path / "windows.yaml").write_bytes(codecs.BOM_UTF8 + lines)
    assert doctor.main([str(tmp_path / "windows.yaml"), "--write", str(tmp_path / "windows.yaml")]) == 0
    written = (tmp_path / "windows.yaml").read_bytes()
    assert written.startswith(codecs.BOM_UTF8) and "model: # sizes, é\r\n".encode() in written
    assert written.count(b"\n") == written.count(b"\r\n") == lines.count(b"\n")
    before, after = load_run_config(config_file), load_run_config(tmp_path / "windows.yaml")
    changes = {key: value for key, value in flat_settings(after.model_dump()) if key in SETTINGS}
    assert changes == SETTINGS and before.data == after.data


def test_a_config_with_aliases_is_written_or_refused_before_measuring(config_file, capsys, monkeypatch, tmp_path):
    text = config_file.read_text(encoding="utf-8")
    text = (
        re.sub(r"  d_ff: \d+\n", "", text).replace("  d_model: 8\n", "  d_model: &width 8\n  d_ff: *width\n") + "...\n"
    )
    (tmp_path / "aliases.yaml").write_text(text, encoding="utf-8")
    propose_at_once(monkeypatch)
    assert doctor.main([str(tmp_path / "aliases.yaml"), "--write", str(tmp_path / "better.yaml")]) == 0
    assert load_run_config(tmp_path / "better.yaml").model.d_model == 128
    capsys.readouterr()
    monkeypatch.setattr(run_doctor, "check_up", refuse_to_measure)
    (tmp_path / "shared.yaml").write_text(text.replace("warmup_updates: 2", "warmup_updates: *width"), encoding="utf-8")
    assert doctor.main([str(tmp_path / "shared.yaml"), "--write", str(tmp_path / "refused.yaml")]) == 2
    assert "shared.yaml: a proposal cannot be written into it: it has anchors" in capsys.readouterr().err
    assert not (tmp_path / "refused.yaml").exists()


def test_a_read_only_file_is_refused_before_measuring(config_file, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(run_doctor, "check_up", refuse_to_measure)
    (tmp_path / "mine.yaml").write_text("mine")
    (tmp_path / "mine.yaml").chmod(0o444)
    assert doctor.main([str(config_file), "--write", str(tmp_path / "mine.yaml")]) == 2
    assert "mine.yaml: this file is read-only" in capsys.readouterr().err
    assert (tmp_path / "mine.yaml").read_text() == "mine"


def test_nothing_is_written_after_an_interrupt_that_a_library_swallows(config_file, capsys, monkeypatch, tmp_path):
    def interrupt():
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)

    propose_at_once(monkeypatch, meanwhile=interrupt)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for what runs behind it
    try:
        assert doctor.main([str(config_file), "--write", str(tmp_path / "better.yaml")]) == 130
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, handler)
    assert capsys.readouterr().err == "interrupted\n" and not (tmp_path / "better.yaml").exists()


@pytest.mark.parametrize(
    ("meanwhile", "settings", "told"),
    [
        (Path.unlink, SETTINGS, r"copy\.yaml: cannot be read any more: No such file"),
        (lambda path: path.write_text("model: ["), SETTINGS, r"copy\.yaml: a proposal cannot be written into it: "),
        (
            lambda path: None,
            {"model.num_heads": 3},
            r"better\.yaml: not written, since the proposal contradicts other .*",
        ),
    ],
)
def test_nothing_is_written_that_could_not_be_trained(
    meanwhile, settings, told, config_file, capsys, monkeypatch, tmp_path
):
    shutil.copy(config_file, tmp_path / "copy.yaml")
    propose_at_once(monkeypatch, lambda: meanwhile(tmp_path / "copy.yaml"), settings)
    assert doctor.main([str(tmp_path / "copy.yaml"), "--write", str(tmp_path / "better.yaml")]) == 2
    assert re.search(told, capsys.readouterr().err) and not (tmp_path / "better.yaml").exists()


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
    assert len(closed) == 2 and all("model." in line and "does not support" in line for line in closed)
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
