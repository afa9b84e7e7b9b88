"""What a person can get wrong ends with status 2 and one message that says where, never with a traceback."""

import gzip
import io
import json
import os
import re
import shutil
import subprocess
import sys
from itertools import cycle
from pathlib import Path

import pytest

import evaluate
import train
from qkv.commands import translate
from qkv.config import load_run_config
from qkv.config.yaml import dump_yaml
from tests.support import ROOT, change_json
from tests.support.tiny_runs import small_settings, write_small_corpus

pytestmark = pytest.mark.usefixtures("loaded_once")

ONE_UPDATE = {"training.max_updates": 1, "data.max_source_tokens": 40, "data.max_target_tokens": 40}


@pytest.fixture
def refused(capsys):
    """Runs a command that must fail, and checks what it says against a pattern."""

    def check(main, arguments, pattern):
        assert main([str(argument) for argument in arguments]) == 2
        message = capsys.readouterr().err
        assert re.match(r"error: \S", message)
        assert message.count("error:") == 1
        assert "Traceback" not in message
        assert re.search(pattern, message), message

    return check


@pytest.fixture
def corpus(tmp_path):
    return write_small_corpus(tmp_path / "corpus")


@pytest.fixture
def config(corpus, tmp_path):
    """Writes the config of a run `runs/small` with other values of dotted keys."""

    def write(**changes):
        dotted = {key.replace("__", "."): value for key, value in changes.items()}
        path = tmp_path / "small.yaml"
        path.write_text(dump_yaml(small_settings(corpus, tmp_path / "runs", ONE_UPDATE | dotted)), encoding="utf-8")
        return path

    return write


@pytest.fixture
def run(unbroken, tmp_path):
    """A copy of the run, to be damaged."""
    return Path(shutil.copytree(unbroken, tmp_path / "run"))


