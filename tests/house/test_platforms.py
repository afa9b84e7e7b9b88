"""A run on a system that lacks modules of Linux, pages without TensorFlow, and readers that leave."""

import re
import subprocess
import sys

import pytest

from qkv.commands import translate
from qkv.config.yaml import dump_yaml
from qkv.files.json import read_json_object
from qkv.files.run_directory import RunDirectory
from tests.support import KEPT_RUNS, ROOT
from tests.support.minutes import by_hand
from tests.support.processes import run_without
from tests.support.tiny_runs import small_settings, write_small_corpus

pytestmark = [pytest.mark.minutes, pytest.mark.slow]  # starts processes

PROBE = {"inspection.probes": [{"source": "the cat sees the dog .", "reference": "le chat voit le chien ."}]}
WINDOWS_LACKS = ["tensorflow_text", "fcntl", "resource"]

COMMANDS = """
import logging
import sys
import evaluate, train
from qkv.commands import export, translate
folder, kept = sys.argv[1:]
small = f"{folder}/runs/small"
assert train.main(["--config", f"{folder}/small.yaml"]) == 0
assert evaluate.main([small]) == 0
for stream in (sys.stdout, sys.stderr):
    print("== translating", file=stream, flush=True)
logging.getLogger().handlers.clear()  # as in a new process
logging.getLogger("qkv").setLevel(logging.NOTSET)
sys.stdin = open(f"{folder}/source.en")
assert translate.main([small]) == 0
for name, status in (("ctranslate2", 0), ("saved_model", 2)):
    assert export.main([kept, f"{folder}/{name}", "--format", name, "--sentences", "0"]) == status
"""


@pytest.fixture(scope="module")
def without(tmp_path_factory):
    """The folder of a run that was trained, evaluated, translated with and exported without these modules, in one
    process, and what it printed from the translations on."""
    folder = tmp_path_factory.mktemp("windows")
    settings = small_settings(write_small_corpus(folder / "corpus"), folder / "runs", PROBE)
    (folder / "small.yaml").write_text(dump_yaml(settings), encoding="utf-8")
    (folder / "source.en").write_text("the cat sees the dog .\nÉva sees a cat .\n", encoding="utf-8")
    answer = run_without(WINDOWS_LACKS, folder / "site", "-c", COMMANDS, folder, KEPT_RUNS / "transformer")
    assert answer.returncode == 0, answer.stderr
    (_, printed), (told, errors) = (text.split("== translating\n") for text in (answer.stdout, answer.stderr))
    assert told == ""
    return folder, printed, errors


@pytest.fixture
def run(without):
    run = RunDirectory(without[0] / "runs" / "small")
    versions = read_json_object(run.manifest)["versions"]
    assert "tensorflow" in versions and "tensorflow-text" not in versions
    return run


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
    run, without, monkeypatch, capsys
):
    folder, printed, errors = without
    unknown = "warning: standard input:2: the model does not know 'É', which its training text does not have;"
    assert errors.startswith(unknown) and "error: this format needs the package tensorflow-text" in errors
    assert [(folder / name / "manifest.json").is_file() for name in ("ctranslate2", "saved_model")] == [True, False]
    with (folder / "source.en").open(encoding="utf-8") as lines:
        monkeypatch.setattr("sys.stdin", lines)
        assert translate.main([str(run.root)]) == 0
    translated = capsys.readouterr().out
    assert printed.startswith(translated) and translated.count("\n") == 2


LEAVES = """
import os
import sys
import evaluate
from qkv.commands import translate
run, source = sys.argv[1:]
for command in (lambda: evaluate.main([run, "--name", "op"]), lambda: translate.main([run])):
    reader, writer = os.pipe()
    os.close(reader)
    os.dup2(writer, 1)
    sys.stdout = open(1, "w", closefd=False)
    sys.stdin = open(source)
    assert command() == 0
"""


def test_a_reader_that_leaves_is_no_error_and_tensorflow_text_gives_the_same_results(run, tmp_path):
    """As in `evaluate.py runs/demo | head -n 1`, whose results are still written."""
    (tmp_path / "source").write_text("le chat\n" * 50, encoding="utf-8")
    command = [sys.executable, "-c", LEAVES, run.root, tmp_path / "source"]
    answer = subprocess.run(command, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    assert (answer.returncode, answer.stderr) == (0, "")
    without, op = run.evaluation("test"), run.evaluation("op")
    assert op.translations.read_bytes() == without.translations.read_bytes()
    assert op.sentences.read_bytes() == without.sentences.read_bytes()


SMOKE = ROOT / ".ci" / "smoke.py"


@by_hand
def test_the_script_for_other_systems_goes_from_training_to_the_page(tmp_path):
    pytest.importorskip("ctranslate2")
    done = run_without(WINDOWS_LACKS, tmp_path, SMOKE)
    assert done.returncode == 0, done.stdout + done.stderr
    steps = re.findall(r"^ok  (\w+)", done.stdout, re.MULTILINE)
    assert steps == ["train", "evaluate", "translate", "export", "view"]


def test_the_script_for_other_systems_needs_nothing_of_linux_or_of_the_tests():
    code = SMOKE.read_text(encoding="utf-8").split('"""', 2)[2]
    assert not re.search(r"\b(make|bash|shell|chromium|fcntl|resource|pytest|tests)\b|/tmp|/dev", code)
