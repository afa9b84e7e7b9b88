"""What a run leaves behind, from its history to its model, and what it refuses."""

import io
import json
import logging
import re
import shutil

import keras
import numpy as np
import pandas as pd
import pytest

from qkv.commands import view
from qkv.files.run_directory import RunDirectory
from qkv.files.written import LIST
from qkv.inspection import AttentionArchive
from qkv.inspection.archive import probe_archives
from qkv.run import train
from qkv.run.trained_run import load_run
from qkv.run.training import _report_interrupted
from qkv.training.progress import Progress
from qkv.version import __version__
from tests.support.run_contents import TIMES, history_of, state_at
from tests.support.tiny_runs import LIVELY, small_config


def test_history_has_a_row_for_each_validation(unbroken):
    history = pd.read_csv(unbroken / "history.csv")
    assert list(history["update"]) == [3, 6, 8]
    of_validation = {"val_loss", "val_perplexity", "val_token_accuracy", "val_bleu"}
    assert set(history) == {"update", "epoch", "loss", "gradient_norm", "learning_rate", *TIMES} | of_validation
    assert history.notna().all(axis=None)
    np.testing.assert_allclose(history["val_perplexity"], np.exp(history["val_loss"]))


def test_the_model_of_a_run_has_the_weights_of_its_best_checkpoint(unbroken):
    history = history_of(unbroken)
    best = history["val_loss"].idxmin()
    with np.load(unbroken / "checkpoints" / "best.npz") as archive:
        assert json.loads(str(archive["progress"]))["best_update"] == best
    model = load_run(unbroken).model
    found = {name: value for name, value in state_at(unbroken, best).items() if name.startswith("model/")}
    for variable, value in zip(model.variables, found.values(), strict=True):
        if "seed_generator" not in variable.path:
            np.testing.assert_array_equal(variable, value, err_msg=variable.path)


def test_nothing_temporary_stays_in_a_run(unbroken):
    assert [path.name for path in unbroken.rglob(".*")] == [LIST]
    (events,) = unbroken.glob("events.out.tfevents.*")
    folders = {path.name for path in unbroken.iterdir() if path.is_dir()}
    assert folders == {"checkpoints", "encoded", "probes", "projector", "tokenizer", "validation"}
    files = {path.name for path in unbroken.iterdir() if path.is_file()} - {events.name, LIST}
    of_text = {"corpus_report.json", "source_look.json", "target_look.json"}
    assert files == {"config.yaml", "history.csv", "manifest.json", "model.keras", "projector_config.pbtxt"} | of_text


def test_the_attention_over_the_probes_is_archived_at_every_validation(unbroken):
    archives = [AttentionArchive(path) for path, _ in probe_archives(unbroken / "probes")]
    assert [archive.manifest["update"] for archive in archives] == [3, 6, 8]
    for archive in archives:
        (record,) = archive  # the other probe has no reference
        assert (record.hypothesis, record.mode) == ("Jane visite l'Afrique .", "forced")
    assert not np.array_equal(archives[0][0].attention["cross"], archives[2][0].attention["cross"])


def test_a_page_shows_the_archives_of_the_probes_by_a_slider(unbroken, tmp_path):
    assert view.main([str(unbroken), "--over_training", "--output", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page)[1])
    assert [run["name"] for run in data["runs"]] == [["viewer.stage", {"update": n}] for n in (3, 6, 8)]
    assert data["stages"] and data["runs"][0]["facts"][0] == "en → fr"
    assert view.main([str(unbroken), str(unbroken), "--over_training"]) == 2


def test_the_corpus_report_counts_problems_and_names_their_lines(unbroken, corpus):
    report = json.loads((unbroken / "corpus_report.json").read_text(encoding="utf-8"))
    lines = report["lines"]
    assert report["files"] == f"{corpus}/train.en + {corpus}/train.fr"
    assert report["pairs"] == 120
    assert lines["empty_side"] == [5]
    assert lines["duplicate"] == [21, 31]
    assert report["found"]["empty_side"] == {"action": "drop", "count": 1}
    assert report["found"]["duplicate"] == {"action": "keep", "count": 2}
    dropped = sum(found["count"] for found in report["found"].values() if found["action"] == "drop")
    assert report["kept"] == 120 - dropped
    validation = report["overlap"]["validation"]
    assert {name: validation[name] for name in ("pairs", "of")} == {"pairs": 1, "of": 10}
    assert 3 in validation["lines"]
    assert validation["sources"] == len(validation["lines"])
    assert report["overlap"]["test"]["of"] == 10


