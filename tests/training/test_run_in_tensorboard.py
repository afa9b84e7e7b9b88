"""What a run leaves for TensorBoard: read back from its event files, and served once."""

import json
import subprocess
import sys
import time
import urllib.parse
import urllib.request

import numpy as np
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.data_provider import MultiplexerDataProvider
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.plugins.base_plugin import TBContext
from tensorboard.plugins.projector.projector_plugin import ProjectorPlugin
from werkzeug.test import Client

from tests.support.processes import PATIENCE_SECONDS
from tests.support.run_contents import history_of


@pytest.fixture(scope="module")
def events(unbroken):
    accumulator = EventAccumulator(str(unbroken), size_guidance={"images": 0, "tensors": 0})
    return accumulator.Reload()


@pytest.fixture(scope="module")
def validations(unbroken):
    return EventAccumulator(str(unbroken / "validation"), size_guidance={"tensors": 0}).Reload()


def test_one_chart_has_the_losses_of_training_and_validation(unbroken, events, validations):
    assert [event.step for event in events.Tensors("metrics/loss")] == list(range(1, 9))
    for name in ("gradient_norm", "learning_rate"):
        assert [event.step for event in events.Tensors(f"training/{name}")] == list(range(1, 9))
    for name in ("loss", "perplexity", "token_accuracy", "bleu"):
        steps = {
            event.step: float(tf.make_ndarray(event.tensor_proto)) for event in validations.Tensors(f"metrics/{name}")
        }
        np.testing.assert_allclose(list(steps.values()), history_of(unbroken)[f"val_{name}"], rtol=1e-5)
        assert list(steps) == [3, 6, 8]
    assert not {f"training/{name}" for name in ("update", "epoch", "minutes")} & set(events.Tags()["tensors"])


def test_curves_and_pictures_say_what_they_show(events):
    tags = [tag for tag in events.Tags()["tensors"] if tag.startswith(("metrics/", "probes/", "probe 0/"))]
    assert len(tags) > 4
    assert all(events.SummaryMetadata(tag).summary_description for tag in tags)


def test_tensorboard_has_the_probes_as_a_table_that_markdown_does_not_change(events):
    (tag,) = [tag for tag in events.Tags()["tensors"] if tag == "probes"]
    tables = {event.step: tf.make_ndarray(event.tensor_proto).item().decode() for event in events.Tensors(tag)}
    assert list(tables) == [3, 6, 8]
    lines = tables[8].splitlines()
    assert lines[0] == "| # | source | reference | translation |"
    assert lines[2].startswith("| 0 | Jane visits Africa . | Jane visite l'Afrique . | ")
    assert lines[3].startswith("| 1 | a &#42; star &#124; and &#91;brackets&#93; |  | ")


def test_tensorboard_has_a_picture_of_each_probes_attention(events):
    for probe in (0, 1):
        pictures = events.Tensors(f"probe {probe}/average of layer 0")
        assert [event.step for event in pictures] == [3, 6, 8]
        assert tf.make_ndarray(pictures[0].tensor_proto)[2].startswith(b"\x89PNG")


def test_tensorboard_has_the_sharpness_of_the_probes_attention_over_time(events):
    for name, highest in (("entropy", 5), ("eos_share", 1), ("diagonality", 1)):
        values = events.Tensors(f"probes/{name}, layer 0")
        assert [event.step for event in values] == [3, 6, 8]
        assert all(0 < float(tf.make_ndarray(event.tensor_proto)) < highest for event in values)


def test_a_run_is_named_as_its_folder_and_the_projector_finds_its_vectors(unbroken):
    runs = EventMultiplexer().AddRunsFromDirectory(str(unbroken.parent))
    assert set(runs.Runs()) == {"unbroken", "unbroken/validation"}
    provider = MultiplexerDataProvider(runs, str(unbroken.parent))
    apps = ProjectorPlugin(TBContext(data_provider=provider, logdir=str(unbroken.parent))).get_plugin_apps()

    def ask(page, **asked):
        return Client(apps[page]).get("/", query_string=asked)

    assert ask("/runs").json == ["unbroken"]
    (vectors,) = ask("/info", run="unbroken").json["embeddings"]
    assert vectors["tensorShape"] == [90, 8]
    asked = {"run": "unbroken", "name": vectors["tensorName"]}
    assert len(ask("/metadata", **asked).text.splitlines()) == 1 + 90
    assert np.frombuffer(ask("/tensor", **asked).data, np.float32).size == 90 * 8


@pytest.fixture(scope="module")
def served(unbroken):
    """Asks a TensorBoard of the runs, in a process of its own, for what its plugins show."""
    program = (
        "import sys, tensorboard.program as program\n"
        "board = program.TensorBoard()\n"
        "board.configure(argv=[None, '--logdir', sys.argv[1], '--port', '0', '--load_fast', 'false'])\n"
        "print(board.launch(), flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", program, str(unbroken.parent)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as board:
        address = board.stdout.readline().decode().strip()

        def get(path):
            with urllib.request.urlopen(f"{address}{path}", timeout=PATIENCE_SECONDS) as answer:
                return answer.read().decode()

        yield get
        board.stdin.close()


@pytest.mark.minutes
def test_tensorboard_serves_runs_hyperparameters_and_vectors(served, unbroken):
    deadline = time.monotonic() + PATIENCE_SECONDS
    wanted, active = {"scalars", "images", "text", "hparams", "projector", "graphs"}, set()
    while not wanted <= active and time.monotonic() < deadline:  # it reads the files after it has started
        listing = json.loads(served("data/plugins_listing"))
        active = {name for name, plugin in listing.items() if plugin["enabled"]}
        time.sleep(0.1)
    assert wanted <= active
    assert json.loads(served("data/runs")) == ["unbroken", "unbroken/validation"]
    experiment = json.loads(served("data/plugin/hparams/experiment?request=%7B%7D"))
    shown = {info["name"]: info for info in experiment["hparamInfos"]}
    assert {"run.name", "corpus", "model.d_model"} <= shown.keys() and len(shown) < 30  # not the defaults
    scores = {info["name"]["tag"] for info in experiment["metricInfos"]}
    assert scores == {f"metrics/{name}" for name in ("loss", "perplexity", "token_accuracy", "bleu")}
    info = json.loads(served("data/plugin/projector/info?run=unbroken"))["embeddings"][0]
    name = urllib.parse.quote(info["tensorName"])
    names = served(f"data/plugin/projector/metadata?run=unbroken&name={name}").split("\n")
    assert names[1].startswith("<pad>\t") and len(names) == 1 + 90 + 1
    assert info["tensorShape"] == [90, 8]
    graph = served("data/plugin/graphs/graph?run=unbroken&conceptual=false")
    assert "decoder_0" in graph and "MatMul" in graph
