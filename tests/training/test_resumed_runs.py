"""Whole runs that are trained again, stopped, killed and resumed: they end as one that was never stopped."""

import re
import shutil
import signal

import keras
import numpy as np
import pandas as pd
import pytest

from qkv.commands.train import main
from qkv.config import load_run_config
from qkv.errors import InputError
from qkv.files.atomic import temporary_path
from qkv.files.run_directory import RunDirectory
from qkv.inspection.archive import probe_archives
from qkv.run import train
from qkv.run.trained_run import load_run
from qkv.text.corpora.provenance import check_same_settings
from qkv.training import loop
from qkv.training.callbacks import build
from tests.support import files_below
from tests.support.minutes import by_hand
from tests.support.run_contents import content, contents, differing, events_of, history_of, state_at
from tests.support.training import Copy

pytestmark = pytest.mark.slow


@by_hand
@pytest.mark.minutes
def test_a_run_stopped_by_a_limit_and_by_a_signal_ends_as_one_that_was_never_stopped(
    unbroken, make_config, monkeypatch, caplog
):
    """Even if its folder was moved and renamed in between: settings and seed decide every bit."""
    config = make_config("stopped", training__max_updates=2)
    assert train(config) == 0
    run = (config.run.directory / "stopped").rename(config.run.directory.parent / "moved")

    class Interrupt(build.ProgressLine):
        def on_train_batch_begin(self, batch, logs=None):
            if batch == 3:
                signal.raise_signal(signal.SIGINT)

    longer = make_config("stopped")
    with monkeypatch.context() as patch, caplog.at_level("INFO"):
        patch.setattr(build, "ProgressLine", Interrupt)
        assert train(longer, resume=run) == 130
    assert f"interrupted after 4 updates; continue with:\n  qkv train --resume {run}" in caplog.text
    assert train(longer, resume=run) == 0
    for update in (3, 6, 8):
        np.testing.assert_equal(state_at(run, update), state_at(unbroken, update))
    assert content(run / "model.keras") == content(unbroken / "model.keras")
    assert load_run_config(run / "config.yaml") == longer  # the limit that was changed is recorded
    history = history_of(run)
    assert list(history.index) == [2, 3, 6, 8]  # it was validated too where a limit ended it
    pd.testing.assert_frame_equal(history.loc[[3, 6, 8]], history_of(unbroken), check_exact=True)
    shown = events_of(run)
    assert [event.step for event in shown.Tensors("metrics/loss")] == list(range(1, 9))
    validations = events_of(run / "validation")
    assert [event.step for event in validations.Tensors("metrics/bleu")] == [2, 3, 6, 8]
    assert [event.step for event in shown.Tensors("probe 0/average of layer 0")] == [2, 3, 6, 8]
    assert [update for _, update in probe_archives(run / "probes")] == [2, 3, 6, 8]


RECIPES = {
    "everything": {
        "training__optimizer": "muon",
        "training__weight_decay": 0.5,
        "training__r_drop": 3.0,
        "training__guided_attention": {"weight": 0.5, "head": 1},
        "training__average_checkpoints": 2,
        "batches__accumulated": 2,
        "batches__packed": True,
    },
    "packed": {
        "training__guided_attention": {"weight": 0.5, "head": 1},
        "batches__packed": True,
        "batches__accumulated": 2,
    },
    # It takes seconds to compile. The resumed run makes several updates in a call, the other one makes them one by one.
    "compiled": {
        "training__xla": True,
        "training__max_updates": 8,
        "training__validate_every_updates": 4,
        "training__log_every_updates": 4,
        "training__updates_per_call": 3,
    },
}


@pytest.mark.minutes
@pytest.mark.parametrize(
    "recipe", ["everything", *(pytest.param(name, marks=by_hand) for name in ("packed", "compiled"))]
)
def test_a_killed_run_of_every_recipe_equals_one_that_was_never_stopped(recipe, make_config):
    config = make_config("straight", **RECIPES[recipe], inspection__probes=[])
    straight, broken = (config.run.directory / name for name in ("straight", "broken"))
    saved = config.training.validate_every_updates
    assert train(config, callbacks=[Copy(straight, {saved + 1: broken})]) == 0
    assert [path.stem for path in broken.glob("checkpoints/update-*.npz")] == [f"update-{saved:08d}"]
    assert train(config, resume=broken) == 0
    assert differing(contents(broken), contents(straight)) == []


def test_training_a_finished_run_again_says_so_and_changes_nothing(unbroken, caplog):
    before = files_below(unbroken)
    with caplog.at_level("INFO"):
        assert train(load_run_config(unbroken / "config.yaml"), resume=unbroken) == 0
    assert (
        "unbroken is trained already, with 8 updates: training.max_updates (8) has ended it; to continue" in caplog.text
    )
    assert f"--resume {unbroken} --training.max_updates 16" in caplog.text
    assert files_below(unbroken) == before


def test_a_run_that_was_killed_before_its_manifest_is_completed_by_the_same_command(unbroken, tmp_path):
    """The model may even be that of a shorter training."""
    run = tmp_path / "unbroken"
    shutil.copytree(unbroken, run)
    for name in ("manifest.json", "projector/subwords.tsv"):
        (run / name).unlink()
    (run / "model.keras").write_bytes(b"of a shorter training")
    temporary_path(run / "manifest.json").write_bytes(b"half")
    assert load_run(run).weights == run / "checkpoints" / "best.npz"
    assert train(load_run_config(run / "config.yaml"), resume=run) == 0
    assert content(run / "model.keras") == content(unbroken / "model.keras")
    names = [
        sorted(str(path.relative_to(root)) for path in root.rglob("*") if "tfevents" not in path.name)
        for root in (run, unbroken)
    ]
    assert names[0] == names[1]


