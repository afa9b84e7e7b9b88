"""Somebody types plain sentences into the demo."""

import json
import shutil

import pytest

from tests.support import ROOT
from tests.support.journeys import run

pytestmark = [
    pytest.mark.minutes,  # `.ci/run` makes the demo before these
    pytest.mark.slow,
    pytest.mark.usefixtures("loaded_once"),
    pytest.mark.skipif(not (ROOT / "runs/demo/manifest.json").is_file(), reason="needs the trained demo"),
]

TYPED = ["The cat eats the apple.", "Hugo sees the old church.", "is this brother young?"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a copy of the demo."""
    folder = tmp_path_factory.mktemp("typed")
    (folder / "data").symlink_to(ROOT / "data")
    unneeded = shutil.ignore_patterns("tensorboard", "checkpoints", "evaluations", "encoded")
    shutil.copytree(ROOT / "runs" / "demo", folder / "runs" / "typed", ignore=unneeded)
    return folder


def test_plain_sentences_are_translated_as_those_of_the_text(folder):
    as_trained = ["the cat eats the apple .", "Hugo sees the old church .", "is this brother young ?"]
    plain = run(folder, "-m", "qkv", "translate", "runs/typed", given="\n".join(TYPED) + "\n")
    tokenised = run(folder, "-m", "qkv", "translate", "runs/typed", given="\n".join(as_trained) + "\n")
    assert plain.stdout == tokenised.stdout
    assert plain.stdout.splitlines()[0].startswith("le chat") and "pomme" in plain.stdout


def test_answers_can_be_plain_text_too(folder):
    ended = run(folder, "-m", "qkv", "translate", "runs/typed", "--detokenize", given="\n".join(TYPED) + "\n")
    answer = ended.stdout.splitlines()[0]
    assert answer.startswith("Le chat") and answer.endswith(".") and not answer.endswith(" .")


def test_the_sets_of_the_run_are_taken_as_they_are(folder):
    """What people type is normalised; what a run is scored on never is."""
    text = "".join((ROOT / "data/demo/test.en").read_text(encoding="utf-8").splitlines(keepends=True)[:50])
    (folder / "test.en").write_text(text, encoding="utf-8")
    run(folder, "evaluate.py", "runs/typed", "--source", "test.en", "--name", "as_file")
    typed = run(folder, "-m", "qkv", "translate", "runs/typed", given=text).stdout.splitlines()
    table = (folder / "runs/typed/evaluations/as_file/translations.tsv").read_text(encoding="utf-8").splitlines()
    column = table[0].split("\t").index("translation")
    assert typed == [row.split("\t")[column] for row in table[1:]]
    metrics = json.loads((folder / "runs/typed/evaluations/as_file/metrics.json").read_text(encoding="utf-8"))
    assert metrics["sentences"] == 50
