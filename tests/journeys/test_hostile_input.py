"""Hostile settings, names, files and options: each is refused with status 2 and one line, and leaves nothing."""

import importlib
import os
import re
from pathlib import Path

import pytest

from qkv.commands import evaluate, train
from qkv.commands.cli import CONFIG_ALONE
from qkv.config import RunConfig
from qkv.config.schema import alternatives, sections_of, walk
from qkv.config.yaml import DEEPEST_NESTING, LONGEST_TEXT, dump_yaml
from qkv.errors import InputError
from qkv.files.paths import name_problem, refuse_other_than_file
from qkv.files.run_directory import RunDirectory
from qkv.text.corpora.word_links import read_pharaoh
from qkv.text.lines.text_file import read_lines
from tests.support import ROOT
from tests.support.tiny_runs import small_settings, write_small_corpus

LAUGHS = "a0: &a0 [ha, ha]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))
MERGES = "a0: &a0 {x: 1}\n" + "".join(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 40))

CONFIG_TEXTS = {
    "aliases that multiply": (LAUGHS, r"hostile\.yaml: .* more than 20000 values, counted with what aliases"),
    "merges that multiply": (MERGES, r"hostile\.yaml:\d+: .*nested more than 20 levels"),
    "aliases in probes": (
        "inspection:\n  probes:\n" + "".join("    " + line for line in re.sub("(?m)^", "- ", LAUGHS).splitlines(True)),
        "more than 20000 values",
    ),
    "a list that holds itself": ("a: &a [*a]\n", f"nested more than {DEEPEST_NESTING} levels deep"),
    "a section that holds itself": ("a: &a\n  b: *a\n", f"nested more than {DEEPEST_NESTING} levels deep"),
    "an alias of nothing": ("a: *b\n", "undefined alias"),
    "an anchor given twice": ("a: &a 1\nb: &a 2\n", "expected|no such key|duplicate anchor"),
    "lists within lists": ("a: " + "[" * 100_000, f"nested more than {DEEPEST_NESTING} levels deep"),
    "sections within sections": ("{a: " * 5_000, f"nested more than {DEEPEST_NESTING} levels deep"),
    "closed lists within lists": ("a: " + "[" * 100 + "]" * 100, f"nested more than {DEEPEST_NESTING} levels deep"),
    "a long file": ("# nothing\n" * LONGEST_TEXT, f"expected at most {LONGEST_TEXT} characters"),
    "a long value": ("a: " + "x" * LONGEST_TEXT, f"expected at most {LONGEST_TEXT} characters"),
    "many keys": ("".join(f"k{n}: 1\n" for n in range(21_000)), "more than 20000 values"),
    "zeros": ("\0" * 1000, "special characters are not allowed"),
    "a control character": ("a: \x07\n", "special characters are not allowed"),
    "an escape that is no character": ('a: "\\U0011FFFF"\n', "not valid YAML"),
    "a Python object": ("a: !!python/object/apply:os.system [ls]\n", "could not determine a constructor"),
    "a date that is none": ("a: !!timestamp 2026-99-99\n", "not valid YAML"),
    "an integer that is none": ("a: !!int x\n", "not valid YAML"),
    "a truth that is none": ("a: !!bool x\n", "not valid YAML|'x'"),
    "an unknown tag": ("a: !b 1\n", "could not determine a constructor"),
    "a list as a key": ("? [a]\n: 1\n", "not valid YAML|no such key|expected"),
    "a section as a key": ("? {a: 1}\n: 1\n", "not valid YAML"),
    "a set": ("!!set {a, b}\n", "expected sections of settings"),
    "a merge of a number": ("a: {<<: 1}\n", "not valid YAML"),
    "two documents": ("a: 1\n---\nb: 2\n", "not valid YAML"),
    "a number as a key": ("1: 2\n", "no such key|expected"),
    "null as a key": ("null: 2\n", "no such key|expected"),
    "digits without end": ("a: " + "9" * 5000 + "\n", "not valid YAML"),
    "a list of settings": ("- 1\n", "expected sections of settings"),
    "a long key": ("k" * 5000 + ": 1\n", "no such key|not valid YAML"),
}