@pytest.fixture
def copied(unbroken, tmp_path):
    """A copy of `unbroken`, of another name."""
    return RunDirectory(shutil.copytree(unbroken, tmp_path / "copied"))


def edit(path, before, after):
    text = path.read_text(encoding="utf-8")
    assert text.count(before) == 1
    path.write_text(text.replace(before, after), encoding="utf-8")


EDITS = {
    "model.num_heads: 2, not 4": ("num_heads: 2", "num_heads: 4"),
    "training.learning_rate: 0.002, not 0.1": ("  learning_rate: 0.002", "  learning_rate: 0.1"),
    "tokenizer.vocabulary_size: 90, not 80": ("vocabulary_size: 90", "vocabulary_size: 80"),
    "training.guided_attention.weight: None, not 0.1": ("guided_attention: null", "guided_attention: {weight: 0.1}"),
}


@pytest.mark.parametrize("change", EDITS)
@pytest.mark.parametrize("has_checkpoints", [True, False])
def test_a_run_whose_settings_were_edited_is_not_continued(change, has_checkpoints, copied, capsys):
    if not has_checkpoints:
        shutil.rmtree(copied.checkpoints)
        copied.model.unlink()
    edit(copied.config, *EDITS[change])
    assert main(["--resume", str(copied.root)]) == 2
    message = capsys.readouterr().err
    assert f"{copied.config}: changed since the run began:\n  " in message and f"\n  {change}\n" in message
    edit(copied.config, *EDITS[change][::-1])
    check_same_settings(load_run_config(copied.config), copied)


@pytest.mark.minutes
def test_settings_that_may_change_are_edited_freely(copied):
    edit(copied.config, "max_updates: 8", "max_updates: 9")
    edit(copied.config, "beam_size: 5", "beam_size: 2")
    assert train(load_run_config(copied.config), resume=copied.root) == 0
    assert history_of(copied.root).index[-1] == 9


def test_text_that_was_moved_is_known_by_its_contents(copied, corpus, tmp_path):
    moved = shutil.copytree(corpus, tmp_path / "moved")
    text = copied.config.read_text(encoding="utf-8").replace(f"{corpus}/", f"{moved}/")
    copied.config.write_text(text, encoding="utf-8")
    check_same_settings(load_run_config(copied.config), copied)
    for name in ("train.en", "validation.fr"):
        copied.config.write_text(text.replace(f"{moved}/{name}", f"{moved}/test.en"), encoding="utf-8")
        with pytest.raises(InputError, match=rf"began:\n  data\.\w+\.\w+: {corpus}/{name}, not {moved}/test\.en\n"):
            check_same_settings(load_run_config(copied.config), copied)


@pytest.mark.parametrize("has_checkpoints", [True, False])
def test_a_run_whose_encoded_text_was_changed_is_not_continued(has_checkpoints, copied):
    if not has_checkpoints:
        shutil.rmtree(copied.checkpoints)
        copied.model.unlink()
    path = copied.encoded / "train.source.ids.npy"
    np.save(path, np.load(path)[::-1])
    with pytest.raises(InputError, match=r"train\.source\.ids\.npy: changed since the run began: its SHA-256"):
        train(load_run_config(copied.config), resume=copied.root)


def test_a_checkpoint_knows_the_report_that_has_the_settings_of_its_start(copied):
    for path in (copied.config, copied.corpus_report):
        text = path.read_text(encoding="utf-8")
        path.write_text(re.sub(r'\b(learning_rate"?): 0\.002', r"\1: 0.1", text), encoding="utf-8")
    with pytest.raises(InputError, match="the checkpoint is of another run, with another corpus report"):
        train(load_run_config(copied.config), resume=copied.root)


def test_weights_of_a_checkpoint_are_not_read_into_a_model_of_other_settings(copied):
    edit(copied.config, "num_heads: 2", "num_heads: 4")
    with pytest.raises(InputError, match=r"changed since the run began:\n  model\.num_heads: 2, not 4"):
        load_run(copied.root, "last")


class StubbedClock:
    """Goes on by a second with every update of any session."""

    def __init__(self, seconds_before):
        self.now = seconds_before
        StubbedClock.current = self

    def seconds(self):
        return self.now


class Second(keras.callbacks.Callback):
    """Lets a second pass with every update."""

    def on_train_batch_begin(self, batch, logs=None):
        StubbedClock.current.now += 1


@pytest.mark.minutes
def test_a_run_by_the_clock_ends_the_same_if_it_is_killed(make_config, monkeypatch, caplog):
    monkeypatch.setattr(loop, "TrainingClock", StubbedClock)
    clocked = {"training__schedule": "clock", "training__max_minutes": 0.75, "training__max_updates": None}
    clocked |= {"training__validate_every_updates": None, "training__warmup_updates": 30, "inspection__probes": []}
    config = make_config("straight", **clocked)
    straight, killed = (config.run.directory / name for name in ("straight", "killed"))
    assert train(config, callbacks=[Second(), Copy(straight, {36: killed})]) == 0
    assert list(killed.glob("checkpoints/update-*.npz"))
    assert train(config, resume=killed, callbacks=[Second()]) == 0
    last = int(history_of(straight).index[-1])
    assert last == pytest.approx(45, abs=2)
    np.testing.assert_equal(state_at(killed, last), state_at(straight, last))
    pd.testing.assert_frame_equal(history_of(killed), history_of(straight), check_exact=True)
    assert len(set(history_of(killed)["learning_rate"])) == len(history_of(killed))
    with caplog.at_level("INFO"):
        assert train(config, resume=killed) == 0
    assert f"its {last} updates filled 0.75 minutes" in caplog.text
    assert "--training.max_minutes 1.5 --run.name killed-longer" in caplog.text