def cut_in_half(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def join_lines(path):
    path.write_text(path.read_text(encoding="utf-8").replace("\n", " ") + "\n", encoding="utf-8")


def list_of(folder, **second):
    first = {"source": str(folder / "train.en"), "target": str(folder / "train.fr")}
    return {"data__train": [first, first | {key: str(folder / name) for key, name in second.items()}]}


def list_with_damaged_gzip(folder):
    packed = gzip.compress((folder / "train.fr").read_bytes())
    (folder / "cut.fr.gz").write_bytes(packed[: len(packed) // 2])
    return list_of(folder, target="cut.fr.gz")


# Each changes the text and returns changes of settings; the message follows.
BAD_TEXT = {
    "a corpus of a list is missing": (
        lambda folder: list_of(folder, target="none.fr"),
        r"none\.fr: there is no such file",
    ),
    "a damaged gzip file in a list": (list_with_damaged_gzip, r"cut\.fr\.gz: damaged gzip file"),
    "empty": (lambda folder: (folder / "train.en").write_bytes(b""), r"train\.en: the file is empty; expected UTF-8"),
    "unequal": (
        lambda folder: (folder / "train.en").write_text("one line\n"),
        r"train\.en has 1 lines and .*train\.fr has 120; expected as many",
    ),
    "not UTF-8": (
        lambda folder: (folder / "train.fr").write_bytes("été\n".encode("latin-1") * 120),
        r"train\.fr:1: byte 0xe9 .* is not UTF-8, .*iconv",
    ),
    "a folder": (
        lambda folder: {"data__train": {"source": str(folder), "target": str(folder)}},
        r"corpus: this is a directory; expected a text file",
    ),
    "nothing left": (
        lambda folder: {"data__max_source_tokens": 1},
        r"train\.fr: no training pair is left; see data\.max_\*",
    ),
    "too many tokens wanted": (
        lambda folder: {"tokenizer__vocabulary_size": 30_000},
        r"tokenizer\.vocabulary_size: 30000 does not fit the training text: it has words for at most \d+ tokens; set",
    ),
    "validation too long": (
        lambda folder: [join_lines(folder / f"validation.{suffix}") for suffix in ("en", "fr")],
        r"all 1 pairs have a side of model\.max_positions \(64\) tokens or more",
    ),
}


@pytest.mark.parametrize("case", BAD_TEXT)
def test_training_on_bad_text_is_refused_and_leaves_no_run_behind(case, config, corpus, tmp_path, refused):
    spoil, pattern = BAD_TEXT[case]
    changes = spoil(corpus)
    path = config(**(changes if isinstance(changes, dict) else {}))
    refused(train.main, ["--config", path], pattern)
    assert not (tmp_path / "runs" / "small").exists()


def test_bad_settings_are_refused_before_anything_is_made(config, tmp_path, refused):
    pattern = r"model\.d_model: expected an integer >= 1 and <= 65536, found 'wide'"
    refused(train.main, ["--config", config(), "--model.d_model", "wide"], pattern)
    assert not (tmp_path / "runs").exists()


def test_a_run_directory_that_exists_is_refused_and_left_as_it_is(config, tmp_path, refused):
    (tmp_path / "runs" / "small").mkdir(parents=True)
    (tmp_path / "runs" / "small" / "mine").write_text("kept")
    refused(train.main, ["--config", config()], r"runs/small: expected a new or an empty folder, found 'mine' in it")
    assert (tmp_path / "runs" / "small" / "mine").read_text() == "kept"


def test_a_folder_that_is_no_run_is_named_by_every_command(tmp_path, refused):
    refused(train.main, ["--resume", tmp_path], "there is no run to resume here: .*config.yaml is missing")
    refused(evaluate.main, [tmp_path], "not a run, it has no config.yaml")
    refused(translate.main, [tmp_path], "not a run, it has no config.yaml")


def change_config(run, old, new):
    path = run / "config.yaml"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


BAD_RUNS_TO_RESUME = {
    "no checkpoint": (
        lambda run: shutil.rmtree(run / "checkpoints"),
        r"checkpoints: no checkpoint to continue from; delete the run's folder and start again",
    ),
    "damaged checkpoint": (
        lambda run: [cut_in_half(path) for path in run.glob("checkpoints/update-*.npz")],
        r"update-00000008\.npz: the checkpoint is missing or damaged",
    ),
    "damaged tokenizer": (
        lambda run: cut_in_half(run / "tokenizer" / "sentencepiece.model"),
        r"sentencepiece\.model: changed since the run began: its SHA-256 is not that in corpus_report\.json",
    ),
    "damaged config": (
        lambda run: change_config(run, "d_model: 8", "d_model: eight"),
        r"model\.d_model: expected an integer >= 1 and <= 65536, found 'eight'",
    ),
}


@pytest.mark.parametrize("case", BAD_RUNS_TO_RESUME)
def test_a_damaged_run_is_not_resumed_but_kept(case, run, refused):
    spoil, pattern = BAD_RUNS_TO_RESUME[case]
    spoil(run)
    files = sorted(run.rglob("*"))
    refused(train.main, ["--resume", run, "--training.max_updates", "9"], pattern)
    assert sorted(run.rglob("*")) == files


def test_a_run_is_not_resumed_with_another_validation_text(run, refused):
    validation = load_run_config(run / "config.yaml").data.validation
    shorter = {}
    for key in ("source", "target"):
        path = getattr(validation, key)
        shorter[str(path)] = str(run / path.name)
        (run / path.name).write_text("\n".join(path.read_text(encoding="utf-8").splitlines()[:3]), encoding="utf-8")
    for old, new in shorter.items():
        change_config(run, old, new)
    expected = r"changed since the run began:\n  data\.validation\.source: .*, not .*\n  data\.validation\.target: "
    refused(train.main, ["--resume", run], expected)
    report = json.loads((run / "corpus_report.json").read_text(encoding="utf-8"))
    del report["settings"]  # so that other checks have their turn
    (run / "corpus_report.json").write_text(json.dumps(report), encoding="utf-8")
    refused(train.main, ["--resume", run], "3 pairs, expected 10 as when the run began")


BAD_RUNS = {
    "cut model": (
        lambda run: cut_in_half(run / "model.keras"),
        r"model\.keras: the weights do not fit the run's config, or the file is damaged",
    ),
    "model and no checkpoints": (
        lambda run: [(run / "model.keras").unlink(), shutil.rmtree(run / "checkpoints")],
        r"model\.keras: missing, so there are no weights to translate with; restore the file",
    ),
    "another width": (
        lambda run: change_config(run, "d_model: 8", "d_model: 12"),
        r"model\.keras: the weights do not fit the run's config",
    ),
    "neither manifest nor checkpoints": (
        lambda run: [(run / "manifest.json").unlink(), shutil.rmtree(run / "checkpoints")],
        r"manifest\.json: missing or damaged",
    ),
    "cut manifest": (
        lambda run: cut_in_half(run / "manifest.json"),
        r"manifest\.json: missing or damaged; delete the file if it exists, and let this command write it again: "
        r"qkv train --resume \S+\n$",
    ),
    "manifest of another kind": (
        lambda run: (run / "manifest.json").write_text("[]"),
        r"manifest\.json: missing or damaged",
    ),
    "manifest with too few numbers": (
        lambda run: (run / "manifest.json").write_text('{"precision": "float32", "golden_logits": [9]}'),
        r"manifest\.json: missing or damaged",
    ),
    "manifest of another run": (
        lambda run: change_json(run / "manifest.json", golden_logits=[9] * 8),
        r"model\.keras: the model gives other numbers than when it was saved \(expected 9\.0000",
    ),
    "model of another run": (
        lambda run: change_json(run / "manifest.json", model_sha256="0" * 64),
        r"model\.keras: not the file that training wrote: its SHA-256 is not the model_sha256 of manifest\.json",
    ),
    "tokenizer of another run": (
        lambda run: change_json(run / "manifest.json", tokenizer_sha256="0" * 64),
        r"sentencepiece\.model: not the file that training wrote: its SHA-256 is not the tokenizer_sha256",
    ),
    "run of a newer version": (
        lambda run: change_config(run, "# made by qkv 0.", "# made by qkv 9."),
        r"made by qkv 9\.2\.0.*, and this is qkv 0\.2\.0.*, .*; upgrade qkv to use this run",
    ),
    "damaged tokenizer": (
        lambda run: cut_in_half(run / "tokenizer" / "sentencepiece.model"),
        r"sentencepiece\.model: not a tokenizer",
    ),
}


@pytest.mark.parametrize(("case", "command"), [*zip(BAD_RUNS, cycle([translate, evaluate]))])
def test_a_damaged_run_neither_translates_nor_is_evaluated(case, command, run, refused):
    spoil, pattern = BAD_RUNS[case]
    spoil(run)
    refused(command.main, [run], pattern)
    assert not (run / "evaluations").exists()


def test_options_that_do_not_fit_are_refused_in_one_line(unbroken, refused):
    refused(evaluate.main, [unbroken, "--sauce", "a"], r"--sauce: no such option; did you mean --source\?")
    refused(evaluate.main, [unbroken, "--set", "train"], "--set: expected one of test, validation, found 'train'; see")
    refused(translate.main, [unbroken, "--sauce"], "^error: --sauce: no such option; see --help\n$")
    refused(translate.main, [], "^error: the following arguments are required: RUN; see --help\n$")


def own_text(folder, reference="d e f\ng h\n", links="0-0 1-1\n0-1\n"):
    (folder / "own.en").write_text("a b c\nd e\n")
    (folder / "own.fr").write_text(reference)
    (folder / "own.align").write_text(links)
    names = (("source", "en"), ("reference", "fr"), ("alignments", "align"))
    return [argument for name, suffix in names for argument in (f"--{name}", folder / f"own.{suffix}")]


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ({"links": "0-0 1-1\n"}, r"own\.align: 1 lines of alignments for the 2 pairs"),
        ({"links": "0-0 1-1\n0:1\n"}, r"own\.align:2: '0:1' is not a link; expected i-j"),
        ({"reference": "d e f\n"}, r"own\.en has 2 lines and .*own\.fr has 1"),
    ],
)
def test_text_of_ones_own_that_does_not_fit_is_named(text, pattern, unbroken, tmp_path, refused):
    refused(evaluate.main, [unbroken, *own_text(tmp_path, **text)], pattern)
    assert not (unbroken / "evaluations").exists()


A_TEXT = ROOT / "LICENSE"


@pytest.mark.parametrize(
    ("options", "pattern"),
    [
        (["--require", A_TEXT, "--beam_size", "1"], "--require: needs a beam of 2 to 200 .*beam_size is 1; expected"),
        (["--require", A_TEXT, "--beam_size", 201], "--require: needs a beam of 2 to 200 .*beam_size is 201; expected"),
        (["--require", A_TEXT, "--search", "sampling"], "--require: needs beam search, .* sampling; expected --search"),
        (["--require", "nowhere.fr"], r"nowhere\.fr: there is no such file"),
        (["--ban", "nowhere.fr"], r"nowhere\.fr: there is no such file"),
    ],
)
def test_phrases_that_a_search_cannot_keep_to_are_refused_by_both_commands(options, pattern, unbroken, refused):
    for command in (translate, evaluate):
        refused(command.main, [unbroken, *options], pattern)


@pytest.mark.parametrize("option", ["prefix", "require", "ban"])
def test_what_is_given_has_no_effect_on_references(option, unbroken, refused):
    refused(evaluate.main, [unbroken, "--forced", f"--{option}", A_TEXT], f"--{option} has no effect; leave one of")


@pytest.mark.parametrize(
    ("files", "pattern"),
    [
        ({"require": "le\t\n\n"}, r"require:1: an empty phrase"),
        ({"require": "le\n漢\n"}, r"require:2: '漢' cannot be written with this vocabulary: it has no token for '漢'"),
        ({"require": "le\n"}, r"require: 1 lines, and there are more sentences to translate"),
        ({"require": "le\n\n\n"}, r"require: 3 lines, and only 2 sentences to translate"),
        ({"require": "le\nle la\n", "ban": "la\n"}, r"require:2: 'le la' is required, and 'la' is banned"),
        ({"prefix": "le la le\n\n", "ban": "la\n"}, r"prefix:1: contains 'la', which is banned; remove it from one"),
        ({"ban": "la\n\n"}, r"ban:2: an empty line; expected a word or phrase on each line"),
    ],
)
def test_phrases_that_do_not_fit_are_named_by_their_line(files, pattern, unbroken, tmp_path, monkeypatch, refused):
    options = []
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        options += [f"--{name}", tmp_path / name]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a b c\nd e\n")))
    refused(translate.main, [unbroken, *options], pattern)
    if "3 lines" not in pattern:  # the run's sets have more
        refused(evaluate.main, [unbroken, *own_text(tmp_path), *options], pattern)
        assert not (unbroken / "evaluations").exists()


@pytest.mark.parametrize(
    ("data", "pattern"),
    [
        ("a\nété\n".encode("latin-1"), "standard input:2: byte 0xe9 is not UTF-8, .* it is LATIN1; "),
        (b"\xed\xa0\x80\n", "standard input:1: byte 0xed is not UTF-8, .* it is LATIN1; "),
        (b"\x1f\x8b\x08\x00\xff", "standard input: this is packed by gzip; expected UTF-8 text: unpack it"),
        (b"a\n\xff\xfe", "standard input:2: byte 0xff is not UTF-8, .* it is LATIN1; "),
        (b"\xff\xfea\0\n\0", "standard input:1: byte 0xff is not UTF-8, .* it is UTF-16; "),
    ],
)
def test_standard_input_with_lone_surrogates_or_of_another_kind_is_named(data, pattern, unbroken, monkeypatch, refused):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    refused(translate.main, [unbroken], pattern)


@pytest.mark.minutes
@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", 0),
        (b"\xef\xbb\xbfa\r\nb\n\n\rc\n\x02\n\x01\x7f\n" + "a\u2028b\x85c\x0bd\nno line feed at the end".encode(), 8),
        (b"word " * 200_000 + b"\n" + b"w" * 1_000_000, 2),
    ],
    ids=["nothing", "a mark, mixed ends, control characters and other separators, no end", "1 MB of words, 1 MB word"],
)
def test_standard_input_gives_a_line_for_every_line(data, lines, unbroken, monkeypatch, capsysbinary):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert translate.main([str(unbroken), "--beam_size", "1"]) == 0
    assert capsysbinary.readouterr().out.count(b"\n") == lines


def test_a_library_that_cannot_be_loaded_is_named_with_what_to_do(tmp_path, config):
    (tmp_path / "keras.py").write_text("raise OSError('undefined symbol: _ZN10tensorflow')")
    config().rename(tmp_path / "config.yaml")
    (tmp_path / "model.keras").touch()
    command = [sys.executable, "-m", "qkv", "translate", tmp_path]
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    answer = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, input="")
    assert answer.returncode == 2 and answer.stdout == ""
    assert answer.stderr.startswith("error: TensorFlow or its libraries cannot be loaded: undefined symbol: _ZN10")
    assert answer.stderr.endswith("python -m pip install -r requirements.txt\n")