BYTES = {
    "bytes that are not UTF-8": (b"a: \xff\n", "expected UTF-8 text, found byte 0xff"),
    "UTF-16": ("a: 1\n".encode("utf-16"), "expected UTF-8 text, found byte 0xff"),
    "a character cut in two": (b"a: \xc3", "expected UTF-8 text"),
    "a surrogate": (b"a: \xed\xa0\x80\n", "expected UTF-8 text"),
}

VALUES = {
    "model.d_model": ["1e400", "-1", "0", "65537", "[]", "{}", "0x10", "1_0_0_0_0_0_0", "'8'x", "[" * 5000, "9" * 5000],
    "decoding.beam_size": ["1e6", "100000000000000000000", "1001", "-0", "true"],
    "decoding.min_length": ["1000000", "100000000000000000000"],
    "decoding.max_target_extra": ["1000000", "100000000000000000000"],
    "decoding.max_target_ratio": ["1e300", ".inf", "-.inf", ".nan", "1e309"],
    "decoding.temperature": ["1e-300", "0", "1e300", "5e-324"],
    "decoding.no_repeat_ngram": ["100000000000000000000", "1e20"],
    "decoding.length_penalty": ["1e300", "6"],
    "decoding.coverage_penalty": ["1e300"],
    "decoding.search": ["Beam", "''", "null", "\ud800"],
    "tokenizer.vocabulary_size": ["1000000000000", "31"],
    "training.epsilon": ["1e-300", "9e-17", "2"],
    "training.learning_rate": ["1e-300", "1e300"],
    "data.joined_pairs": ["1e300", "-1e-300"],
    "data.train.separator": ["''", "ab", "\0", "\ud800"],
    "data.train.source_column": ["100000000000000000000", "-1", "1.5"],
    "data.train.source": ["'a\0b'", "a\udcffb"],
    "inspection.probe_updates": ["[100000000000000000000]", "[-1]", "[[[[1]]]]", "x"],
    "inspection.probes": ["[{source: ''}]", "[1]", '[{source: "a\\0"}]', '[{source: "\\ud800"}]', "&a [*a]"],
    "run.seed": ["2147483648", "-1", "1.5"],
    "run.name": ["..", ".", "a/b", "a\\b", "a\0b", "n" * 201, "ü" * 101, "a\udce9b", "/"]
    + ["'x\ny'", "a\u200bb", "a\x1bb", "n" * 5000, "a/" * 2500],
    "run.directory": ["a\0b", "a\udcffb"],
}


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a config that is right; a training that is reached is an error."""
    monkeypatch.chdir(tmp_path)
    corpus = write_small_corpus(tmp_path / "corpus")
    (tmp_path / "small.yaml").write_text(dump_yaml(small_settings(corpus, tmp_path / "runs")), encoding="utf-8")
    monkeypatch.setattr(train, "train", lambda *_, **__: 99)
    return tmp_path


@pytest.fixture
def started(tmp_path):
    """A run with weights that nobody reads, and without a test set."""
    settings = small_settings(write_small_corpus(tmp_path / "corpus"), tmp_path / "runs", {"data.test": None})
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text(dump_yaml(settings), encoding="utf-8")
    (tmp_path / "run" / "model.keras").touch()
    return tmp_path / "run"


def numeric_names():
    names = [key.removeprefix("decoding.") for key, _ in numeric_keys() if key.startswith("decoding.")]
    return [name for name in names if name not in CONFIG_ALONE]


def check_refused(capsys, arguments, pattern, place):
    before = sorted(place.rglob("*"))
    status, said = train.main([str(argument) for argument in arguments]), capsys.readouterr()
    assert status == 2, arguments
    assert said.out == ""
    assert re.match(r"error: \S", said.err)
    assert "Traceback" not in said.err
    assert len(said.err) < 2000
    assert re.search(pattern, said.err), said.err
    assert sorted(place.rglob("*")) == before


@pytest.mark.parametrize("case", [*CONFIG_TEXTS, *BYTES])
def test_a_hostile_config_is_refused(case, place, capsys):
    text, pattern = (CONFIG_TEXTS | BYTES)[case]
    (place / "hostile.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    check_refused(capsys, ["--config", "hostile.yaml"], pattern, place)


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in VALUES.items() for value in values])
def test_a_hostile_value_is_refused(key, value, place, capsys):
    check_refused(capsys, ["--config", "small.yaml", f"--{key}={value}"], "expected|not valid|columns are", place)


def numeric_keys():
    for key, field in walk(RunConfig):
        kinds = alternatives(field.annotation)
        if not sections_of(field) and any("int" in str(kind) or "float" in str(kind) for kind in kinds):
            yield key, "[{}]" if "tuple" in str(field.annotation) else "{}"


@pytest.mark.parametrize("value", ["1" + "0" * 30, "1.0e+300"])
def test_every_number_of_the_settings_has_an_upper_bound(value, place, capsys):
    architectures = {"model.layers": "decoder_only", "model.source_loss": "decoder_only"}
    recurrent = ("model.embedding_dim", "model.hidden_dim", "model.attention_dim")
    keys = dict(numeric_keys())
    assert {"model.d_model", "training.max_minutes", "inspection.probe_updates", *recurrent} <= set(keys)
    for key, form in keys.items():
        kind = architectures.get(key) or ("recurrent" if key in recurrent else "transformer")
        arguments = ["--config", "small.yaml", f"--model.architecture={kind}", f"--{key}={form.format(value)}"]
        assert train.main(arguments) == 2, key
        said = capsys.readouterr().err
        assert key in said, said


PATHS = {
    "a config with a long name": (["--config", "c" * 300], "File name too long|too long"),
    "a config with a zero byte": (["--config", "a\0b"], "zero byte"),
    "a config whose name is not UTF-8": (["--config", "a\udce9b"], "no such file|UTF-8|No such file"),
    "a config that is a folder": (["--config", "corpus"], "Is a directory"),
    "a config under a file": (["--config", "small.yaml/x"], "Not a directory"),
    "a config that is a device": (["--config", "/dev/zero"], "this is a device"),
    "a config that is a pipe": (["--config", "pipe"], "this is a pipe, not a file"),
    "a config that is a loop": (["--config", "loop"], "symbolic links"),
    "a run with a long name": (["--resume", "r" * 300], "too long|no run to resume"),
    "a run that is a pipe": (["--resume", "pipe"], "Not a directory|no run to resume"),
    "a run that is a loop": (["--resume", "loop"], "symbolic links|no run to resume"),
    "a text with a long name": (["--config", "small.yaml", "--data.train.source", "t" * 300], "too long"),
    "a text that is a pipe": (["--config", "small.yaml", "--data.train.source", "pipe"], "this is a pipe"),
    "a text that is a device": (["--config", "small.yaml", "--data.test.target", "/dev/zero"], "this is a device"),
    "a text that is a loop": (["--config", "small.yaml", "--data.train.source", "loop"], "symbolic links|no such file"),
    "a folder of runs with a long name": (["--config", "small.yaml", "--run.directory", "d" * 300], "too long"),
    "plugins that are a pipe": (["--plugins", "pipe", "--config", "small.yaml"], "no such file|this is a pipe"),
    "plugins with a long name": (["--plugins", "p" * 300, "--config", "small.yaml"], "too long"),
    "plugins with a zero byte": (["--plugins", "p\0", "--config", "small.yaml"], "zero byte"),
}


@pytest.mark.parametrize("case", PATHS)
def test_a_hostile_path_is_refused(case, place, capsys):
    os.mkfifo(place / "pipe")
    (place / "loop").symlink_to(place / "loop")
    arguments, pattern = PATHS[case]
    check_refused(capsys, arguments, pattern, place)


def test_a_pipe_with_a_writer_will_do_where_it_is_open():
    read, write = os.pipe()
    try:
        refuse_other_than_file(Path(f"/dev/fd/{read}"), "a text", pipes=True)
        with pytest.raises(InputError, match="this is a pipe"):
            refuse_other_than_file(Path(f"/dev/fd/{read}"), "a text")
    finally:
        os.close(read)
        os.close(write)


def test_names_that_are_fine_have_no_problem():
    assert [name_problem(name) for name in ("demo", "a b", "ü" * 100, "日本")] == [None] * 4


def test_text_is_read_from_a_pipe_that_is_open():
    read, write = os.pipe()
    os.write(write, b"a b\nc\n")
    os.close(write)
    try:
        assert list(read_lines(f"/dev/fd/{read}")) == ["a b", "c"]
    finally:
        os.close(read)


@pytest.mark.parametrize("path", ["pipe", "/dev/zero"])
@pytest.mark.parametrize("read", [read_lines, read_pharaoh], ids=["lines", "links"])
def test_text_is_not_waited_for(read, path, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="not a file"):
        read(tmp_path / path)


@pytest.mark.parametrize("name", ["manifest.json", "history.csv", "source_look.json", "tokenizer/sentencepiece.model"])
def test_a_run_with_a_pipe_in_it_is_refused(name, tmp_path):
    (tmp_path / "tokenizer").mkdir()
    (tmp_path / "config.yaml").touch()
    os.mkfifo(tmp_path / name)
    with pytest.raises(InputError, match="this is a pipe"):
        RunDirectory.open(tmp_path)


EVERY_PARSER = {
    "draw": (["run", "--sentence", "0"], ["--sentence", "--layer", "--head"]),
    "evaluate": (["run"], ["--perturb", "--faithfulness", *(f"--{name}" for name in numeric_names())]),
    "translate": (["run"], ["--seed", *(f"--{name}" for name in numeric_names())]),
    "view": (["run"], ["--sentences"]),
}


@pytest.mark.parametrize("command", EVERY_PARSER)
@pytest.mark.parametrize("value", ["-1", "1" + "0" * 30, "1e300", "x", "", "9" * 5000, "nan", "-inf"])
def test_every_number_among_the_options_is_bounded(command, value, started, capsys):
    arguments, options = EVERY_PARSER[command]
    words = [str(started) if word == "run" else word for word in arguments]
    for option in options:
        status = importlib.import_module(f"qkv.commands.{command}").main([*words, f"{option}={value}"])
        said = capsys.readouterr().err
        assert status == 2, (option, said)
        assert re.match(r"(?s)error: .*expected", said), (option, said)
        assert option.removeprefix("--") in said
        assert len(said) < 1000


def test_no_command_takes_a_number_without_bounds():
    for path in (ROOT / "pipeline" / "qkv" / "commands").glob("*.py"):
        assert not re.search(r"type=(int|float)\b(?!,\n? *choices)", path.read_text(encoding="utf-8")), path


CONTRADICTIONS = {
    "reference alone": (["--reference", "text"], "--reference needs --source"),
    "alignments alone": (["--alignments", "text"], "--alignments needs --source"),
    "alignments without reference": (["--source", "text", "--alignments", "text"], "--alignments needs --reference"),
    "forced without reference": (["--source", "text", "--forced"], "--forced needs --reference"),
    "a name with a slash": (["--name", "a/b"], "--name: expected the name of a folder"),
    "a long name": (["--name", "n" * 201], "--name: expected the name of a folder, of at most 200 bytes, found 201"),
    "a hidden name": (["--name", ".a"], "--name: expected the name of a folder"),
    "no name": (["--name="], "--name: expected the name of a folder"),
    "a name that is not UTF-8": (["--name", "a\udce9"], "expected text in UTF-8"),
    "no test set": (["--set", "test"], r"config\.yaml: data\.test is null; give your own text with --source"),
    "an option of sampling": (["--top_k", "3"], "top_k: no effect in beam search; expected search: sampling as well"),
    "beams that are too few": (["--beam_size", "2", "--n_best", "3"], "can be at most beam_size"),
}


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_contradicting_options_are_told_before_tensorflow_is_loaded(case, started, monkeypatch, capsys):
    monkeypatch.setattr("qkv.commands.cli.importing_tensorflow", None)
    arguments, pattern = CONTRADICTIONS[case]
    text = str(started.parent / "corpus" / "test.en")
    words = [text if word == "text" else word for word in arguments]
    assert evaluate.main([str(started), *words]) == 2
    assert re.search(pattern, capsys.readouterr().err)
