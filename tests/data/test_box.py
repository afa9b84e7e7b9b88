"""The run in the package: what is in it, where its name leads, and that nothing is written into it."""

import json
import zlib
from pathlib import Path

import numpy as np
import pytest

import qkv
from qkv.alignment.gold import read_choice_set
from qkv.alignment.readout_selection import last_layer_readout, save_choice
from qkv.commands import evaluate, explain, live, train
from qkv.config.run import load_run_config, load_started_run
from qkv.errors import InputError
from qkv.files.run_directory import DEMO, PACKAGED, RunDirectory, default_run, find_evaluation, find_run
from qkv.live.application import save_case
from qkv.live.live_run import LiveRun
from qkv.live.question import Question
from qkv.run.start import check_config_paths, inputs_of_training
from tests.support import KEPT_RUNS, ROOT, files_below
from tests.support.trained_runs import loading_once

pytestmark = pytest.mark.slow

LARGEST_BYTES = 1_600_000
SENTENCE = "the girl does not like the juice ."


@pytest.fixture(scope="module", autouse=True)
def nothing_is_written():
    before = files_below(PACKAGED)
    yield
    assert files_below(PACKAGED) == before


@pytest.fixture(scope="module")
def demo():
    return qkv.load(PACKAGED)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def trained(folder):
    """A run of its own at runs/demo."""
    (folder / "runs").mkdir()
    (folder / "runs" / "demo").symlink_to(KEPT_RUNS / "transformer")


MANIFEST = json.loads((PACKAGED / "manifest.json").read_text(encoding="utf-8"))


