"""Whole runs, from text to `model.keras`: the same again, stopped and resumed, and what they leave behind."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.parse
import urllib.request
import zipfile

import keras
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator

from pipeline import train as train_module
from pipeline import view
from pipeline.config import dump, load_run_config
from pipeline.errors import InputError
from pipeline.inspection import AttentionArchive
from pipeline.text import prepare as prepare_module
from pipeline.train import train
from pipeline.trained_run import load_run
from pipeline.training.checkpoint import Checkpoints
from pipeline.training.probe_archive import probe_archives
from tests.benchmarks.kill import while_writing
from tests.layer_contract import stir
from tests.tiny_runs import ROOT

pytestmark = pytest.mark.slow

TIMES = ["minutes", "tokens_per_second"]  # all else of a run depends on text, settings and seed alone


def state_at(run, update):
    """Every array of a checkpoint: weights, optimizer, dropout's random numbers."""
    with np.load(run / "checkpoints" / f"update-{update:08d}.npz") as archive:
        return {name: archive[name] for name in archive.files if name != "progress"}


def assert_same_state(these, those):
    assert list(these) == list(those)
    for name, array in these.items():
        np.testing.assert_array_equal(array, those[name], err_msg=name)


def history_of(run):
    return pd.read_csv(run / "history.csv").drop(columns=TIMES).set_index("update")


def weights_in(path):
    """The arrays of a model.keras, byte for byte."""
    with zipfile.ZipFile(path) as archive:
        return archive.read("model.weights.h5")


def test_the_same_settings_and_seed_give_the_same_run_bit_for_bit(unbroken, make_config):
    config = make_config("again")
    assert train(config) == 0
    again = config.run.directory / "again"
    for update in (3, 6, 8):
        assert_same_state(state_at(again, update), state_at(unbroken, update))
    pd.testing.assert_frame_equal(history_of(again), history_of(unbroken), check_exact=True)
    assert weights_in(again / "model.keras") == weights_in(unbroken / "model.keras")


def test_a_run_that_a_limit_and_a_signal_stopped_ends_as_one_that_was_never_stopped(
    unbroken, make_config, monkeypatch, caplog
):
    config = make_config("stopped", training__max_updates=2)
    run = config.run.directory / "stopped"
    assert train(config) == 0

    class Interrupt(train_module.ProgressLine):
        def on_train_batch_begin(self, batch, logs=None):
            if batch == 3:
                signal.raise_signal(signal.SIGINT)

    longer = make_config("stopped")
    with monkeypatch.context() as patch, caplog.at_level("INFO"):
        patch.setattr(train_module, "ProgressLine", Interrupt)
        assert train(longer, resume=run) == 130
    assert f"interrupted after 4 updates; go on with:\n  python train.py --resume {run}" in caplog.text
    assert train(longer, resume=run) == 0
    for update in (3, 6, 8):
        assert_same_state(state_at(run, update), state_at(unbroken, update))
    assert load_run_config(run / "config.yaml") == longer  # the limit that was changed is recorded
    history = history_of(run)
    assert list(history.index) == [2, 3, 6, 8]  # it was validated too where a limit ended it
    pd.testing.assert_frame_equal(history.loc[[3, 6, 8]], history_of(unbroken), check_exact=True)
    shown = events_of(run)
    assert [event.step for event in shown.Tensors("training/loss")] == list(range(1, 9))
    assert [event.step for event in shown.Tensors("validation/bleu")] == [2, 3, 6, 8]
    assert [update for _, update in probe_archives(run / "probes")] == [2, 3, 6, 8]


RECIPES = {
    "moving average": {"training__ema_decay": 0.8, "training__optimizer": "muon"},
    "accumulated": {"batches__accumulated": 2, "batches__start_tokens": 300, "batches__doubling_epochs": 1},
    "read twice": {"training__r_drop": 3.0, "training__average_checkpoints": 2, "training__average_of": "best"},
}


