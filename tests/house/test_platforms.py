"""A run on a system that lacks modules of Linux, pages without TensorFlow, and readers that leave."""

import os
import subprocess
import sys

import pytest

from qkv.commands import translate
from qkv.config.yaml import dump_yaml
from qkv.files.json import read_json_object
from qkv.files.run_directory import RunDirectory
from tests.support import KEPT_RUNS, ROOT
from tests.support.processes import run_without
from tests.support.tiny_runs import small_settings, write_small_corpus

pytestmark = [pytest.mark.minutes, pytest.mark.slow]  # starts processes

PROBE = {"inspection.probes": [{"source": "the cat sees the dog .", "reference": "le chat voit le chien ."}]}
WINDOWS_LACKS = ["tensorflow_text", "fcntl", "resource"]

TRAIN = """
import sys
import evaluate, train
sys.exit(train.main(["--config", sys.argv[1]]) or evaluate.main([sys.argv[2]]))
"""
TRANSLATE = """
import sys
from qkv.commands import export, translate
small, kept, source, folder = sys.argv[1:]
sys.stdin = open(source)
assert translate.main([small]) == 0
for name, status in (("ctranslate2", 0), ("saved_model", 2)):
    assert export.main([kept, f"{folder}/{name}", "--format", name, "--sentences", "0"]) == status
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run that was trained and evaluated without these modules."""
    folder = tmp_path_factory.mktemp("windows")
    settings = small_settings(write_small_corpus(folder / "corpus"), folder / "runs", PROBE)
    (folder / "small.yaml").write_text(dump_yaml(settings), encoding="utf-8")
    answer = run_without(WINDOWS_LACKS, folder / "site", "-c", TRAIN, folder / "small.yaml", folder / "runs" / "small")
    assert answer.returncode == 0 and answer.stderr == "", answer.stderr
    run = RunDirectory(folder / "runs" / "small")
    versions = read_json_object(run.manifest)["versions"]
    assert "tensorflow" in versions and "tensorflow-text" not in versions
    return run


def test_tensorflow_text_gives_the_same_translations_and_matrices(run):
    evaluate = started_for_a_reader_that_leaves(["evaluate.py", run.root, "--name", "op"])
    assert (evaluate.returncode, evaluate.stderr) == (0, "")  # as in `evaluate.py runs/demo | head -n 1`
    without, op = run.evaluation("test"), run.evaluation("op")
    assert op.translations.read_bytes() == without.translations.read_bytes()
    assert op.sentences.read_bytes() == without.sentences.read_bytes()


@pytest.mark.parametrize(
    "arguments",
    [
        ["view", "{run}", "--output", "{new}.html"],
        ["view", "{run}", "--over_training", "--output", "{new}.html"],
        ["draw", "{run}", "--sentence", "1", "--output", "{new}.svg"],
        ["compare", "{run}", "{run}", "--csv", "{new}.csv"],
    ],
    ids=lambda arguments: " ".join(arguments[:1] + arguments[2:3]),
)
def test_pages_pictures_and_tables_need_no_tensorflow(arguments, run, tmp_path):
    filled = [argument.format(run=run.root, new=tmp_path / "new") for argument in arguments]
    answer = run_without(["tensorflow", "keras", *WINDOWS_LACKS], tmp_path, "-m", "qkv", filled[0], *filled[1:])
    assert answer.returncode == 0, answer.stderr
    assert list(tmp_path.glob("new.*"))


def test_a_run_translates_without_tensorflow_text_and_is_exported_where_the_format_needs_none(
    run, tmp_path, monkeypatch, capsys
):
    source = tmp_path / "source.en"
    source.write_text("the cat sees the dog .\nÉva sees a cat .\n", encoding="utf-8")
    words = ["-c", TRANSLATE, run.root, KEPT_RUNS / "transformer", source, tmp_path]
    answer = run_without(WINDOWS_LACKS, tmp_path / "site", *words)
    assert answer.returncode == 0, answer.stderr
    unknown = "warning: standard input:2: the model does not know 'É', which its training text does not have;"
    assert answer.stderr.startswith(unknown) and "error: this format needs the package tensorflow-text" in answer.stderr
    assert [(tmp_path / name / "manifest.json").is_file() for name in ("ctranslate2", "saved_model")] == [True, False]
    with source.open(encoding="utf-8") as lines:
        monkeypatch.setattr("sys.stdin", lines)
        assert translate.main([str(run.root)]) == 0
    translated = capsys.readouterr().out
    assert answer.stdout.startswith(translated) and translated.count("\n") == 2


def started_for_a_reader_that_leaves(command, **settings):
    reader, writer = os.pipe()
    os.close(reader)
    answer = subprocess.run(
        [sys.executable, *command], stdout=writer, stderr=subprocess.PIPE, text=True, cwd=ROOT, **settings
    )
    os.close(writer)
    return answer


def test_a_reader_that_leaves_is_no_error(run):
    """That of an evaluation, whose results are still written, has left above."""
    translate = started_for_a_reader_that_leaves(["-m", "qkv", "translate", run.root], input="le chat\n" * 50)
    assert (translate.returncode, translate.stderr) == (0, "")