def test_its_settings_are_those_of_the_config_of_the_demo(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert load_started_run(PACKAGED / "config.yaml") == load_run_config("configs/demo.yaml")
    assert MANIFEST["saved_from"]["config"] == "configs/demo.yaml"
    assert MANIFEST["seed"] == MANIFEST["saved_from"]["seed"] == 1


@pytest.mark.parametrize("name", ["test", "validation"])
def test_its_sets_are_those_of_the_demo(name):
    for side, suffix in (("source", "en"), ("target", "fr"), ("alignments", "align")):
        own = PACKAGED / "held_out" / f"{name}.{side}"
        assert own.read_bytes() == (ROOT / "data" / "demo" / f"{name}.{suffix}").read_bytes()


def test_it_is_small_and_names_no_path_of_a_machine():
    files = files_below(PACKAGED)
    assert sum(len(zlib.compress(content)) for content in files.values()) < LARGEST_BYTES
    texts = [content.decode() for name, content in files.items() if Path(name).suffix in (".json", ".yaml", ".csv")]
    assert len(texts) == 7
    assert not [text for text in texts if str(ROOT) in text or "/tmp" in text or "/home" in text]


def test_its_weights_are_float16_and_computed_with_in_float32(demo):
    for variable in demo.model.weights:
        values = np.asarray(variable)
        assert values.dtype == "float32"
        np.testing.assert_array_equal(values, values.astype("float16"))


def test_its_name_leads_to_it_unless_there_is_such_a_path(folder):
    assert find_run(DEMO) == PACKAGED and RunDirectory.open(DEMO).root == PACKAGED
    assert str(RunDirectory.open(DEMO).argument) == "demo" and RunDirectory(Path("a")).argument == Path("a")
    assert find_run(Path("other")) == Path("other") and find_run(folder / "demo") == folder / "demo"
    (folder / "demo").mkdir()
    assert find_run(DEMO) == DEMO
    with pytest.raises(InputError, match="demo: not a run"):
        RunDirectory.open(DEMO)
    (folder / "demo").rmdir()
    (folder / "demo").symlink_to("nowhere")
    with pytest.raises(InputError, match="demo: no such run"):
        qkv.load("demo")


def test_commands_without_a_run_show_it_unless_there_is_a_trained_one(folder, capsys, monkeypatch):
    assert default_run() == PACKAGED
    (folder / "runs" / "demo" / "evaluations").mkdir(parents=True)  # results of the packaged run
    assert default_run() == PACKAGED
    (folder / "runs" / "demo" / "config.yaml").touch()
    assert default_run() == Path("runs/demo")


@loading_once()
def test_explain_alone_explains_a_probe_of_it(folder, capsys):
    assert explain.main([]) == 0
    assert capsys.readouterr().out.startswith("source       ▁the ▁girl ▁does ▁not ▁like ▁the ▁juice ▁. </s>\n")


def test_evaluations_are_found_by_every_path_that_leads_to_them(folder):
    assert find_evaluation(DEMO, "test")[0].is_packaged
    results = folder / "runs" / "demo" / "evaluations" / "test"
    results.mkdir(parents=True)
    for path in (DEMO, Path("runs/demo"), folder / "runs" / "demo", Path("runs/demo/evaluations/test"), results):
        run, evaluation = find_evaluation(path, "test")
        assert run.root == PACKAGED
        assert evaluation.root.resolve() == results.resolve(), path


@pytest.mark.minutes
def test_it_is_evaluated_into_runs_without_the_data_of_a_clone_as_well_as_its_manifest_says(demo, folder):
    evaluation = demo.evaluate("test")
    assert evaluation.path == Path("runs/demo/evaluations/test")
    said = MANIFEST["scores"]["test"]
    assert said["bleu"] >= 99 and said["aer"] <= 2
    assert abs(evaluation.metrics["bleu"] - said["bleu"]) < 0.1  # another processor may round otherwise
    assert evaluation.metrics["alignment"]["aer"] <= 2
    assert evaluation.metrics["alignment"]["chosen_on"] == "validation"
    assert set(demo.align("the cat sleeps .", "le chat dort .")) == {(0, 0), (1, 1), (2, 2), (3, 3)}


def test_another_choice_of_head_is_not_written_into_it(demo):
    before = files_below(PACKAGED)
    run = demo.trained
    save_choice(run, last_layer_readout(run), read_choice_set(run.config, run.reader.segmenter))
    assert files_below(PACKAGED) == before


def test_its_results_are_not_mixed_with_those_of_a_trained_run(demo, trained, capsys):
    with pytest.raises(InputError, match="it is another run; use that run: "):
        demo.evaluate("test")
    assert evaluate.main(["demo"]) == 2
    assert "runs/demo: results of the packaged run demo are written there" in capsys.readouterr().err
    assert not demo.trained.directory.evaluation("test").root.exists()
    assert qkv.load("runs/demo").path == Path("runs/demo")


@pytest.mark.minutes
def test_cases_of_the_live_page_are_saved_in_runs(demo, folder):
    page = LiveRun(demo.trained, "demo")
    answer = page.answer(Question(text=SENTENCE))
    assert answer.facts["nBest"][0]["text"] == "la fille n' aime pas le jus ."
    assert save_case([(page, answer)]) == [Path("runs/demo/live/0001")]
    (folder / "runs" / "demo" / "config.yaml").touch()
    with pytest.raises(InputError, match="it is another run"):
        save_case([(page, answer)])


@pytest.mark.parametrize(
    ("command", "arguments", "message"),
    [
        (evaluate, ["demo", "--tune"], "--tune: the run demo is in the package and is read-only; save a copy"),
        (
            train,
            ["--resume", "demo"],
            "error: demo: its model was saved by run.save, so there is no training to continue",
        ),
        (explain, ["nothing"], "nothing: no such run; expected a folder that train.py has created, such as runs/demo"),
        (live, ["nothing"], "such as runs/demo, or demo, which is in the package"),
    ],
)
def test_what_would_change_it_is_refused_with_one_message(command, arguments, message, folder, capsys):
    assert command.main(arguments) == 2
    assert message in capsys.readouterr().err


def test_a_training_starts_from_it(monkeypatch):
    monkeypatch.chdir(ROOT)
    config = load_run_config("configs/demo.yaml", {"training.start_from": "demo", "run.name": "new"})
    check_config_paths(config)
    assert PACKAGED / "model.keras" in inputs_of_training(config)


def test_a_copy_of_it_is_a_run_like_others(demo, folder):
    copy = demo.save(folder / "mine", dtype="float16")
    assert copy.trained.directory.results == folder / "mine"
    assert (folder / "mine" / "held_out" / "test.source").is_file()
    assert copy.translate(SENTENCE).text == demo.translate(SENTENCE).text
