"""What a run leaves for TensorBoard: read back from its event files, and asked of a TensorBoard."""

import warnings

import numpy as np
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.data_provider import MultiplexerDataProvider
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from werkzeug.test import Client

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


@pytest.fixture(scope="module")
def ask(unbroken):
    """Asks a TensorBoard of the runs for what its plugins show."""
    with warnings.catch_warnings(action="ignore"):  # TensorBoard imports what its own html5lib calls deprecated
        from tensorboard.backend.application import TensorBoardWSGIApp
        from tensorboard.program import TensorBoard
    folder, board = str(unbroken.parent), TensorBoard()
    board.configure(argv=[None, "--logdir", folder])
    provider = MultiplexerDataProvider(EventMultiplexer().AddRunsFromDirectory(folder).Reload(), folder)
    app = TensorBoardWSGIApp(board.flags, board.plugin_loaders, provider, board.assets_zip_provider)
    return lambda path, **asked: Client(app).get(f"/data/{path}", query_string=asked)


def test_a_run_is_named_as_its_folder_and_has_what_each_plugin_shows(ask):
    assert ask("runs").json == ["unbroken", "unbroken/validation"]
    active = {name for name, plugin in ask("plugins_listing").json.items() if plugin["enabled"]}
    assert {"scalars", "images", "text", "hparams", "graphs"} <= active
    graph = ask("plugin/graphs/graph", run="unbroken", conceptual="false").text
    assert "decoder_0" in graph and "MatMul" in graph


def test_the_settings_that_differ_from_the_defaults_stand_by_the_scores(ask):
    experiment = ask("plugin/hparams/experiment", request="{}").json
    shown = {info["name"] for info in experiment["hparamInfos"]}
    assert {"run.name", "corpus", "model.d_model"} <= shown and len(shown) < 30
    scores = {info["name"]["tag"] for info in experiment["metricInfos"]}
    assert scores == {f"metrics/{name}" for name in ("loss", "perplexity", "token_accuracy", "bleu")}


def test_the_projector_finds_the_vectors_and_their_names(ask):
    assert ask("plugin/projector/runs").json == ["unbroken"]
    (vectors,) = ask("plugin/projector/info", run="unbroken").json["embeddings"]
    assert vectors["tensorShape"] == [90, 8]
    asked = {"run": "unbroken", "name": vectors["tensorName"]}
    names = ask("plugin/projector/metadata", **asked).text.splitlines()
    assert names[1].startswith("<pad>\t") and len(names) == 1 + 90
    assert np.frombuffer(ask("plugin/projector/tensor", **asked).data, np.float32).size == 90 * 8