def test_the_manifest_says_what_the_run_was_made_of(unbroken, corpus):
    manifest = json.loads((unbroken / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["seed"] == 1
    assert manifest["precision"] == "float32"
    assert manifest["versions"]["keras"] == keras.__version__
    assert (unbroken / "config.yaml").read_text(encoding="utf-8").startswith(f"# made by qkv {__version__}\n")
    assert manifest["versions"]["qkv"] == __version__
    names = {f"{split}.{suffix}" for split in ("train", "validation", "test") for suffix in ("en", "fr", "align")}
    assert set(manifest["data_sha256"]) == {str(corpus / name) for name in names}
    assert all(len(digest) == 64 for digest in manifest["data_sha256"].values())
    assert manifest["parameters"] == load_run(unbroken).model.count_params()
    losses = pd.read_csv(unbroken / "history.csv").set_index("update")["val_loss"].dropna()
    assert manifest["weights"] == f"update {losses.idxmin()}"
    assert manifest["validation"] == pytest.approx({"loss": losses.min()})


@pytest.mark.minutes
def test_checkpoints_can_be_loaded_before_the_model_is_saved(unbroken, tmp_path):
    run = tmp_path / "training"
    shutil.copytree(unbroken, run)
    (run / "model.keras").unlink()
    (run / "manifest.json").unlink()
    for checkpoint in ("last", "best"):
        assert len(load_run(run, checkpoint).translator.translate(["Jane visits Africa ."])) == 1


@pytest.mark.parametrize(
    ("saved", "how"), [(True, "continue"), (False, "their speed was not measured yet, so start again")]
)
def test_an_interruption_says_whether_training_goes_on_or_starts_anew(saved, how, tmp_path, caplog):
    with caplog.at_level("INFO"):
        _report_interrupted(RunDirectory(tmp_path), Progress(update=10), saved=saved)
    said = f"\ninterrupted after 10 updates; {how} with:\n  qkv train --resume {tmp_path}"
    assert [record.getMessage() for record in caplog.records] == [said]


class Diary(keras.callbacks.Callback):
    """Writes down what it is told, and stops training at the first validation."""

    def __init__(self):
        super().__init__()
        self.losses, self.validations = [], []

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append((batch, logs["loss"]))

    def on_test_end(self, logs=None):
        self.validations.append(logs["update"])
        self.model.stop_training = True


@pytest.fixture(scope="module")
def other(corpus, tmp_path_factory):
    """A run of another seed that a callback watches and stops; one of its validation sentences is too long.

    Its folder, the callback, and what was logged.
    """
    folder, diary = tmp_path_factory.mktemp("other"), Diary()
    for suffix in ("en", "fr"):
        lines = (corpus / f"validation.{suffix}").read_text(encoding="utf-8").splitlines()
        (folder / f"long.{suffix}").write_text("\n".join([*lines[:4], " ".join(lines)]) + "\n", encoding="utf-8")
    changes = {
        "run.seed": 2,
        "data.validation": {"source": str(folder / "long.en"), "target": str(folder / "long.fr")},
        "model.max_positions": 61,  # nor does padding to a multiple go beyond the last position
        "inspection.probes": [],
    }
    log = logging.StreamHandler(io.StringIO())
    logging.getLogger().addHandler(log)
    assert train(small_config(corpus, folder, "other", LIVELY | changes), callbacks=[diary]) == 0
    logging.getLogger().removeHandler(log)
    return folder / "other", diary, log.stream.getvalue()


@pytest.mark.minutes
def test_a_validation_sentence_too_long_for_the_model_does_not_end_training(other):
    assert re.search("[1-4] validation pairs are too long for model.max_positions: not in the loss", other[2])


@pytest.mark.minutes
def test_a_users_callback_gets_all_events_and_can_stop_training(other):
    diary = other[1]
    assert diary.validations == [3]
    assert [batch for batch, _ in diary.losses] == [0, 1, 2]
    assert all(loss > 0 for _, loss in diary.losses)


@pytest.mark.minutes
def test_another_seed_gives_another_run(other, unbroken):
    states, same = state_at(other[0], 3), state_at(unbroken, 3)
    assert list(states) == list(same)
    assert all(not np.array_equal(states[name], same[name]) for name in states if name.endswith(("kernel", "table")))
