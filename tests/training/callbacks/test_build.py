"""The callbacks of a run, in the order in which they run."""

import json
from types import SimpleNamespace

import keras
import pytest
from tensorboard.plugins.hparams import api, metadata

from qkv.files.run_directory import RunDirectory
from qkv.text.corpora.corpus import Corpus
from qkv.training.callbacks import build
from qkv.training.callbacks.build import build_callbacks, hyperparameters
from qkv.training.callbacks.tensorboard import as_hyperparameters
from qkv.training.progress import Progress
from qkv.training.stopping import Limits
from tests.support.tiny_runs import small_config, write_small_corpus


@pytest.fixture
def callbacks_of(tmp_path, monkeypatch):
    monkeypatch.setattr(build, "AttentionRecorder", lambda *arguments, **settings: "recorder")

    def make(changes, update=0):
        config = small_config(write_small_corpus(tmp_path / "text"), tmp_path, "run", changes)
        batches, limited = SimpleNamespace(updates=lambda epoch: 7), SimpleNamespace(limits=Limits(max_updates=9))
        training = SimpleNamespace(step=SimpleNamespace(model=None), batches=batches, stopping=limited)
        translator, validation = SimpleNamespace(tokenizer=None, max_positions=64), Corpus(["b"], ["2"], [1], "text")
        return build_callbacks(config, RunDirectory(tmp_path), translator, training, Progress(update), validation)

    return make


def test_a_run_has_its_callbacks(callbacks_of):
    callbacks = callbacks_of({"inspection.probes": [{"source": "un chat", "reference": "a cat"}]}, update=5)
    names = [type(callback).__name__ for callback in callbacks]
    assert names == ["ProgressLine", "ProbeLines", "History", "TensorBoard", "ProbeArchive"]
    assert all(isinstance(callback, keras.callbacks.Callback) for callback in callbacks)
    board, archive = callbacks[-2:]
    assert board.first_update == archive.first_update == 5
    assert board.recorder == archive.recorder == "recorder"
    assert archive.show == board.show_attention
    assert {"run.name", "corpus", "model.d_model"} <= board.hyperparameters.keys()
    assert "model.attention.cross.score" not in board.hyperparameters  # the default
    assert not any(name.startswith(("data.", "inspection.")) for name in board.hyperparameters)


def row_of(config, run):
    """The row of TensorBoard's HPARAMS table: it shows one for the mean of all runs that have the same."""
    (value,) = api.hparams_pb(as_hyperparameters(hyperparameters(config, run))).value
    return metadata.parse_session_start_info_plugin_data(value.metadata.plugin_data.content).group_name


def test_hparams_have_a_row_for_each_run_and_corpus(tmp_path):
    text = write_small_corpus(tmp_path / "text")
    rows, shown = [], []
    for name, corpus, sha256 in [("a", text, "1"), ("b", text, "1"), ("a", text, "2"), ("a", tmp_path, "1")]:
        run = RunDirectory(tmp_path / str(len(rows)) / name)
        run.root.mkdir(parents=True)
        run.corpus_report.write_text(json.dumps({"sha256": {"train.en": sha256}}))
        config = small_config(corpus, tmp_path, name)
        rows.append(row_of(config, run))
        shown.append(hyperparameters(config, run))
        assert row_of(config, run) == rows[-1]
    assert len(set(rows)) == 4
    assert [values["run.name"] for values in shown] == ["a", "b", "a", "a"]
    assert shown[0]["corpus"].startswith(f"en-fr {text}/train.en (") and shown[3]["corpus"].startswith(
        f"en-fr {tmp_path}"
    )
    assert shown[0]["corpus"] == shown[1]["corpus"] != shown[2]["corpus"]


@pytest.mark.parametrize(
    ("probes", "shown"), [(None, [("b", "2")]), ([], []), ([{"source": "un chat"}], [("un chat", None)])]
)
def test_without_probes_validation_pairs_are_shown_unless_the_list_is_empty(callbacks_of, probes, shown):
    _, lines, _, board, archive = callbacks_of({"inspection.probes": probes, "inspection.probe_updates": [0, 9]})
    assert lines.probes == shown
    assert board.sources == [source for source, _ in shown]
    assert archive.pairs == [pair for pair in shown if pair[1]] and set(archive.updates) == {0, 9}