@pytest.mark.minutes
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_run_of_every_recipe_goes_on_as_if_never_stopped(recipe, make_config):
    straight = make_config("straight", **RECIPES[recipe])
    assert train(straight) == 0
    stopped = make_config("broken", **RECIPES[recipe], training__max_updates=4)
    run = stopped.run.directory / "broken"
    assert train(stopped) == 0
    assert train(make_config("broken", **RECIPES[recipe]), resume=run) == 0
    assert_same_state(state_at(run, 8), state_at(straight.run.directory / "straight", 8))
    one, other = (load_run(straight.run.directory / name).model.get_weights() for name in ("straight", "broken"))
    if recipe != "read twice":  # whose best few may be others, as one was validated where it stopped
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_run_killed_while_it_writes_a_checkpoint_ends_as_one_that_was_left_alone(unbroken, make_config, tmp_path):
    """tests/benchmarks/kill.py does this fifty times."""
    config = make_config("killed")
    run = config.run.directory / "killed"
    (tmp_path / "killed.yaml").write_text(dump(config), encoding="utf-8")
    command = [sys.executable, "train.py", "--config", str(tmp_path / "killed.yaml")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while_writing(3)(run, lambda: process.poll() is None)
        process.kill()
    assert (run / "checkpoints" / "update-00000003.npz").is_file() and not (run / "model.keras").exists()
    assert train(config, resume=run) == 0
    for update in (3, 6, 8):
        assert_same_state(state_at(run, update), state_at(unbroken, update))
    pd.testing.assert_frame_equal(history_of(run), history_of(unbroken), check_exact=True)
    assert [event.step for event in events_of(run).Tensors("training/loss")] == list(range(1, 9))


class Killed(BaseException):
    """Ends training as a process ends that is killed: nothing is tidied up."""


def killed(config, monkeypatch, where, name):
    """Trains until a function is called, and keeps what is there then."""

    def kill(*arguments, **settings):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(where, name, kill)
        patch.setattr(train_module.shutil, "rmtree", lambda *arguments, **settings: None)
        with pytest.raises(Killed):
            train(config)


@pytest.mark.minutes
@pytest.mark.parametrize(
    ("where", "name", "there"),
    [
        (prepare_module, "_judge", [".preparation.json", "config.yaml", "tokenizer"]),
        (Checkpoints, "save", ["config.yaml", "corpus_report.json", "encoded", "history.csv", "probes", "tensorboard"]),
    ],
    ids=["while the text is encoded", "at the first checkpoint"],
)
def test_a_run_killed_before_its_first_checkpoint_ends_as_one_that_was_left_alone(
    where, name, there, unbroken, make_config, monkeypatch
):
    config = make_config("early")
    run = config.run.directory / "early"
    killed(config, monkeypatch, where, name)
    assert set(there) <= {path.name for path in run.iterdir()} and not list(run.glob("checkpoints/*"))
    tokenizer = run / "tokenizer" / "sentencepiece.model"
    made = tokenizer.stat().st_mtime_ns
    assert train(config, resume=run) == 0
    assert tokenizer.stat().st_mtime_ns == made
    assert_same_state(state_at(run, 8), state_at(unbroken, 8))
    pd.testing.assert_frame_equal(history_of(run), history_of(unbroken), check_exact=True)
    assert [event.step for event in events_of(run).Tensors("training/loss")] == list(range(1, 9))
    assert sorted(path.name for path in run.iterdir()) == sorted(path.name for path in unbroken.iterdir())


def test_the_same_command_on_a_finished_run_says_so_and_changes_nothing(unbroken, caplog):
    before = {path: path.read_bytes() for path in unbroken.rglob("*") if path.is_file()}
    with caplog.at_level("INFO"):
        assert train(load_run_config(unbroken / "config.yaml"), resume=unbroken) == 0
    assert "unbroken is trained already: 8 updates (8 updates). To train it longer raise that limit" in caplog.text
    assert {path: path.read_bytes() for path in unbroken.rglob("*") if path.is_file()} == before


def test_history_has_a_row_for_each_validation(unbroken):
    history = pd.read_csv(unbroken / "history.csv")
    assert list(history["update"]) == [3, 6, 8]
    assert set(history) == {
        "update",
        "epoch",
        "loss",
        "gradient_norm",
        "learning_rate",
        "val_loss",
        "val_perplexity",
        "val_token_accuracy",
        "val_bleu",
        *TIMES,
    }
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
    assert list(unbroken.rglob(".*")) == []
    assert sorted(path.name for path in unbroken.iterdir()) == [
        "checkpoints",
        "config.yaml",
        "corpus_report.json",
        "encoded",
        "history.csv",
        "manifest.json",
        "model.keras",
        "probes",
        "tensorboard",
        "tokenizer",
    ]


def test_the_saved_settings_are_those_that_were_given(unbroken):
    assert load_run_config(unbroken / "config.yaml").run.name == "unbroken"
    assert load_run_config(unbroken / "config.yaml").training.max_updates == 8


def events_of(run):
    """What TensorBoard reads, all of it."""
    events = EventAccumulator(str(run / "tensorboard"))
    return events.Reload()


@pytest.fixture(scope="module")
def events(unbroken):
    accumulator = EventAccumulator(str(unbroken / "tensorboard"), size_guidance={"images": 0, "tensors": 0})
    return accumulator.Reload()


def test_tensorboard_has_curves_against_updates(unbroken, events):
    tensors = set(events.Tags()["tensors"])
    for name in ("loss", "gradient_norm", "learning_rate"):
        assert [event.step for event in events.Tensors(f"training/{name}")] == list(range(1, 9))
    for name in ("loss", "perplexity", "token_accuracy", "bleu"):
        steps = {
            event.step: float(tf.make_ndarray(event.tensor_proto)) for event in events.Tensors(f"validation/{name}")
        }
        np.testing.assert_allclose(list(steps.values()), history_of(unbroken)[f"val_{name}"], rtol=1e-5)
        assert list(steps) == [3, 6, 8]
    assert not {f"training/{name}" for name in ("update", "epoch", "minutes")} & tensors


def test_tensorboard_has_the_probes_as_a_table_that_markdown_does_not_change(events):
    (tag,) = [tag for tag in events.Tags()["tensors"] if tag.startswith("probes")]
    tables = {event.step: tf.make_ndarray(event.tensor_proto).item().decode() for event in events.Tensors(tag)}
    assert list(tables) == [3, 6, 8]
    lines = tables[8].splitlines()
    assert lines[0] == "| # | source | reference | translation |"
    assert lines[2].startswith("| 0 | Jane visits Africa . | Jane visite l'Afrique . | ")
    assert lines[3].startswith(r"| 1 | a \* star \| and \[brackets\] |  | ")


def test_tensorboard_has_a_picture_of_each_probes_attention(events):
    for probe in (0, 1):
        (tag,) = [tag for tag in events.Tags()["tensors"] if tag.startswith(f"probe {probe}/")]
        pictures = events.Tensors(tag)
        assert [event.step for event in pictures] == [3, 6, 8]
        assert tf.make_ndarray(pictures[0].tensor_proto)[2].startswith(b"\x89PNG")


def test_tensorboard_has_the_sharpness_of_the_probes_attention_over_time(events):
    for name, highest in (("entropy", 5), ("eos_share", 1), ("diagonality", 1)):
        values = events.Tensors(f"attention/{name}, layer 0")
        assert [event.step for event in values] == [3, 6, 8]
        assert all(0 < float(tf.make_ndarray(event.tensor_proto)) < highest for event in values)


@pytest.fixture(scope="module")
def served(unbroken):
    """Asks a TensorBoard of the run, in a process of its own, for what its plugins show."""
    program = (
        "import sys, tensorboard.program as program\n"
        "board = program.TensorBoard()\n"
        "board.configure(argv=[None, '--logdir', sys.argv[1], '--port', '0', '--load_fast', 'false'])\n"
        "print(board.launch(), flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", program, str(unbroken)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as board:
        address = board.stdout.readline().decode().strip()

        def get(path):
            with urllib.request.urlopen(f"{address}{path}", timeout=60) as answer:
                return answer.read().decode()

        yield get
        board.stdin.close()


@pytest.mark.minutes
def test_tensorboard_serves_runs_hyperparameters_and_vectors(served, unbroken):
    deadline = time.monotonic() + 60
    wanted, active = {"scalars", "images", "text", "hparams", "projector", "graphs"}, set()
    while not wanted <= active and time.monotonic() < deadline:  # it reads the files after it has started
        listing = json.loads(served("data/plugins_listing"))
        active = {name for name, plugin in listing.items() if plugin["enabled"]}
        time.sleep(0.1)
    assert wanted <= active
    assert json.loads(served("data/runs")) == ["tensorboard"]
    experiment = json.loads(served("data/plugin/hparams/experiment?request=%7B%7D"))
    shown = {info["name"]: info for info in experiment["hparamInfos"]}
    assert {"model.d_model", "model.attention.cross.score", "training.learning_rate", "run.seed"} <= shown.keys()
    assert "validation/bleu" in {info["name"]["tag"] for info in experiment["metricInfos"]}
    info = json.loads(served("data/plugin/projector/info?run=tensorboard"))["embeddings"][0]
    name = urllib.parse.quote(info["tensorName"])
    names = served(f"data/plugin/projector/metadata?run=tensorboard&name={name}").split("\n")
    assert names[:4] == ["<pad>", "<unk>", "<s>", "</s>"] and len(names) == 90 + 1
    assert info["tensorShape"] == [90, 8]
    graph = served("data/plugin/graphs/graph?run=tensorboard&conceptual=false")
    assert "decoder_0" in graph and "MatMul" in graph


def test_the_probes_attention_is_kept_at_every_validation(unbroken):
    archives = [AttentionArchive(path) for path, _ in probe_archives(unbroken / "probes")]
    assert [archive.manifest["update"] for archive in archives] == [3, 6, 8]
    for archive in archives:
        (record,) = archive  # the other probe has no reference
        assert (record.hypothesis, record.mode) == ("Jane visite l'Afrique .", "forced")
    assert not np.array_equal(archives[0][0].attention["cross"], archives[2][0].attention["cross"])


def test_a_page_shows_the_probes_side_by_side(unbroken, tmp_path):
    assert view.main([str(unbroken), "--over_training", "--output", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page)[1])
    assert [run["name"] for run in data["runs"]] == ["update 3", "update 6", "update 8"]
    assert view.main([str(unbroken), str(unbroken), "--over_training"]) == 2


def test_the_corpus_report_counts_what_is_odd_with_lines(unbroken, corpus):
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
    names = {f"{split}.{suffix}" for split in ("train", "validation", "test") for suffix in ("en", "fr", "align")}
    assert set(manifest["data_sha256"]) == {str(corpus / name) for name in names}
    assert all(len(digest) == 64 for digest in manifest["data_sha256"].values())
    assert manifest["parameters"] == load_run(unbroken).model.count_params()


def test_a_run_whose_weights_were_changed_is_refused(unbroken, tmp_path):
    run = tmp_path / "changed"
    shutil.copytree(unbroken, run)
    stir(load_run(run).model).save(run / "model.keras")
    with pytest.raises(InputError, match=r"changed/model\.keras: the model gives other numbers than when it was saved"):
        load_run(run)


def test_the_last_checkpoint_can_be_loaded_where_no_model_was_saved_yet(unbroken, tmp_path):
    run = tmp_path / "training"
    shutil.copytree(unbroken, run)
    (run / "model.keras").unlink()
    (run / "manifest.json").unlink()
    for checkpoint in ("last", "best"):
        assert len(load_run(run, checkpoint).translator.translate(["Jane visits Africa ."])) == 1


def test_a_validation_sentence_too_long_for_the_model_does_not_end_training(make_config, corpus, tmp_path, caplog):
    for suffix in ("en", "fr"):
        lines = (corpus / f"validation.{suffix}").read_text(encoding="utf-8").splitlines()
        (tmp_path / f"long.{suffix}").write_text("\n".join([*lines[:4], " ".join(lines)]) + "\n", encoding="utf-8")
    config = make_config(
        "long",
        data__validation={"source": str(tmp_path / "long.en"), "target": str(tmp_path / "long.fr")},
        training__max_updates=1,
        model__max_positions=61,  # nor does padding to a multiple go beyond the last position
        inspection__probes=[],
    )
    assert train(config) == 0
    assert re.search("[1-4] validation pairs are too long for model.max_positions: not in the loss", caplog.text)


def test_a_run_directory_that_exists_is_refused_and_left_as_it_is(unbroken, corpus):
    before = {path: path.stat().st_mtime_ns for path in unbroken.rglob("*")}
    with pytest.raises(InputError, match="unbroken: the run exists already"):
        train(load_run_config(unbroken / "config.yaml"))
    assert {path: path.stat().st_mtime_ns for path in unbroken.rglob("*")} == before


def test_importing_the_command_line_loads_nothing_heavy():
    code = (
        "import sys, train, evaluate, pipeline.translate\n"
        "print({'tensorflow', 'keras', 'matplotlib'} & set(sys.modules))"
    )
    answer = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "set()"


def test_another_seed_gives_another_run_and_callbacks_of_ones_own_are_told_what_happens(unbroken, make_config):
    class Diary(keras.callbacks.Callback):
        def __init__(self):
            super().__init__()
            self.losses, self.validations = [], []

        def on_train_batch_end(self, batch, logs=None):
            self.losses.append((batch, logs["loss"]))

        def on_test_end(self, logs=None):
            self.validations.append(logs["update"])
            self.model.stop_training = True

    diary = Diary()
    config = make_config("diary", run__seed=2)
    assert train(config, callbacks=[diary]) == 0
    assert diary.validations == [3]
    assert [batch for batch, _ in diary.losses] == [0, 1, 2]
    assert all(loss > 0 for _, loss in diary.losses)

    other, same = state_at(config.run.directory / "diary", 3), state_at(unbroken, 3)
    assert list(other) == list(same)
    assert all(not np.array_equal(other[name], same[name]) for name in other if name.endswith(("kernel", "table")))
